"""Settings of ``prepare.py``."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import MAX_SEED, Settings, setting
from crm.data.catalogue import MADE, stem
from crm.data.config import DataConfig
from crm.endpoint.client import EndpointConfig
from crm.io.installed import check_known
from crm.prepare.fetch import FETCHED


@dataclass
class AnnotatorConfig(EndpointConfig, group="annotator"):
    """An LLM that filters votes and writes criteria; without ``base_url`` traits that can be counted are compared."""

    filter: bool = True
    """Leave out votes on queries that the LLM finds objective."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base_url or self.model:
            self.need()


@dataclass
class TopicsConfig(Settings, group="topic_model"):
    """Topics of queries, and broad topics of criteria, where the source names none."""

    model: str | None = None
    """Sentence-transformers model, a folder or hub id; null embeds texts by TF-IDF."""
    count: int = setting(0, at_least=0, zero="chosen by silhouette")
    """Topics of queries."""
    criteria_count: int = setting(0, at_least=0, zero="chosen by silhouette")


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
    """Sets whose queries must not train: rows of train and validation with one of their queries are left out."""


@dataclass
class PrepareConfig(Settings):
    """``prepare.py``: a dataset from votes, or with ``fetch`` the files of a public set."""

    fetch: str | None = None
    """A public set or bank to fetch."""
    mirror: str | None = None
    """Of ``fetch``: a folder or an address that has the same files; null takes them from their owners."""
    data: DataConfig = field(default_factory=DataConfig)
    annotator: AnnotatorConfig = field(default_factory=AnnotatorConfig)
    topic_model: TopicsConfig = field(default_factory=TopicsConfig)
    split: SplitConfig = field(default_factory=SplitConfig)
    out: str | None = None
    """Folder of the dataset (null: ``datasets/<name of file or set>``, if no other votes are there); with ``fetch``
    the folder of public sets (null: ``data.root``)."""
    banks: list[str] = field(default_factory=list)
    """Folders of banks to look for leakage in, besides the public ones."""
    license: str | None = None
    """Of the votes, for the card, where the source gives none."""
    dry_run: bool = False
    """Only log how many calls and tokens the LLM would take (also ``--dry-run``)."""
    seed: int = setting(42, at_least=0, at_most=MAX_SEED)
    """Of topics and wordings."""
    progress: bool = True
    out_given = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch is not None:
            check_known("fetch", self.fetch, FETCHED, "sources")
            self.out = self.out or self.data.root
            return
        self.out_given = bool(self.out)
        self.out = self.out or f"datasets/{stem(self.data.path or self.data.name)}"
        self.require(self.data.name not in MADE, "data.name", "votes: data=votes.csv, data=hf://owner/name or a set")
        for name in ("train", "validation", "suite"):
            why = "0 here, as every vote is prepared; make fewer of them when you train"
            self.data.require(not getattr(self.data, name), name, why)
        self.data.require(not self.data.max_words, "max_words", "0 here, as votes are prepared whole; cut them later")
