"""Files, rows, hubs, processes."""
