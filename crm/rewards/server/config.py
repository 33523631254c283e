"""Settings of `serve.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass

from crm.config import setting
from crm.judges import AnyJudgeConfig
from crm.web.config import ServerConfig


@dataclass
class ServeConfig(AnyJudgeConfig, ServerConfig):
    """``serve.py``."""

    port: int = setting(8000, at_least=1, at_most=65535)
    name: str | None = None
    """What requests call the model; null takes the checkpoint as it was given, or the judge's name."""
    queue_rows: int = setting(4096, at_least=1, unit="readings")
    """Readings that may wait; a request beyond them is answered with 503 at once."""
    batch_rows: int = setting(256, at_least=1, unit="readings")
    """Readings of waiting requests that are made together; one request is never taken apart."""
    key_variable: str = "CRM_SERVER_KEY"
    """Environment variable that holds the key which requests have to bring; where it is not set, none is asked for."""
