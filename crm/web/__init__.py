"""What the HTTP servers share.

- `config`: settings of every server
- `server`: host names, the limit of a body, and uvicorn
"""

__all__ = ["config", "server"]
