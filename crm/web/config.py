"""Settings that the HTTP servers share."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from crm.config import Settings

NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


@dataclass
class ServerConfig(Settings):
    """What a command that serves takes."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    hosts: list[str] = field(default_factory=list)
    """Host names to answer to besides those of this machine, without a port.

    With none, a server on a loopback address answers to the names of this machine alone, any other to every name.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.hosts:
            if not NAME.fullmatch(name):
                raise self.refused("hosts", "names such as leaderboard.example.org, without scheme and port", name)
