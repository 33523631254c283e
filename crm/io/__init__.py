"""Files, rows, Parquet, hubs, chat endpoints, processes."""
