"""What the project's HTTP servers share: how connections are kept, how large a body may be, how a body is read.

- `bodies`: a body becomes checked fields, or a sentence
- `body_limit`: no body larger than a limit
- `connections`: deadlines, and a bound on connections
"""

__all__ = ["bodies", "body_limit", "connections"]
