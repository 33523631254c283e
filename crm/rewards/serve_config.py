"""Settings of `serve.py`, which needs the packages of a server."""

from __future__ import annotations

from dataclasses import dataclass

from crm.config import setting
from crm.judges.config import AnyJudgeConfig
from crm.web import ServerConfig


@dataclass
class ServeConfig(AnyJudgeConfig, ServerConfig):
    """``serve.py``."""

    port: int = setting(8000, at_least=1, at_most=65535)
    name: str | None = None
    """What requests call the model; null takes the checkpoint as it was given, or the judge's name."""
    queue_rows: int = setting(4096, at_least=1, unit="readings")
    """Readings that may wait; a request beyond them is answered with 503 at once."""
