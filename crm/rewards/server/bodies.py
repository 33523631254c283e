"""What requests and answers of ``/v1`` hold, field by field. In: JSON. Out: groups and pairs; rewards, or why not."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from crm.rewards.rl.turns import criteria_texts
from crm.rewards.scoring import Group, Pair, Turns
from crm.schema import MAX_CRITERIA, Message
from crm.web.bodies import Body, BodyError

MAX_TEXT = 200_000
"""Characters of one text."""
MAX_TURNS = 256
MAX_GROUPS = 256
MAX_RESPONSES = 1024
"""Of all groups of a request."""
MAX_READINGS = 4096
"""Of a request, where a judge reads pairs of responses."""

AnyText = Annotated[str, Field(max_length=MAX_TEXT)]
VISIBLE = r"[^\s\x1c-\x1f]"
"""In a text that Python does not strip to nothing: to Python the four separators are white space too."""
Criterion = Annotated[str, Field(max_length=MAX_TEXT, pattern=VISIBLE)]
Criteria = Annotated[
    list[Criterion],
    Field(max_length=MAX_CRITERIA),
    BeforeValidator(
        lambda given: list(criteria_texts(given, "criteria")) if isinstance(given, str) else given,
        json_schema_input_type=list[Criterion] | str,
    ),
]
"""A list of texts, its JSON text, or one text, as the adapters of `crm.rewards.rl` take them."""
Finite = Annotated[float, Field(allow_inf_nan=False)]


class Turn(Body):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: AnyText


Talk = Annotated[list[Turn], Field(min_length=1, max_length=MAX_TURNS)]
Response = AnyText | Talk
"""The text of the assistant's turn, or all turns of the response."""


class GroupAsked(Body):
    """Responses to one prompt, for a user with these criteria."""

    criteria: Criteria = Field(default_factory=list)
    """What the user cares about, a line each; none are the generic criterion."""
    messages: Talk
    """The prompt: the conversation up to the responses."""
    responses: Annotated[list[Response], Field(min_length=1, max_length=MAX_RESPONSES)]
    anchor: Response | None = None
    """Of a judge that only compares: what each response is compared with, instead of the others."""

    def group(self) -> Group:
        """The record that is read."""
        responses = tuple(map(turns, self.responses))
        anchor = None if self.anchor is None else turns(self.anchor)
        return Group(tuple(text.strip() for text in self.criteria), said(self.messages), responses, anchor)


class ScoreAsked(Body):
    """What to give rewards for."""

    model: str | None = None
    """Name or digest of the model that is expected here."""
    groups: Annotated[list[GroupAsked], Field(min_length=1, max_length=MAX_GROUPS)]


class RankAsked(GroupAsked):
    """Responses to put in order."""

    model: str | None = None
    """Name or digest of the model that is expected here."""


class PairAsked(Body):
    """Two responses to one prompt, for a user with these criteria."""

    criteria: Criteria = Field(default_factory=list)
    messages: Talk
    first: Response
    second: Response

    def pair(self) -> Pair:
        """The record that is read."""
        responses = (turns(self.first), turns(self.second))
        return Pair(Group(tuple(text.strip() for text in self.criteria), said(self.messages), responses), 0, 1)


class CompareAsked(Body):
    """What to compare."""

    model: str | None = None
    """Name or digest of the model that is expected here."""
    pairs: Annotated[list[PairAsked], Field(min_length=1, max_length=MAX_GROUPS)]


class Said(Body):
    """Which model answers."""

    model: str
    digest: str
    """Of weights, template and precision."""


class GroupSaid(Body):
    """A reward for each response, in their order."""

    rewards: list[Finite | None]
    """In nats; null where a response could not be read."""
    reasons: list[str | None]
    """A word for why a reward is null."""


class ScoreSaid(Said):
    """Rewards of every group."""

    pointwise: bool
    """Whether a reward is of the response alone; else it is a mean over its group, or against the anchor."""
    groups: list[GroupSaid]


class PairSaid(Body):
    """How sure it is that the user prefers the first response."""

    logit: Finite | None
    """Log-odds, the mean over both orders; null where the pair could not be read in both."""
    probability: Annotated[float, Field(ge=0, le=1)] | None
    shown_first: Finite | None
    """The log-odds where the first response is shown first."""
    shown_second: Finite | None
    """And where it is shown second; they are equal for a judge that scores each response by itself."""
    reason: str | None


class CompareSaid(Said):
    """What is said of every pair."""

    pairs: list[PairSaid]


class Ranked(Body):
    """A response in its place."""

    rank: int
    """From 1; equal rewards share a rank."""
    response: int
    """Its place in the request, from 0."""
    reward: Finite


class Unread(Body):
    """A response that has no place."""

    response: int
    reason: str


class RankSaid(Said):
    """The best response first."""

    ranking: list[Ranked]
    unread: list[Unread]


def said(talk: list[Turn]) -> Turns:
    """The turns as records."""
    return tuple(Message(turn.role, turn.content) for turn in talk)


def turns(response: str | list[Turn]) -> Turns:
    """A response as records."""
    return (Message("assistant", response),) if isinstance(response, str) else said(response)


def check_number(groups: list[GroupAsked], pointwise: bool) -> None:
    """Raise `BodyError` for more responses, or pairs of them, than a request may have."""
    total = sum(len(group.responses) for group in groups)
    if total > MAX_RESPONSES:
        raise BodyError(f"groups: {total:,} responses, at most {MAX_RESPONSES:,} are read in a request; send fewer")
    counts = [len(group.responses) for group in groups if group.anchor is None]
    readings = sum(count * (count - 1) for count in counts)
    if not pointwise and readings > MAX_READINGS:
        raise BodyError(
            f"responses: this judge only compares, which takes {readings:,} readings, at most {MAX_READINGS:,} are "
            "made for a request; send fewer responses a group, or an anchor"
        )
