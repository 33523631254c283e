"""Settings of ``prepare.py`` beyond its data. In: the values Hydra composed. Out: values in range, or an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crm.config import mapping, one_of, require
from crm.dataset.config import DATA_SOURCES, DataConfig
from crm.dataset.noise import NOISES
from crm.io.chat.config import EndpointConfig

STAGES = ("ingest", "filter", "criteria", "topics", "leakage", "split", "dataset", "suites", "card")
"""In the order in which they run."""


@dataclass
class AnnotatorConfig(EndpointConfig):
    """Who filters and finds criteria: ``offline`` compares measurable traits; ``openai`` asks an LLM."""

    name: str = "offline"
    json_schema: bool = False
    """Send the schema of the reply along; better where the server can follow it, an error where it cannot."""
    filter: bool = True
    """Leave out what the LLM finds objective: queries on which taste has no say."""

    def __post_init__(self) -> None:
        one_of("annotator.name", self.name, ("offline", "openai"))
        if self.name == "openai":
            self.check("annotator", "openai")


@dataclass
class TopicsConfig:
    """How queries get topics, and criteria broad topics, where the source names none."""

    method: str = "clusters"
    """``clusters`` finds them; ``taxonomy`` takes the paper's twelve for queries; ``bertopic`` finds them too."""
    embedder: str = "tfidf"
    model: str | None = None
    """Folder or hub id of a sentence-transformers model."""
    count: int = 0
    """Topics of queries; 0 chooses by silhouette."""
    criteria_count: int = 0
    names: Any = None
    """A taxonomy of one's own: names, each with a few words that describe it."""

    def __post_init__(self) -> None:
        one_of("topic_model.method", self.method, ("clusters", "taxonomy", "bertopic"))
        one_of("topic_model.embedder", self.embedder, ("tfidf", "sentence_transformers"))
        for name in ("count", "criteria_count"):
            require(getattr(self, name) >= 0, f"topic_model.{name}", getattr(self, name), "0 (chosen) or more")
        self.names = mapping("topic_model.names", self.names)
        needs_model = self.embedder == "sentence_transformers"
        require(
            not needs_model or bool(self.model), "topic_model.model", self.model, "a folder or hub id for this embedder"
        )
        require(
            not self.names or self.method == "taxonomy",
            "topic_model.names",
            self.names,
            "none without topic_model=taxonomy",
        )
        require(
            self.method != "taxonomy" or not self.count, "topic_model.count", self.count, "0: the names say how many"
        )


@dataclass
class SplitConfig:
    """What is held out; shares and seed are ``data.validation_fraction``, ``data.test_fraction`` and ``data.seed``."""

    unseen_topics: int = 2
    """Topics drawn for suite T."""
    held_out_topics: list[str] = field(default_factory=list)
    """Topics for suite T by name, instead of drawn ones."""
    unseen_criteria: int = 2
    """Broad topics of criteria drawn for suite C."""
    held_out_criteria: list[str] = field(default_factory=list)
    drop_leaked: list[str] = field(default_factory=list)
    """Sets whose queries must not train: rows of train and validation that share one are left out."""
    noises: list[str] = field(default_factory=lambda: ["none", "add", "remove", "replace"])
    """Suites are made clean and with these."""

    def __post_init__(self) -> None:
        for name in ("unseen_topics", "unseen_criteria"):
            require(getattr(self, name) >= 0, f"split.{name}", getattr(self, name), "0 or more")
        for noise in self.noises:
            one_of("split.noises", noise, NOISES)


@dataclass
class PrepareConfig:
    """``prepare.py``."""

    data: DataConfig = field(default_factory=DataConfig)
    annotator: AnnotatorConfig = field(default_factory=AnnotatorConfig)
    topic_model: TopicsConfig = field(default_factory=TopicsConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    out: str = "datasets/${data.name}"
    """Folder of the dataset; what is made there is not made again."""
    stages: list[str] = field(default_factory=lambda: list(STAGES))
    """Stages to run; the files of the others are taken as they are."""
    banks: list[str] = field(default_factory=list)
    """Folders of banks to look for leakage in, besides the public ones."""
    license: str | None = None
    """Of the votes, for the card, where the source gives none."""
    push_to: str | None = None
    """Hub dataset, such as me/votes, to upload the folder to when it is done."""
    private: bool = True
    """Whether a hub dataset that ``push_to`` makes is private."""
    dry_run: bool = False
    """Run what costs nothing, and say how many calls and tokens an LLM stage would take (also ``--dry-run``)."""
    seed: int = 42
    """Of topics, wordings and suites."""
    progress: bool = True

    def __post_init__(self) -> None:
        for stage in self.stages:
            one_of("stages", stage, STAGES)
        one_of("data.name", self.data.name, tuple(name for name in DATA_SOURCES if name not in ("dataset", "mixture")))
        for name in ("train", "validation", "suite"):
            require(
                self.data.name == "simulation" or not getattr(self.data, name),
                f"data.{name}",
                getattr(self.data, name),
                "0 here, as every vote is prepared; make fewer of them when you train",
            )
