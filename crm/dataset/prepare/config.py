"""Settings of ``prepare.py`` beyond its data. In: the values Hydra composed. Out: values in range, or an error."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from crm.config import MAX_SEED, Settings, setting
from crm.dataset.config import DATA_SOURCES, DataConfig
from crm.dataset.noise import NOISES
from crm.io.chat.config import EndpointConfig
from crm.io.fetch import FetchConfig
from crm.votes.catalogue import stem

STAGES = ("ingest", "filter", "criteria", "topics", "leakage", "split", "dataset", "suites", "card")
"""In the order in which they run."""


@dataclass
class AnnotatorConfig(EndpointConfig, group="annotator"):
    """Who filters and finds criteria: ``offline`` compares measurable traits; ``openai`` asks an LLM."""

    name: str = setting("offline", one_of=("offline", "openai"))
    json_schema: bool = False
    """Send the schema of the reply along; better where the server can follow it, an error where it cannot."""
    filter: bool = True
    """Leave out what the LLM finds objective: queries on which taste has no say."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.name == "openai":
            self.need("openai")


@dataclass
class TopicsConfig(Settings, group="topic_model"):
    """How queries get topics, and criteria broad topics, where the source names none."""

    method: str = setting("clusters", one_of=("clusters", "taxonomy", "bertopic"))
    """``clusters`` finds them; ``taxonomy`` takes the paper's twelve for queries; ``bertopic`` finds them too."""
    embedder: str = setting("tfidf", one_of=("tfidf", "sentence_transformers"))
    model: str | None = None
    """Folder or hub id of a sentence-transformers model."""
    count: int = setting(0, at_least=0, zero="chosen by silhouette")
    """Topics of queries."""
    criteria_count: int = setting(0, at_least=0, zero="chosen by silhouette")
    names: Any = None
    """A taxonomy of one's own: names, each with a few words that describe it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.as_mappings("names")
        self.require(self.embedder == "tfidf" or self.model, "model", "a folder or hub id for this embedder")
        self.require(not self.names or self.method == "taxonomy", "names", "none without topic_model=taxonomy")
        self.require(self.method != "taxonomy" or not self.count, "count", "0: the names say how many")


@dataclass
class SplitConfig(Settings, group="split"):
    """What is held out; shares and seed are ``data.validation_fraction``, ``data.test_fraction`` and ``data.seed``."""

    unseen_topics: int = setting(2, at_least=0)
    """Topics drawn for suite T."""
    held_out_topics: list[str] = field(default_factory=list)
    """Topics for suite T by name, instead of drawn ones."""
    unseen_criteria: int = setting(2, at_least=0)
    """Broad topics of criteria drawn for suite C."""
    held_out_criteria: list[str] = field(default_factory=list)
    drop_leaked: list[str] = field(default_factory=list)
    """Sets whose queries must not train: rows of train and validation that share one are left out."""
    noises: list[str] = setting(["none", "add", "remove", "replace"], one_of=NOISES)
    """Suites are made clean and with these."""


@dataclass
class PrepareConfig(Settings):
    """``prepare.py``: a dataset from votes, or with ``fetch`` the files of a public set."""

    fetch: FetchConfig = field(default_factory=FetchConfig)
    data: DataConfig = field(default_factory=DataConfig)
    annotator: AnnotatorConfig = field(default_factory=AnnotatorConfig)
    topic_model: TopicsConfig = field(default_factory=TopicsConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    out: str | None = None
    """Folder of the dataset (null: ``datasets/<name of file or set>``); what is made there is not made again. Of
    ``fetch`` the folder of public sets (null: ``data.root``)."""
    stages: list[str] = setting([*STAGES], one_of=STAGES)
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
    seed: int = setting(42, at_least=0, at_most=MAX_SEED)
    """Of topics, wordings and suites."""
    progress: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch.name is not None:
            self.out = self.out or self.data.root
        self.out = self.out or f"datasets/{stem(self.data.path or self.data.name)}"
        votes = [name for name in DATA_SOURCES if name not in ("dataset", "mixture", "tastes")]
        self.require(self.data.name in votes, "data.name", f"one of {', '.join(votes)}")
        for name in ("data.train", "data.validation", "data.suite"):
            self.require(
                self.data.name == "simulation" or not attrgetter(name)(self),
                name,
                "0 here, as every vote is prepared; make fewer of them when you train",
            )
