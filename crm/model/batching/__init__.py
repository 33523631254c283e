"""Comparisons to batches.

- `batches`: padded batches
- `forest`: sequences that share prefixes as trees
- `loader`: the stateful loader of training, and that of evaluation
- `packs`: comparisons that share a prompt in one row
- `padding_batches`: as many batches on every rank
- `plans`: which comparisons make up a step
"""

__all__ = ["batches", "forest", "loader", "packs", "padding_batches", "plans"]
