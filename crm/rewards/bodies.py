"""Requests of the reward server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards.scoring import Group, Pair, Turns, conversation, criteria_texts
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
    """Responses to one prompt (``messages``), for a user with these criteria."""

    criteria: Criteria = ()
    messages: Talk
    responses: Annotated[list[Response], Field(min_length=1, max_length=1024)]

    def group(self) -> Group:
        """The record that is read."""
        return Group(self.criteria, _turns(self.messages), tuple(map(_turns, self.responses)))


class Request(Body):
    """``model`` is the name or digest of the expected model."""

    model: str | None = None


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


class GetRewardRequest(BaseModel):
    """OpenRLHF's request; other fields are ignored."""

    query: Annotated[list[Text], Field(max_length=256)]
    prompts: list[Text]
    labels: list[Text | None]


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


def _turns(given: str | list[Turn]) -> Turns:
    """Plain text is a response."""
    if isinstance(given, str):
        return (Message("assistant", given),)
    return tuple(Message(turn.role, turn.content) for turn in given)
