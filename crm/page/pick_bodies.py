"""Describe the requests and answers of picking field by field."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crm.page.answers import Row
from crm.page.bodies import AnyProfile, Place
from crm.web.bodies import Body

MOST_PICKS = 200


class Picked(Body):
    """A pair that was shown, and what came of it. Places are those that ``next`` named."""

    query: Place
    left: Place
    right: Place
    random: bool = False
    """Whether the pair was drawn at random."""
    choice: Literal["left", "same", "right"]
    offered: list[Place] = Field([], max_length=64)
    """Places of the criteria that were offered as the reason."""
    reason: Place | None = None
    """The one of them that was taken."""


class PicksRequest(Body):
    """All picks so far: the server keeps none."""

    profile: AnyProfile
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
    """Whether it was typed before."""
    weight: float
    """Log-odds for a usual difference, above 0."""
    low: float
    """Lower limit of its 95 % interval."""
    high: float
    sure: float
    """Probability that it is a like or dislike rather than the opposite."""


class Agreement(Body):
    """How often the judge predicts picks on pairs that were drawn at random."""

    agreed: int
    asked: int


class PicksResponse(Body):
    """What the picks say so far."""

    bank: str
    """Digest of what places stand for; to send with the next pick."""
    picked: int
    ended: bool
    """Nothing more is asked."""
    decided: bool
    """The picks settle the ranking."""
    settled: float
    """Expected Kendall's tau of two rankings that this person may have."""
    next: NextPair | None
    wishes: list[PickedCriterion]
    """The weightiest first."""
    agreement: Agreement
    """Each pick is predicted from the others."""
    undecided: list[str]
    """Models that may be first; empty where one of them is."""
    leaderboard: list[Row]
    """Over what the weights may be; limits hold what is not known of the person too."""
