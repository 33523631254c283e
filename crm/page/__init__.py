"""The leaderboard as a page, an HTTP API and a client.

- `client`: the HTTP API from Python
- `config`: settings of ``app.py``
- `run`: serve as configured
"""

__all__ = ["client", "config", "run"]
