"""Settings of `evaluate.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import one_of
from crm.dataset.comparisons import CRITERIA_MODES
from crm.dataset.config import DataConfig, SuiteConfig
from crm.judges import AnyJudgeConfig


@dataclass
class EvaluateConfig(AnyJudgeConfig):
    """``evaluate.py``."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
    data: DataConfig = field(default_factory=DataConfig)
    criteria: str = "own"
    criteria_rendering: str = "list"
    """``per_character`` renders one bullet a character, a defect of an earlier evaluator, to measure its effect."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("criteria", self.criteria, CRITERIA_MODES)
        one_of("criteria_rendering", self.criteria_rendering, ("list", "per_character"))
