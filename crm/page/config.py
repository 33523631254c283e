"""Settings of `app.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import setting
from crm.judges.config import AnyJudgeConfig
from crm.leaderboard.config import BankConfig, settle_bank
from crm.rewards.config import ServerConfig


@dataclass
class AppConfig(AnyJudgeConfig, ServerConfig):
    """``app.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    port: int = setting(7860, at_least=1, at_most=65535)
    facts: str | None = None
    """CSV file of facts about models, such as licence and price; null takes ``models.csv`` beside a folder bank."""
    pool: str | None = None
    """YAML file of criteria to pick by; null takes those of the package."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_bank(self.bank, self.checkpoint)
