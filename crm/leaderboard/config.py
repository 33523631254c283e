"""Settings of `leaderboard.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from crm.judges.config import AnyJudgeConfig
from crm.leaderboard.bank.config import BankConfig
from crm.model.config import training_config
from crm.training.config import LoggerConfig


def settle_bank(bank: BankConfig, checkpoint: str | None) -> None:
    """Have ``bank=own`` be the simulated bank.

    Raises ``ValueError`` for a checkpoint trained on other data: simulated LLMs would not show what it learned.
    """
    if bank.name != "own":
        return
    data = training_config(checkpoint).get("data") or {}
    if data.get("name", "simulation") != "simulation":
        raise ValueError(
            f"bank: not given, and {checkpoint} was trained on {data.get('path') or data['name']}, which has no "
            "LLMs to rank; name real ones: bank=alpacaeval (`python prepare.py fetch=alpacaeval out=data` gets it) or "
            "bank=folder bank.path=<folder>; bank=simulated has 13 simulated ones"
        )
    bank.name = "simulated"


@dataclass
class LeaderboardConfig(AnyJudgeConfig):
    """``leaderboard.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Where the ranking goes besides the files of the run folder."""
    topics: list[str] = field(default_factory=list)
    """Topics to rank on; empty means all."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about; empty means what most people would like."""
    weights: list[float] = field(default_factory=list)
    """How much each criterion counts, below 0 where it is disliked; empty means all alike. ``head=late`` or traits."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_bank(self.bank, self.checkpoint)
        self.require(all(map(str.strip, self.criteria)), "criteria", "no blank ones")
        count = len(self.criteria)
        self.require(len(self.weights) in (0, count), "weights", f"as many numbers as criteria ({count}), or none")
        self.require(all(map(isfinite, self.weights)), "weights", "finite numbers")
        self.require(not self.weights or any(self.weights), "weights", "one at least that is not 0")
