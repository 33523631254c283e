"""Settings of `score.py`, `best_of_n.py` and `serve.py`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import MISSING

from crm.config import Settings, setting
from crm.judges.config import AnyJudgeConfig
from crm.leaderboard.config import BankConfig, settle_bank


@dataclass
class ScoreConfig(AnyJudgeConfig):
    """``score.py``: ``model=`` is ``checkpoint=``, ``in=`` is ``input=``."""

    input: str = MISSING
    """File, folder or ``hf://owner/name`` of rows to score; ``-`` reads JSON Lines from standard input."""
    out: str = MISSING
    """File to write, ``.jsonl``, ``.csv`` or ``.parquet``; ``-`` writes JSON Lines to standard output."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about, for rows that have no criteria of their own."""
    explain: bool = False
    """Whether each criterion gets what it adds to the score: the score without it, taken off."""
    overwrite: bool = False
    """Whether ``out`` may be replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "://" not in self.input:
            self.input = str(Path(self.input).expanduser())
        self.out = str(Path(self.out).expanduser())
        self.require(all(map(str.strip, self.criteria)), "criteria", "no blank ones")
        self.require(
            self.out.endswith(("-", ".jsonl", ".csv", ".parquet")), "out", "a .jsonl, .csv or .parquet file, or -"
        )
        piped = "-" in (self.input, self.out)
        self.require(not piped or (self.devices, self.nodes) == (1, 1), "devices", "1 where input or out is a pipe")


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


HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")


@dataclass
class ServerConfig(Settings):
    """What a command that serves takes."""

    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    hosts: list[str] = field(default_factory=list)
    """Host names to answer to besides those of this machine, without a port.

    With none, a server on a loopback address answers to the names of this machine alone, any other to every name.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.hosts:
            if not HOST_NAME.fullmatch(name):
                raise self.refused("hosts", "names such as leaderboard.example.org, without scheme and port", name)


@dataclass
class ServeConfig(AnyJudgeConfig, ServerConfig):
    """``serve.py``."""

    port: int = setting(8000, at_least=1, at_most=65535)
    name: str | None = None
    """What requests call the model; null takes the checkpoint as it was given, or the judge's name."""
    queue_rows: int = setting(4096, at_least=1, unit="readings")
    """Readings that may wait; a request beyond them is answered with 503 at once."""
