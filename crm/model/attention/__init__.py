"""Attention that reads what is shared once.

- `frozen_layers`: layers below a frozen depth, run once
- `frozen_states`: where their states are kept
"""

__all__ = ["frozen_layers", "frozen_states"]
