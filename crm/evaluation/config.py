"""Settings of `evaluate.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crm.config import PRECISIONS, setting
from crm.dataset.comparisons import CRITERIA_MODES
from crm.dataset.config import DataConfig, SuiteConfig
from crm.judges import AnyJudgeConfig
from crm.training.config import ACCELERATORS, LoggerConfig, TrainerConfig

OF_THE_TRAINER = ("devices", "nodes", "precision", "threads")
"""Settings of the command that are settings of its trainer too; to give one of the two is enough."""


@dataclass
class ReadingTrainerConfig(TrainerConfig):
    """The trainer that reads with a checkpoint, chosen from the group that ``train.py`` has.

    Of its settings accelerator, devices, nodes, strategy, precision and threads have a say; the others are about
    training.
    """

    name: str = "none"
    accelerator: str = setting("auto", one_of=ACCELERATORS)
    """``auto`` is a CUDA GPU where there is one, else the CPU."""

    devices: Any = 1
    nodes: Any = 1
    precision: str = setting("32-true", one_of=(*PRECISIONS, "auto"))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("compile", "liger"):
            why = "readings of other kernels would have the same digest"
            self.require(not getattr(self, name), name, f"false: {why}")


@dataclass
class EvaluateConfig(AnyJudgeConfig):
    """``evaluate.py``."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
    data: DataConfig = field(default_factory=DataConfig)
    trainer: ReadingTrainerConfig = field(default_factory=ReadingTrainerConfig)
    """For judge=crm; another judge takes its devices, nodes, precision and threads from it."""
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Where the results go besides the files of the run folder."""
    criteria: str = setting("own", one_of=CRITERIA_MODES)

    def __post_init__(self) -> None:
        for name in OF_THE_TRAINER:
            self._agree(name)
        if self.precision == "auto":
            self.precision = PRECISIONS[0]  # until the device is known
        super().__post_init__()

    def _agree(self, name: str) -> None:
        """Have the setting ``name`` of command and trainer be one. Raises ``ValueError`` where both say something."""
        own, trainers = getattr(self, name), getattr(self.trainer, name)
        typed = trainers not in ("auto", getattr(ReadingTrainerConfig, name))
        if typed and own != trainers:
            raise ValueError(
                f"{name}={own} and trainer.{name}={trainers}: they are one setting; leave out {name}={own}"
            )
        setattr(self.trainer, name, own)
