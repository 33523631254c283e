"""Settings of ``bank.py``. In: the values Hydra composed. Out: values in range, or an error."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from crm.config_groups import require
from crm.config_judges import EndpointConfig


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
