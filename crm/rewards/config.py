"""Settings of `serve.py` and `best_of_n.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import setting
from crm.judges.config import AnyJudgeConfig
from crm.leaderboard.config import BankConfig, settle_bank
from crm.web import ServerConfig


@dataclass
class ServeConfig(AnyJudgeConfig, ServerConfig):
    """``serve.py``."""

    port: int = setting(8000, at_least=1, at_most=65535)
    name: str | None = None
    """What requests call the model; null takes the checkpoint as it was given, or the judge's name."""
    queue_rows: int = setting(4096, at_least=1, unit="readings")
    """Readings that may wait; a request beyond them is answered with 503 at once."""


@dataclass
class BestOfNConfig(AnyJudgeConfig):
    """``best_of_n.py``."""

    candidates: str | None = None
    """A file of responses to choose from; null chooses among the LLMs of ``bank``."""
    bank: BankConfig = field(default_factory=BankConfig)
    criteria: list[str] = field(default_factory=list)
    """What the user cares about, for all queries; empty takes the criteria of the file."""
    max_k: int = setting(128, at_least=2, at_most=4096)
    """Responses to choose from at most."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_bank(self.bank, self.checkpoint if self.candidates is None else None)
        self.require((self.devices, self.nodes) == (1, 1), "devices", "1: one process reads everything")
        self.require(all(map(str.strip, self.criteria)), "criteria", "no blank ones")
