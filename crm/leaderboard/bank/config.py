"""Settings of banks: which one is ranked, and `bank.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from crm.config import one_of, require
from crm.io.chat.config import EndpointConfig
from crm.io.installed import check_known
from crm.leaderboard.bank.public import FOLDERS as PUBLIC_BANKS


@dataclass
class BankConfig:
    """Responses of many LLMs to the same queries."""

    name: str = "simulated"
    """``simulated``, ``folder``, a public bank, or one that another package adds."""
    path: str | None = None
    """For bank=folder: where it was saved."""
    root: str = "${oc.env:CRM_DATA_ROOT,data}"
    """Folder of the public banks."""
    baseline: str | None = None
    """LLM that the others are compared with; null takes the bank's own."""
    queries_per_topic: int = 20
    """Of the simulated bank."""
    without: list[str] = field(default_factory=list)
    """Public banks whose queries are left out: those that a model has met in training."""
    queries: int = 0
    """At most so many, drawn in turns over topics; 0 takes all."""
    max_words: int = 0
    """Words kept of a response; 0 keeps all."""
    seed: int = 1
    """Of the simulation, and of which queries are drawn."""

    def __post_init__(self) -> None:
        require(self.queries_per_topic >= 1, "bank.queries_per_topic", self.queries_per_topic, "1 or more")
        for name in ("queries", "max_words"):
            require(getattr(self, name) >= 0, f"bank.{name}", getattr(self, name), "0 (all) or more")
        own = ("simulated", "folder", *PUBLIC_BANKS)
        check_known("bank.name", self.name, own, "banks")
        takes_path = self.name == "folder" or self.name not in own
        require(self.path is None or takes_path, "bank.path", self.path, "bank=folder with a path")
        require(self.path is not None or self.name != "folder", "bank.path", self.path, "a folder that holds a bank")
        for name in self.without:
            one_of("bank.without", name, tuple(PUBLIC_BANKS))


@dataclass
class BankBuildConfig:
    """``bank.py``: one more model for the bank in ``out``."""

    out: str = MISSING
    """Folder of the bank; made where it is missing."""
    author: str = MISSING
    """Name of the model in the bank."""
    queries: str | None = None
    """For a new bank: a file of queries, with their topics where they are known."""
    name: str | None = None
    """Of a new bank; null takes the folder's name."""
    responses: str | None = None
    """File of the model's responses; null asks the endpoint."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    progress: bool = True

    def __post_init__(self) -> None:
        if self.responses is None:
            asked = bool(self.endpoint.base_url and self.endpoint.model)
            require(asked, "responses", None, "a file, or endpoint.base_url and endpoint.model of a server to ask")
            self.endpoint.check("endpoint", str(self.endpoint.model))
        else:
            require(self.endpoint.base_url is None, "responses", self.responses, "a file or an endpoint, not both")
