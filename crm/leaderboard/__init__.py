"""A judge on a bank: scores, rankings, races.

- `Leaderboard`: matches to win rates, ranks and intervals
- `bank`: queries and the responses of LLMs
- `compare`: two rankings: Kendall's tau
- `compare_with_truth`: a ranking and the true win rates
- `config`: settings of ``leaderboard.py``
- `index`: what a late head keeps of a bank, and scores by it
- `indexed_bank`: a bank with its index
- `open_bank`: a bank from its settings
- `outcomes`: who won which comparison, and how surely
- `run_leaderboard`: rank as configured
- `scoring`: a bank's comparisons and matches
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
