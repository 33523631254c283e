"""Settings of the data: sources, suites, direction, noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crm.config import MAX_SEED, Settings, setting
from crm.data.catalogue import MADE, OWN, SOURCES, source_named
from crm.data.comparisons import DIRECTIONS, NOISES
from crm.data.recognise import recognise
from crm.io.installed import check_known
from crm.schema import SIDES

MIXED = tuple(name for name in SOURCES if name not in OWN)


@dataclass
class DataConfig(Settings, group="data"):
    """Where preferences come from. Sizes are preferences; 0 means all there are."""

    name: str = "simulation"
    """Of the source; ``file`` becomes the one whose format ``path`` has, which a name given here decides."""
    root: str = "${oc.env:CRM_DATA_ROOT,data}"
    """Folder of the public sets."""
    path: str | None = None
    """File or folder of one's own, a dataset of a hub (hf://owner/name), or a folder of ``prepare.py``."""
    sources: list[str] = field(default_factory=list)
    """For data=mixture: the sets to put together, each with a folder of its own under ``root``; the sizes below are
    then those of every one of them."""
    columns: Any = None
    """Of a table: our fields and the columns they are in, such as {prompt: question}."""
    winners: Any = None
    """Of a table: what the winner's column holds, and which of a, b, tie it means, such as {first: a}."""
    train: int = setting(0, at_least=0, zero="all")
    validation: int = setting(0, at_least=0, zero="all")
    suite: int = setting(0, at_least=0, zero="all")
    max_words: int = setting(0, at_least=0, zero="all")
    """Words kept of a response."""
    validation_fraction: float = setting(0.1, at_least=0, below=0.5)
    """Share of prompts, for sources without a split of their own."""
    test_fraction: float = setting(0.1, at_least=0, below=0.5, why="data.split=all evaluates every row")
    split: str = setting("auto", one_of=("auto", "all"))
    """``all``: every row of one's own votes, or every test file, is evaluated, none is trained on; ``auto``: by prompt,
    or the set's own."""
    near_duplicates: float = setting(0.8, above=0, at_most=1)
    """Share of 5-grams in common from which on prompts are kept in one part; 1.0: equal prompts only."""
    strict: bool = True
    """Stop at the first malformed row; false keeps the valid ones and counts the others."""
    seed: int = setting(1, at_least=0, at_most=MAX_SEED)
    """Seed of simulation, split and subsampling; apart from the seed of training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.as_mappings("columns", "winners")
        if self.name == "file":
            self._recognise()
        needs_path = self.name == "dataset" or (self.name not in MADE and source_named(self.name).folder is None)
        self.require(not needs_path or self.path, "path", f"a file or folder for data.name={self.name}")
        self.require(needs_path or not self.path, "path", f"none with data={self.name}; data={self.path} reads it")
        self.require((self.name == "mixture") == bool(self.sources), "sources", "names, for data=mixture only")
        for name in self.sources:
            check_known("data.sources", name, MIXED, "sources")
        for name in ("columns", "winners"):
            self.require(self.name == "table" or not getattr(self, name), name, "null, but for a table")
        self.require(self.split == "auto" or self.name in OWN, "split", f"auto, but for {', '.join(OWN)}")
        sides = (self.winners or {}).values()
        self.require(set(sides) <= set(SIDES), "winners", f"a mapping to {', '.join(SIDES)}")

    def _recognise(self) -> None:
        """Take the name of the source that reads ``path``, and how it reads a table."""
        if not self.path:
            raise ValueError(
                "data: not given; write data=pairs.jsonl (a file or folder of your own), data=hf://owner/name, "
                "data=dsp (or another public set; crm-prepare fetch=dsp gets it) or data=simulation"
            )
        if self.columns:
            self.name = "table"
            return
        found = recognise(self.path)
        self.name, self.columns = found.name, found.columns or None
        self.winners = {**found.winners, **(self.winners or {})} or None

    @property
    def word(self) -> str:
        """What chooses these data on a command line."""
        return f"data={self.path or self.name}"

    def title(self) -> str:
        """The source's name or file, and its held-out part."""
        place = (self.path or self.name).rstrip("/").removeprefix("hf://")
        whole = self.name not in OWN or OWN[self.name].evaluation_only or self.split == "all"
        return f"{Path(place).name}{'' if whole else ', held-out prompts'}"


@dataclass
class DirectionConfig(Settings, group="direction"):
    """Whose criteria condition a training comparison."""

    kind: str = setting("auto", one_of=("auto", *DIRECTIONS))
    """``auto``: both, and with ``criteria=none`` original."""


@dataclass
class NoiseConfig(Settings, group="noise"):
    """Perturbation of the criteria in training, drawn anew per sample and epoch."""

    kind: str = setting("none", one_of=NOISES)
