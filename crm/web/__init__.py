"""What the HTTP servers share.

- `bodies`: request bodies that are checked, and errors as sentences
- `config`: settings of every server
- `server`: host names, the limit of a body, and uvicorn
"""

__all__ = ["bodies", "config", "server"]
