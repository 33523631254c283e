"""Statistics, tables, charts and HTML reports; never loads torch."""
