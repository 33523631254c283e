"""From raw votes to a dataset folder.

- `config`: settings of ``prepare.py``
- `run`: the whole preparation
"""

__all__ = ["config", "run"]
