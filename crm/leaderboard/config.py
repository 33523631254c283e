"""Settings of `leaderboard.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from crm.config import require
from crm.judges import AnyJudgeConfig
from crm.leaderboard.bank.config import BankConfig
from crm.training.config import LoggerConfig


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
    sort: str = "win_rate"
    settle_top: int = 0
    """Score only until it is known which models are the first so many, the baseline among them; 0 scores everything."""
    settle_confidence: float = 0.95
    """Probability, at least, that the set found by ``settle_top`` is the one that scoring everything would give."""
    bank_states_gb: float = 0.0
    """Files, in 10^9 bytes, of what a criteria-last model makes of the bank's responses, for the next user; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.settle_top >= 0, "settle_top", self.settle_top, "0 (score everything) or more")
        require(0 < self.settle_confidence < 1, "settle_confidence", self.settle_confidence, "between 0 and 1")
        require(0 <= self.bank_states_gb < math.inf, "bank_states_gb", self.bank_states_gb, "0 (keep none) or more")
        require(
            not self.settle_top or self.devices * self.nodes == 1,
            "settle_top",
            self.settle_top,
            "0 with several devices: a race goes on from what it has just read; use devices=1",
        )
        for criterion in self.criteria:
            require(bool(criterion.strip()), "criteria", criterion, "text")
