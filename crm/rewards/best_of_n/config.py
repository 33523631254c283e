"""Settings of `best_of_n.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from crm.config import Settings, setting
from crm.criteria.counting import TRAITS
from crm.io.chat.config import EndpointConfig
from crm.judges import AnyJudgeConfig
from crm.leaderboard.bank.config import BankConfig

TRAIT_NAMES = tuple(trait.name for trait in TRAITS)


@dataclass
class CandidatesConfig(Settings, group="candidates"):
    """Where the responses come from that are chosen from."""

    name: str = setting("simulation", one_of=("simulation", "file", "bank", "endpoint", "personalized_rewardbench"))
    """``bank`` takes the setting ``bank``, and ``endpoint`` the setting ``endpoint``."""
    path: str | None = None
    """Rows of ``file``; queries that ``endpoint`` is asked; samples of ``personalized_rewardbench``."""
    n: int = setting(128, at_least=2, at_most=4096, unit="responses")
    """Of ``simulation`` and ``endpoint``: responses to each query."""
    queries: int = setting(60, at_least=1)
    """Of ``simulation``."""
    told: str = setting("profile", one_of=("nothing", "profile", "aspects"))
    """Of ``personalized_rewardbench``: what the judge is told about who asks."""
    posts: int = setting(10, at_least=1, at_most=64)
    """Posts of a profile that it is told, the first as they stand."""

    def __post_init__(self) -> None:
        super().__post_init__()
        takes_path = self.name not in ("simulation", "bank")
        self.require(takes_path or self.path is None, "path", f"null with candidates={self.name}")
        self.require(self.path or not takes_path, "path", f"a file for candidates={self.name}")


@dataclass
class GoldConfig(Settings, group="gold"):
    """What the picks are measured by."""

    name: str = setting("auto", one_of=("auto", "oracle", "trait", "judge", "column"))
    """``auto``: the truth of the simulation for its texts, the file's column, or nothing where there is none."""
    trait: str | None = setting(None, one_of=(None, *TRAIT_NAMES))
    """Of ``trait``: what is counted in a response."""
    sign: int = setting(1, one_of=(1, -1))
    """Of ``trait``: 1 wants more of it, -1 less."""
    judge: str = setting("crm", one_of=("crm", "reward_model", "length"))
    """Of ``judge``: who says which response is better; other settings of ``judge`` are those of the one that picks."""
    checkpoint: str | None = None
    """Of ``judge``: as the setting ``checkpoint``."""
    path: str | None = None
    """Of ``judge``: as the setting ``judge.path``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(self.trait or self.name != "trait", "trait", f"one of {', '.join(TRAIT_NAMES)}")
        if self.name == "judge":
            self.require(self.checkpoint or self.judge != "crm", "checkpoint", "a model for gold=judge")
            needs = self.judge == "reward_model"
            self.require(self.path or not needs, "path", "a folder or hub id for gold.judge=reward_model")


@dataclass
class BestOfNConfig(AnyJudgeConfig):
    """``best_of_n.py``."""

    candidates: CandidatesConfig = field(default_factory=CandidatesConfig)
    gold: GoldConfig = field(default_factory=GoldConfig)
    bank: BankConfig = field(default_factory=BankConfig)
    """Of ``candidates=bank``: its LLMs are the pool."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """Of ``candidates=endpoint``: whose samples are the pool."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about, for all queries; empty takes those of the candidates or of the trait."""
    opposite: list[str] = field(default_factory=list)
    """What somebody cares about who wants the contrary; empty takes what is known of it."""
    max_k: int = setting(128, at_least=2, at_most=4096)
    """Responses that are chosen from at most."""
    temperature: float = setting(0.0, at_least=0, zero="none", unit="nats")
    """Above 0 soft Best-of-N is shown beside it: a response is drawn in proportion to exp(score / temperature)."""
    first_k: bool = False
    """Show Personalized RewardBench's procedure beside it: the best of the first k as they stand in the file."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require((self.devices, self.nodes) == (1, 1), "devices", "1: all is read by one process")
        for name in ("criteria", "opposite"):
            self.require(all(map(str.strip, getattr(self, name))), name, "no blank ones")
        if self.candidates.name == "endpoint":
            for name in ("base_url", "model"):
                self.require(getattr(self.endpoint, name), f"endpoint.{name}", "a value for candidates=endpoint")
            self.require(self.endpoint.temperature, "endpoint.temperature", "a number above 0: at 0 samples are equal")
