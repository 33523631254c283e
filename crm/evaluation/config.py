"""Settings of `evaluate.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import setting
from crm.data.comparisons import CRITERIA_MODES
from crm.data.config import DataConfig, SuiteConfig
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
    attacks: int = setting(0, at_least=0, zero="none", unit="pairs")
    """Pairs whose losing response is attacked; the table goes into ``robustness.md`` and the model's card."""
    benchmarks: list[str] = field(default_factory=list)
    """Public benchmarks to run instead of the suites of ``data``, on files under ``data.root``; ``public`` is all."""
    limit: int = setting(0, at_least=0, zero="all", unit="items")
    """Items of each benchmark, drawn by their ids."""
    against: str | None = None
    """A second model, as ``checkpoint``, that the first one is compared with on the same benchmarks."""
