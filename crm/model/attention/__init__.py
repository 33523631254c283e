"""Attention that reads what is shared once.

- `frozen_layers`: layers below a frozen depth, run once
- `frozen_states`: where their states are kept
- `kv_cache`: keys and values of texts read before
- `prefill`: read texts once, continue them often
"""

__all__ = ["frozen_layers", "frozen_states", "kv_cache", "prefill"]
