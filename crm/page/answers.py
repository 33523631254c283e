"""Describe the answers of the HTTP API field by field, for OpenAPI."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from crm.page.reasons import Duel
from crm.web.bodies import Body

Amount = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


class Health(Body):
    """The server is up."""

    status: Literal["ok"]


class Facts(Body):
    """What is known of a model beside its answers; null where it is not known."""

    display: str | None = None
    """Name to show."""
    maker: str | None = None
    licence: str | None = None
    open_weights: bool | None = None
    """Whether everybody can download the model."""
    usd_in: Amount = None
    """US dollars for a million tokens read."""
    usd_out: Amount = None
    """US dollars for a million tokens written."""
    tokens_per_s: Amount = None
    """Tokens written a second."""
    as_of: date | None = None
    """Date of these facts."""


class BankResponse(Body):
    """What there is to choose from."""

    name: str
    baseline: str
    """The model that others are compared with, unless a profile names another."""
    models: list[str]
    topics: dict[str, int]
    """Queries by topic."""
    queries: int
    judge: str
    version: str
    """Of this software, with its commit."""
    example: str
    """A criterion to start from; empty where the judge has a ranking without criteria."""
    facts: dict[str, Facts] = Field(default_factory=dict)
    """By model, for those that ``models.csv`` beside the bank names."""
    simulated: str = ""
    """What of models, answers and judge is simulated; empty where nothing is."""
    bibtex: str = ""


class Row(BaseModel):
    """A model. Rates are from 0 to 1, and null where nothing was read.

    Every topic has a field of its own name besides: the win rate on its queries.
    """

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    rank: int
    """By win rate."""
    model: str
    win_rate: float | None
    """How often this person would prefer the model's response to the baseline's."""
    rank_low: int = 1
    """First place that the model may have."""
    rank_high: int = 1
    """Last place that the model may have; those from first to last cannot be told apart."""
    low: float | None = None
    """Lower limit of a 95 % interval of the win rate over queries."""
    high: float | None = None
    """Its upper limit."""
    n: int | None = None
    """Queries with a verdict."""
    unread: int | None = None
    """Queries without one."""
    mean_words: float | None = None
    """Of the model's responses."""
    tied_with: str | None = None
    """Models whose difference from this one may be chance."""
    length_controlled: float | None = None
    """Win rate against a baseline of the same length; null where the data do not determine it."""
    length_controlled_low: float | None = None
    """Lower limit of its 95 % interval over queries."""
    length_controlled_high: float | None = None
    """Its upper limit."""


class RankResponse(Body):
    """A ranking."""

    queries: int
    """That it rests on."""
    failed: int
    """Comparisons without a verdict."""
    profile: str
    """Digest of the profile."""
    criteria: list[str]
    """As the judge reads them, dislikes with the word "Dislikes" before them."""
    refusal: str
    """Why this ranking should not be shown; empty where it may be."""
    not_understood: list[str]
    """Lines that say nothing to the judge."""
    leaderboard: list[Row]
    """The best first; empty where there is nothing to rank by."""


class ChangeRow(Body):
    """A model under two people."""

    model: str
    rank_first: int
    rank_second: int
    win_rate_first: float | None
    win_rate_second: float | None
    change: float | None
    """Second win rate less first; null where a model was not read."""


class CompareResponse(Body):
    """How far two people agree."""

    tau: float | None
    """Kendall's tau of the two rankings, from -1 to 1; null where a person likes all models equally well."""
    low: float | None
    """Lower limit of its 95 % interval over queries."""
    high: float | None
    models: list[ChangeRow]
    """The greatest gain first."""


class WhyResponse(Body):
    """Queries, the most clearly won first."""

    duels: list[Duel]
    """At most 1,000."""
    n: int
    """Queries that the model was read on."""
    wins: int
    """Of them, those with a probability above one half."""


class Sentence(Body):
    """A sentence of the response."""

    text: str
    points: float
    """Probability in percent that this person prefers the response, less that without the sentence."""


class SentencesResponse(Body):
    """All of a response, in their order."""

    sentences: list[Sentence]


class Mistake(Body):
    """What went wrong, in a sentence."""

    error: str


WRONG: dict[int | str, dict[str, Any]] = {
    403: {"model": Mistake, "description": "The server's name or the site that asks is not allowed"},
    413: {"model": Mistake, "description": "The body is too large"},
    422: {"model": Mistake, "description": "Something that was sent is wrong"},
    429: {"model": Mistake, "description": "Too many requests of one address"},
    503: {"model": Mistake, "description": "Too many connections; Retry-After says when to come again"},
}
"""Answers that every route may give instead."""
