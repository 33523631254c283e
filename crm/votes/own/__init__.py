"""Votes in formats of one's own.

- `dataset`: what ``prepare.py`` wrote
- `table`: a CSV, TSV, JSON or Parquet table
"""

__all__ = ["dataset", "table"]
