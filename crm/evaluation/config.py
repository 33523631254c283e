"""Settings of `evaluate.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import setting
from crm.dataset.comparisons import CRITERIA_MODES
from crm.dataset.config import DataConfig, SuiteConfig
from crm.judges.config import AnyJudgeConfig
from crm.training.config import LoggerConfig


@dataclass
class EvaluateConfig(AnyJudgeConfig):
    """``evaluate.py``."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
    data: DataConfig = field(default_factory=DataConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Where the results go besides the files of the run folder."""
    criteria: str = setting("own", one_of=CRITERIA_MODES)
    criteria_rendering: str = setting("list", one_of=("list", "per_character"))
    """``per_character`` renders one bullet a character, a defect of an earlier evaluator, to measure its effect."""
