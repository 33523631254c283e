"""A chat endpoint: questions out, checked replies in.

- `asker`: many questions, one outcome each
- `cache`: valid replies in one SQLite file
- `client`: one call: deadlines, retries, budget
- `config`: settings of an endpoint
- `counts`: what an asker did, in numbers that add up
- `endpoint`: address, limits and key, checked
- `failures`: why a request got no answer
- `replies`: from a body to one validated object
- `together`: several jobs at once
"""

__all__ = ["asker", "cache", "client", "config", "counts", "endpoint", "failures", "replies", "together"]
