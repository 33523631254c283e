"""Comparisons to batches: `batches` (tensors), `forest` (shared prefixes), `plans` (which rows), `loader`."""
