"""What the project's HTTP servers share: where they listen, whom they answer, how large a body may be, how it is read.

- `bodies`: a body becomes checked fields, or a sentence
- `body_limit`: no body larger than a limit
- `config`: settings of every server
- `hosts`: names that a server answers to, and sites that may ask it
- `listening`: an address that is free, and the run of a server there
"""

__all__ = ["bodies", "body_limit", "config", "hosts", "listening"]
