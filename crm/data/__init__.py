"""Preference data: sources, splits, comparisons, noise, suites."""
