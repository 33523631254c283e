"""Comparisons to batches.

- `batches`: padded batches
- `forest`: sequences that share prefixes as trees
- `loader`: the stateful loader of training, and that of evaluation
- `packs`: forward passes of a bounded size, without padding
- `padding_batches`: as many batches on every rank
- `plans`: which comparisons make up a step
"""

__all__ = ["batches", "forest", "loader", "packs", "padding_batches", "plans"]
