"""Preferences to comparisons: direction, noise, suites; and ``prepare.py``.

- `comparisons`: preferences to labelled comparisons: whose criteria, which side
- `config`: settings of data, direction, noise, suites
- `load`: every ``data=`` option as `Splits`
- `noise`: perturbed criteria
- `prepare`: raw votes to a dataset, stage by stage
- `suites`: fixed test suites and their names
"""

__all__ = ["comparisons", "config", "load", "noise", "prepare", "suites"]
