"""Requests and responses of the HTTP API, field by field."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from crm.page.bodies import Body
from crm.page.profile import Profile

Amount = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]
Place = Annotated[int, Field(ge=0, lt=1_000_000)]
MOST_PICKS = 200


class Facts(Body):
    """What is known of a model, on the date ``as_of``, beside its answers; null where it is not known."""

    display: str | None = None
    maker: str | None = None
    licence: str | None = None
    open_weights: bool | None = None
    usd_in: Amount = None
    """US dollars for a million tokens read."""
    usd_out: Amount = None
    """US dollars for a million tokens written."""
    tokens_per_s: Amount = None
    as_of: date | None = None


class About(Body):
    """The server, beside its bank."""

    judge: str
    version: str
    facts: dict[str, Facts] = Field(default_factory=dict)
    """By model, for those that ``models.csv`` beside the bank names."""
    simulated: str = ""
    """What of models, answers and judge is simulated; empty where nothing is."""
    bibtex: str = ""


class BankResponse(About):
    """What there is to choose from."""

    name: str
    baseline: str
    """The model that others are compared with, unless a profile names another."""
    models: list[str]
    topics: dict[str, int]
    queries: int
    example: str
    """A criterion to start from; empty where the judge has a ranking without criteria."""


class Row(BaseModel):
    """A model. Rates are from 0 to 1, and null where nothing was read.

    Every topic has a field of its own name besides: the win rate on its queries.
    """

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    rank: int
    model: str
    win_rate: float | None
    """How often this person would prefer the model's response to the baseline's."""
    rank_low: int
    """First place that the model may have."""
    rank_high: int
    """Last place that the model may have; those from first to last cannot be told apart."""
    low: float | None
    """Of a 95 % interval of the win rate over queries, as ``high``."""
    high: float | None
    n: int | None = None
    """Queries with a verdict."""
    unread: int | None = None
    """Queries without one."""
    mean_words: float | None = None
    tied_with: str | None = None
    """Models whose difference from this one may be chance."""
    length_controlled: float | None = None
    """Win rate against a baseline of the same length; null where the data do not determine it."""
    length_controlled_low: float | None = None
    """Of its 95 % interval over queries."""
    length_controlled_high: float | None = None


class RankResponse(Body):
    """A ranking, the best model first; empty where there is nothing to rank by.

    ``failed`` counts comparisons without a verdict, ``not_understood`` lists lines that say nothing to the judge, and
    ``profile`` is a digest.
    """

    queries: int
    failed: int
    profile: str
    criteria: list[str]
    """As the judge reads them, dislikes with the word "Dislikes" before them."""
    refusal: str
    """Why this ranking should not be shown; empty where it may be."""
    not_understood: list[str]
    leaderboard: list[Row]


class CompareRequest(Body):
    """Two people."""

    first: Profile
    second: Profile


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
    """Of its 95 % interval over queries."""
    high: float | None
    models: list[ChangeRow]
    """The greatest gain first."""


class WhyRequest(Body):
    """Whose ranking, and which model's place in it."""

    profile: Profile
    model: str
    examples: bool = False
    """A typical win and a typical loss alone, instead of every query."""


class Duel(Body):
    """A model against the baseline on one query."""

    query_id: str
    """As ``/api/sentences`` takes it."""
    topic: str
    query: str
    response: str
    baseline_response: str
    probability: float
    """That the model's response is preferred, from 0 to 1."""


class WhyResponse(Body):
    """Queries, the most clearly won first."""

    duels: list[Duel]
    """At most 1,000."""
    n: int
    """Queries that the model was read on."""
    wins: int
    """Of them, those with a probability above one half."""


class SentencesRequest(Body):
    """Which response is taken apart."""

    profile: Profile
    model: str
    query_id: str
    """As in the answer of ``/api/why``."""


class Sentence(Body):
    """A sentence of the response."""

    text: str
    points: float
    """Probability in percent that this person prefers the response, less that without the sentence."""


class SentencesResponse(Body):
    """All of a response, in their order."""

    sentences: list[Sentence]


class Picked(Body):
    """A pair that was shown, and what came of it. Places are those that ``next`` named."""

    query: Place
    left: Place
    right: Place
    random: bool = False
    choice: Literal["left", "same", "right"]
    offered: list[Place] = Field([], max_length=64)
    """Places of the criteria that were offered as the reason."""
    reason: Place | None = None


class PicksRequest(Body):
    """All picks so far: the server keeps none."""

    profile: Profile
    """What was typed before, and which queries and models take part."""
    picks: list[Picked] = Field([], max_length=MOST_PICKS)
    seed: int = Field(0, ge=0, lt=2**32)
    """Of what is drawn; the same for all picks of a person."""
    bank: str = ""
    """As the answer before gave it, so that picks are not read as those of another bank; empty at the first."""


class Reason(Body):
    """A criterion that may have decided, in words for each side."""

    place: Place
    left: str
    right: str


class NextPair(Body):
    """Two answers to show, without the models' names."""

    query: Place
    left: Place
    right: Place
    random: bool
    topic: str
    text: str
    """Of the query."""
    left_text: str
    right_text: str
    reasons: list[Reason]
    """To offer once a side was picked."""


class PickedCriterion(Body):
    """A criterion that the picks show."""

    text: str
    kind: Literal["like", "dislike"]
    typed: bool
    weight: float
    """Log-odds for a usual difference, above 0."""
    low: float
    """Lower limit of its 95 % interval."""
    high: float
    sure: float
    """Probability that it is a like or dislike rather than the opposite."""


class Agreement(Body):
    """How often the judge predicts picks on pairs that were drawn at random, each from the other picks."""

    agreed: int
    asked: int


class PicksResponse(Body):
    """What the picks say so far."""

    bank: str
    """Digest of what places stand for; to send with the next pick."""
    picked: int
    ended: bool
    decided: bool
    """The picks settle the ranking."""
    settled: float
    """Expected Kendall's tau of two rankings that this person may have."""
    next: NextPair | None
    wishes: list[PickedCriterion]
    agreement: Agreement
    undecided: list[str]
    """Models that may be first; empty where one of them is."""
    leaderboard: list[Row]
    """Over what the weights may be; limits hold what is not known of the person too."""


class Mistake(Body):
    """What went wrong, in a sentence."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"model": Mistake, "description": "The server does not answer to this name"},
    413: {"model": Mistake, "description": "The body is too large"},
    422: {"model": Mistake, "description": "Something in the request is wrong"},
    429: {"model": Mistake, "description": "Too many requests of one address"},
    503: {"model": Mistake, "description": "Too many connections"},
}
"""Responses that every route may give instead."""
