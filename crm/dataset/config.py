"""Settings of the data: sources, suites, direction, noise. In: composed values. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from crm.config import mapping, one_of, require
from crm.criteria.profiles import PROFILES
from crm.dataset.comparisons import DIRECTIONS
from crm.dataset.noise import NOISES
from crm.io.installed import check_known
from crm.schema import MAX_CRITERIA, SIDES
from crm.votes.catalogue import OWN, SOURCES

DATA_SOURCES = ("simulation", "dataset", "mixture", "summeval_aspects", *SOURCES)
MIXED = tuple(name for name in DATA_SOURCES if name not in ("simulation", "dataset", "mixture", *OWN))


@dataclass
class DataConfig:
    """Where preferences come from. Sizes are preferences; 0 means all there are."""

    name: str = "simulation"
    root: str = "${oc.env:CRM_DATA_ROOT,data}"
    """Folder of the public sets."""
    path: str | None = None
    """File or folder of one's own, a dataset of a hub (hf://owner/name), or a prepared one (data=dataset)."""
    sources: list[str] = field(default_factory=list)
    """For data=mixture: the public sets to put together; the sizes below are then those of every one of them."""
    held_out_topics: list[str] = field(default_factory=list)
    """Topics, or broad topics of criteria, that make suite H and are in no other part; of a mixture as source.topic."""
    columns: Any = None
    """For data=table: our fields and the columns they are in, such as {prompt: question}."""
    winners: Any = None
    """For data=table: what the winner's column holds, and which of a, b, tie it means, such as {first: a}."""
    train: int = 0
    validation: int = 0
    suite: int = 0
    max_words: int = 0
    """Words kept of a response or a user's post (of the document, in SummEval); 0 keeps all."""
    validation_fraction: float = 0.1
    """Share of prompts, for sources without a split of their own."""
    test_fraction: float = 0.1
    strict: bool = True
    """Stop at the first malformed row; false keeps the valid ones and counts the others."""
    seed: int = 1
    """Seed of simulation, split and subsampling; apart from the seed of training."""
    profile: str = "none"
    """For data=personalized_rewardbench: which of the user's earlier posts are the criteria. ``all``; the ``first`` as
    the file has them; or the most relevant to the question by ``bm25`` or ``embedding``."""
    profile_posts: int = 10
    """Posts told at most, but for ``all``."""
    profile_model: str | None = None
    """Folder or hub id of a sentence-transformers model for ``embedding``; TF-IDF where null."""
    oracle_rubric: bool = False
    """For data=personalized_rewardbench: tell the judge the rubric that the pairs were made by, its upper bound."""

    def __post_init__(self) -> None:
        check_known("data.name", self.name, DATA_SOURCES, "sources")
        for name in ("train", "validation", "suite", "max_words"):
            require(getattr(self, name) >= 0, f"data.{name}", getattr(self, name), "0 or more")
        for name in ("validation_fraction", "test_fraction"):
            require(0 <= getattr(self, name) < 0.5, f"data.{name}", getattr(self, name), "a share in [0, 0.5)")
        needs_path = self.name == "dataset" or self.name in OWN or self.name not in DATA_SOURCES
        require(not needs_path or bool(self.path), "data.path", self.path, f"a file or folder for data={self.name}")
        self.columns, self.winners = (mapping(f"data.{name}", getattr(self, name)) for name in ("columns", "winners"))
        require(
            (self.name == "mixture") == bool(self.sources), "data.sources", self.sources, "names, for data=mixture only"
        )
        for source in self.sources:
            one_of("data.sources", source, MIXED)
        if self.name != "table":
            for name in ("columns", "winners"):
                require(not getattr(self, name), f"data.{name}", getattr(self, name), "nothing, but for data=table")
        for side in (self.winners or {}).values():
            one_of("data.winners", side, SIDES)
        self._check_profile()

    def _check_profile(self) -> None:
        one_of("data.profile", self.profile, PROFILES)
        posts = self.profile_posts
        require(1 <= posts <= MAX_CRITERIA, "data.profile_posts", posts, f"1 to {MAX_CRITERIA}")
        personal, told = self.name == "personalized_rewardbench", self.profile != "none"
        only = "with another source than data=personalized_rewardbench"
        require(personal or not told, "data.profile", self.profile, f"none {only}")
        require(personal or not self.oracle_rubric, "data.oracle_rubric", self.oracle_rubric, f"false {only}")
        require(
            self.profile == "embedding" or not self.profile_model,
            "data.profile_model",
            self.profile_model,
            "null but for data.profile=embedding",
        )
        require(
            not (told and self.oracle_rubric),
            "data.profile",
            self.profile,
            "none with data.oracle_rubric=true: the rubric is told instead",
        )

    def title(self) -> str:
        """The source's name, and what its judge is told where that is a choice."""
        if self.name != "personalized_rewardbench":
            return self.name
        shown = "all posts" if self.profile == "all" else f"{self.profile} {self.profile_posts} posts"
        profile = "no profile" if self.profile == "none" else f"profile {shown}"
        return f"{self.name} (rubric {'shown' if self.oracle_rubric else 'withheld'}, {profile})"


@dataclass
class SuiteConfig:
    """Which suites to evaluate: the named ones, or every base of the data times the noises."""

    names: list[str] = field(default_factory=list)
    noises: list[str] = field(default_factory=lambda: ["none"])

    def __post_init__(self) -> None:
        for noise in self.noises:
            one_of("suite.noises", noise, NOISES)


@dataclass
class DirectionConfig:
    """Whose criteria condition a training comparison."""

    kind: str = "random"

    def __post_init__(self) -> None:
        one_of("direction.kind", self.kind, DIRECTIONS)


@dataclass
class NoiseConfig:
    """Perturbation of the criteria in training, drawn anew per sample and epoch."""

    kind: str = "none"

    def __post_init__(self) -> None:
        one_of("noise.kind", self.kind, NOISES)
