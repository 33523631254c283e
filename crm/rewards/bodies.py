"""Requests and responses of the reward server."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards.scoring import Group, Pair
from crm.rewards.turns import Turns, conversation, criteria_texts
from crm.schema import MAX_CRITERIA, Message, RecordError

Text = Annotated[str, Field(max_length=200_000)]
Criteria = Annotated[
    tuple[str, ...],
    Field(max_length=MAX_CRITERIA),
    BeforeValidator(lambda given: criteria_texts(given, "criteria"), json_schema_input_type=list[Text] | Text),
]
"""A list of texts, its JSON text, or one text; none are the generic criterion."""


class Body(BaseModel):
    """A body without other fields."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Turn(Body):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: Text


Talk = Annotated[list[Turn], Field(min_length=1, max_length=256)]
Response = Text | Talk
"""The text of the assistant's turn, or all turns of the response."""


class GroupBody(Body):
    """Responses to one prompt, for a user with these criteria."""

    criteria: Criteria = ()
    messages: Talk
    """The prompt: the conversation up to the responses."""
    responses: Annotated[list[Response], Field(min_length=1, max_length=1024)]
    anchor: Response | None = None
    """For a judge that only compares: what each response is compared with, instead of the others."""

    def group(self) -> Group:
        """The record that is read."""
        anchor = None if self.anchor is None else _turns(self.anchor)
        return Group(self.criteria, _turns(self.messages), tuple(map(_turns, self.responses)), anchor)


class Request(Body):
    """What all requests of ``/v1`` may name."""

    model: str | None = None
    """Name or digest of the expected model."""


class ScoreRequest(Request):
    """Groups to give rewards for."""

    groups: Annotated[list[GroupBody], Field(min_length=1, max_length=256)]


class RankRequest(GroupBody, Request):
    """Responses to put in order."""


class PairBody(Body):
    """Two responses to one prompt, for a user with these criteria."""

    criteria: Criteria = ()
    messages: Talk
    first: Response
    second: Response

    def pair(self) -> Pair:
        """The record that is read."""
        return Pair(Group(self.criteria, _turns(self.messages), (_turns(self.first), _turns(self.second))), 0, 1)


class CompareRequest(Request):
    """Pairs to compare."""

    pairs: Annotated[list[PairBody], Field(min_length=1, max_length=256)]


class Reply(Body):
    """Which model answers; ``digest`` is that of weights, template and precision."""

    model: str
    digest: str


class GroupRewards(Body):
    """A reward (nats) for each response; null with a reason where it could not be read."""

    rewards: list[float | None]
    reasons: list[str | None]


class ScoreReply(Reply):
    """Rewards of every group; not ``pointwise``, they are means over the group or against the anchor."""

    pointwise: bool
    groups: list[GroupRewards]


class Compared(Body):
    """The log-odds (nats) that the user prefers the first response, the mean of both orders, and in each order."""

    logit: float | None
    probability: float | None
    shown_first: float | None
    shown_second: float | None
    reason: str | None


class CompareReply(Reply):
    """The outcome of every pair."""

    pairs: list[Compared]


class Ranked(Body):
    """A response by its place in the request, from 0; equal rewards share a rank."""

    rank: int
    response: int
    reward: float


class Unread(Body):
    """A response without a rank."""

    response: int
    reason: str


class RankReply(Reply):
    """The best response first."""

    ranking: list[Ranked]
    unread: list[Unread]


class GetRewardRequest(BaseModel):
    """OpenRLHF's request; other fields are ignored."""

    query: Annotated[list[Text], Field(max_length=256)]
    prompts: list[Text]
    labels: list[Text | None]


class GetRewardReply(Body):
    """OpenRLHF's response; ``scores`` are the sigmoids of the rewards."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class ClassifyRequest(BaseModel):
    """vLLM's request with messages; other fields, such as ``use_activation``, are ignored."""

    model: str | None = None
    messages: Talk

    def group(self) -> Group:
        """The last turn is the response; a system turn as our chat template writes it holds the criteria."""
        turns = _turns(self.messages)
        criteria: tuple[str, ...] = ()
        if turns[0].role == "system" and turns[0].content.startswith(POINTWISE_INSTRUCTION):
            lines = turns[0].content.removeprefix(POINTWISE_INSTRUCTION).strip().split("\n- ")
            criteria, turns = criteria_texts([line.removeprefix("- ") for line in lines], "messages[0]"), turns[1:]
        if len(turns) < 2 or turns[-1].role != "assistant":
            raise RecordError("messages", "expected a prompt and, as the last turn, the assistant's response")
        prompt, response = conversation(turns[:-1], turns[-1:], "messages")
        return Group(criteria, prompt, (response,))


class ClassifyReply(BaseModel):
    """vLLM's response: ``probs`` holds the reward, without an activation."""

    id: str
    object: Literal["list"] = "list"
    created: int
    model: str
    data: list[dict[str, Any]]
    usage: None = None


def _turns(given: str | list[Turn]) -> Turns:
    """Plain text is a response."""
    if isinstance(given, str):
        return (Message("assistant", given),)
    return tuple(Message(turn.role, turn.content) for turn in given)
