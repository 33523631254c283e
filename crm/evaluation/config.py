"""Settings of `evaluate.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crm.config import setting
from crm.data.comparisons import CRITERIA_MODES, SUITE, SUITES
from crm.data.config import DataConfig
from crm.judges.config import AnyJudgeConfig
from crm.training.config import LoggerConfig


@dataclass
class EvaluateConfig(AnyJudgeConfig):
    """``evaluate.py``."""

    suite: Any = "standard"
    """``standard``, ``noised`` or ``all`` suites of the data, or names in a list; on a command line benchmarks too."""
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

    def __post_init__(self) -> None:
        super().__post_init__()
        named = isinstance(self.suite, list) and all(SUITE.fullmatch(str(name)) for name in self.suite)
        allowed = f"{', '.join(SUITES)}, names in a list ([D+,D-_add]), or benchmarks (docs/evaluation.md)"
        self.require(named or self.suite in list(SUITES), "suite", allowed)
        for name, unset in (("against", None), ("limit", 0)):
            beside = "a benchmark beside it: suite=rm_bench (two models on votes: -m checkpoint=A,B data=votes.jsonl)"
            self.require(self.benchmarks or getattr(self, name) == unset, name, beside)
