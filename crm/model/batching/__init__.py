"""Comparisons to batches: `batches` (tensors), `forest`, `tree_mask`, `plans` (which rows), `loader`."""
