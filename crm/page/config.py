"""Settings of `app.py`. In: the values Hydra composed. Out: checked ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from crm.config import require
from crm.io.chat.config import EndpointConfig
from crm.judges import AnyJudgeConfig
from crm.leaderboard.bank.config import BankConfig


@dataclass
class AppConfig(AnyJudgeConfig):
    """``app.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    port: int = 7860
    places: int = 50
    """People whose leaderboards are made at a time; one more is asked to wait."""
    requests_per_minute: int = 600
    """Of one address."""
    bank_states_gb: float = 0.0
    """As in ``leaderboard.py``: the first person waits for the bank to be read, all others for their criteria alone."""
    additions: bool = True
    """Whether people may add a model by a file, or from the endpoint below."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """Server that may be asked for the responses of a model that is added."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.port <= 65535, "port", self.port, "1 to 65535")
        require(self.places >= 1, "places", self.places, "1 or more")
        if self.endpoint.base_url or self.endpoint.model:
            self.endpoint.check("endpoint", str(self.endpoint.model))
        require(self.requests_per_minute >= 1, "requests_per_minute", self.requests_per_minute, "1 or more")
        require(0 <= self.bank_states_gb < math.inf, "bank_states_gb", self.bank_states_gb, "0 (keep none) or more")
