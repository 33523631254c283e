"""The leaderboard as a page, an HTTP API and a client. In: a bank and a judge. Out: rankings.

- `LeaderboardClient`: the HTTP API from Python
- `config`: settings of ``app.py``
- `run_app`: serve as configured
- `scoring_queue`: fair turns at the judge
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
