"""Settings of banks, of `bank.py` and of `leaderboard.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from crm.config import MAX_SEED, Settings, setting
from crm.data.public.banks import FOLDERS as PUBLIC_BANKS
from crm.endpoint.client import EndpointConfig
from crm.io.installed import check_known
from crm.judges.config import AnyJudgeConfig
from crm.model.config import training_config
from crm.training.config import LoggerConfig


@dataclass
class BankConfig(Settings, group="bank"):
    """Responses of many LLMs to the same queries."""

    name: str = "own"
    """``simulated``, ``folder``, a public bank, or one that another package adds; ``own`` as in `settle_bank`."""
    path: str | None = None
    """For bank=folder: where it was saved."""
    root: str = "${oc.env:CRM_DATA_ROOT,data}"
    """Folder of the public banks."""
    baseline: str | None = None
    """LLM that the others are compared with; null takes the bank's own."""
    queries_per_topic: int = setting(20, at_least=1)
    """Of the simulated bank."""
    without: list[str] = setting([], one_of=PUBLIC_BANKS)
    """Public banks whose queries are left out: those that a model has met in training."""
    queries: int = setting(0, at_least=0, zero="all")
    """At most so many, drawn in turns over topics."""
    max_words: int = setting(0, at_least=0, zero="all")
    """Words kept of a response."""
    seed: int = setting(1, at_least=0, at_most=MAX_SEED)
    """Of the simulation, and of which queries are drawn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        own = ("simulated", "folder", "own", *PUBLIC_BANKS)
        check_known("bank.name", self.name, own, "banks")
        takes_path = self.name == "folder" or self.name not in own
        self.require(self.path is None or takes_path, "path", "bank=folder with a path")
        self.require(self.path is not None or self.name != "folder", "path", "a folder that holds a bank")


@dataclass
class BankBuildConfig(Settings):
    """``bank.py``: one more model for the bank in ``out``."""

    out: str = ""
    """Folder of the bank, made where it is missing."""
    author: str = ""
    """Name of the model in the bank."""
    queries: str | None = None
    """For a new bank: a file of queries, with their topics where they are known."""
    responses: str | None = None
    """File of the model's responses; null asks the endpoint."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    progress: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.out, "out", "the bank's folder, out=banks/mine (a public bank: prepare.py fetch=alpacaeval)")
        self.require(self.author, "author", "the model's name in the bank")
        if self.responses is None:
            asked = self.endpoint.base_url
            self.require(asked, "responses", "a file, or endpoint.base_url and endpoint.model of a server to ask")
            self.endpoint.need()
        else:
            self.require(self.endpoint.base_url is None, "responses", "a file or an endpoint, not both")


def settle_bank(bank: BankConfig, checkpoint: str | None) -> None:
    """Have a bank that nobody named be the simulated one.

    Raises ``ValueError`` for a checkpoint trained on other data: simulated LLMs would not show what it learned.
    """
    if bank.name != "own":
        return
    data = training_config(checkpoint).get("data") or {}
    if data.get("name", "simulation") != "simulation":
        raise ValueError(
            f"bank: not given, and {checkpoint} was trained on {data.get('path') or data['name']}, which has no "
            "LLMs to rank; name real ones: bank=alpacaeval (`python prepare.py fetch=alpacaeval out=data` gets it) or "
            "bank=folder bank.path=<folder>; bank=simulated has 13 simulated ones"
        )
    bank.name = "simulated"


@dataclass
class LeaderboardConfig(AnyJudgeConfig):
    """``leaderboard.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    """Where the ranking goes besides the files of the run folder."""
    topics: list[str] = field(default_factory=list)
    """Topics to rank on; empty means all."""
    drop_flawed: bool = False
    """Leave out queries to which some LLM has an empty, cut off or repeating response, or one that quotes a criterion;
    the table counts them anyway."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about; empty means what most people would like."""
    weights: list[float] = field(default_factory=list)
    """How much each criterion counts, below 0 where it is disliked; empty means all alike. ``head=late`` or traits."""
    scored_by: str | None = None
    """For ``judge=traits``: whose scores count where several have scored a criterion; null: the newest with
    enough of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settle_bank(self.bank, self.checkpoint)
        self.require(all(map(str.strip, self.criteria)), "criteria", "no blank ones")
        count = len(self.criteria)
        self.require(len(self.weights) in (0, count), "weights", f"as many numbers as criteria ({count}), or none")
        self.require(all(map(isfinite, self.weights)), "weights", "finite numbers")
        self.require(not self.weights or any(self.weights), "weights", "one at least that is not 0")
        self.require(self.scored_by is None or self.judge.name == "traits", "scored_by", "null, or judge=traits")


@dataclass
class BankScoreConfig(AnyJudgeConfig):
    """``bank.py score``: columns of a bank's criteria matrix by a judge, or with ``ratings`` by people."""

    bank: BankConfig = field(default_factory=BankConfig)
    pool: str | None = None
    """YAML file of criteria (name, more, less, definition); null: the 66 of the package."""
    ratings: str | None = None
    """File of people's ratings: query, model, criterion, score."""
    dry_run: bool = False
    """For ``judge=llm``: only log how many calls and tokens it would take (also ``--dry-run``)."""

    def __post_init__(self) -> None:
        if self.ratings is not None:
            self.require(self.judge.name == "crm" and not self.checkpoint, "ratings", "a file, or a judge, not both")
            self.judge.name = "traits"  # which needs nothing else
        super().__post_init__()
        settle_bank(self.bank, self.checkpoint)
        reads = self.judge.name not in ("length", "coin", "oracle")
        self.require(reads, "judge.name", "one that reads criteria: crm, llm, reward_model, traits")
        self.require(
            not self.dry_run or self.judge.name == "llm", "dry_run", "judge=llm, the only one that costs calls"
        )
