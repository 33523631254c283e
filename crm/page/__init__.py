"""The leaderboard as a page, an HTTP API and a client.

- `LeaderboardClient`: the HTTP API from Python
- `config`: settings of ``app.py``
- `run_app`: serve as configured
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
