"""Raw votes to a dataset, stage by stage.

- `config`: settings of ``prepare.py``
- `run`: all stages in order
"""

__all__ = ["config", "run"]
