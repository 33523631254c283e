"""Requests of the reward server."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from crm.model.heads import POINTWISE_INSTRUCTION
from crm.rewards.scoring import Group, conversation, criteria_texts
from crm.schema import RecordError, Texts, Turns
from crm.web import Body


def _as_turns(given: Any) -> Any:
    """Plain text is the assistant's turn."""
    return [{"role": "assistant", "content": given}] if isinstance(given, str) else given


Response = Annotated[Turns, BeforeValidator(_as_turns, json_schema_input_type=str | Turns)]
Responses = Annotated[tuple[Response, ...], Field(min_length=1)]


class Asked(Body):
    """Whose preference, and the prompt."""

    criteria: Texts = ()
    """What the user cares about, a text each; none are the generic criterion."""
    messages: Turns
    """The prompt, turn by turn."""


class GroupBody(Asked):
    """Responses to one prompt."""

    responses: Responses
    """Each is the text of the assistant's turn, or all turns of the response."""

    def group(self) -> Group:
        """The record that is read."""
        return Group(self.criteria, self.messages, self.responses)


class PairBody(Asked):
    """Two responses to one prompt."""

    first: Response
    """The text of the assistant's turn, or all turns of the response."""
    second: Response
    """The response that it is compared with."""


class Request(Body):
    """Which model is asked."""

    model: str | None = None
    """Name or digest of the model that is expected; another one is answered with 404."""


class ScoreRequest(Request):
    """Groups to give rewards for."""

    groups: Annotated[list[GroupBody], Field(min_length=1)]
    """Prompts, each with its user and its responses."""


class CompareRequest(Request):
    """Pairs to compare."""

    pairs: Annotated[list[PairBody], Field(min_length=1)]
    """Prompts, each with its user and two responses."""


class RankRequest(GroupBody, Request):
    """Responses to put in order."""


class GetRewardRequest(BaseModel):
    """OpenRLHF's request; other fields are ignored."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    query: list[str]
    """Prompt and response of each sample as the policy's tokenizer writes them."""
    prompts: list[str]
    """The prompts alone, likewise."""
    labels: list[str | None]
    """For each sample the text of a JSON object with ``criteria`` and ``prompt`` (text or messages)."""


class ClassifyRequest(BaseModel):
    """vLLM's request with messages; other fields, such as ``use_activation``, are ignored."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    model: str | None = None
    """Name or digest of the model that is expected; another one is answered with 404."""
    messages: Turns
    """Prompt and response; a system turn as the model's chat template writes it holds the criteria."""

    def group(self) -> Group:
        """The last turn is the response; a system turn as our chat template writes it holds the criteria."""
        turns = self.messages
        criteria: tuple[str, ...] = ()
        if turns[0].role == "system" and turns[0].content.startswith(POINTWISE_INSTRUCTION):
            lines = turns[0].content.removeprefix(POINTWISE_INSTRUCTION).strip().split("\n- ")
            criteria, turns = criteria_texts([line.removeprefix("- ") for line in lines], "messages[0]"), turns[1:]
        if len(turns) < 2 or turns[-1].role != "assistant":
            raise RecordError("messages", "expected a prompt and, as the last turn, the assistant's response")
        prompt, response = conversation(turns[:-1], turns[-1:], "messages")
        return Group(criteria, prompt, (response,))


class Mistake(BaseModel):
    """What is wrong with a request, as a sentence that names the field."""

    detail: str
