"""What trainers' requests and answers hold, field by field; fields that they may add and that decide nothing pass."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from crm.rewards.scoring import Turns
from crm.rewards.server.bodies import MAX_GROUPS, AnyText, Criteria, Finite, Response, Talk, said
from crm.schema import Message
from crm.web.bodies import Body, BodyError

Texts = Annotated[list[AnyText], Field(min_length=1, max_length=MAX_GROUPS)]


class Foreign(BaseModel):
    """May have more fields than these."""

    model_config = ConfigDict(extra="ignore", strict=True, use_attribute_docstrings=True)


class GetRewardAsked(Foreign):
    """OpenRLHF's request."""

    query: Texts
    """Prompt and response as one templated text."""
    prompts: Texts
    labels: Annotated[list[AnyText | None], Field(max_length=MAX_GROUPS)] | None = None
    """The data set's label column: JSON with `Label`'s fields."""


class Label(Body):
    """What a label says of its sample."""

    criteria: Criteria = Field(default_factory=list)
    prompt: AnyText | Talk | None = None
    """What the policy was asked, as text or turns, where its template is not ChatML."""
    messages: Talk | None = None
    """The same, by another name."""
    anchor: Response | None = None
    """Of a judge that only compares: the response to compare with."""

    def turns(self) -> Turns:
        """The prompt as records; none where only the template holds it."""
        asked = self.messages if self.prompt is None else self.prompt
        return (Message("user", asked),) if isinstance(asked, str) else said(asked or [])


class GetRewardSaid(Body):
    """OpenRLHF's answer."""

    rewards: list[Finite]
    scores: list[Annotated[float, Field(ge=0, le=1)]]
    extra_logs: dict[str, list[Finite]]


class ClassifyAsked(Foreign):
    """vLLM's request for ``/classify`` and ``/pooling``: ``input`` or ``messages``."""

    model: str | None = None
    input: AnyText | Texts | None = None
    """Templated text; token ids are not taken."""
    messages: Talk | None = None
    use_activation: bool | None = None
    """Taken and without effect: the answer is the reward itself, as vLLM's for a regression model."""


class ListSaid(Body):
    """What vLLM's answers have in common."""

    id: str
    object: str
    created: int
    model: str
    usage: None
    """Tokens are not counted here."""


class Classified(Body):
    """One text."""

    index: int
    label: str
    probs: list[Finite]
    """The reward, and nothing else."""
    num_classes: int


class ClassifySaid(ListSaid):
    """vLLM's answer."""

    data: list[Classified]


class Pooled(Body):
    """One text."""

    index: int
    object: str
    data: list[Finite]


class PoolingSaid(ListSaid):
    """vLLM's answer."""

    data: list[Pooled]


class ProfileAsked(Foreign):
    """Personalized RewardBench's request."""

    response_text: AnyText
    query: AnyText
    profile: AnyText = ""


class ProfileSaid(Body):
    """Its answer."""

    score: Finite


def input_texts(asked: ClassifyAsked) -> list[str]:
    """The texts of ``input``. Raises `BodyError` where there are none."""
    if asked.input is None:
        raise BodyError("input: missing, and there are no messages either; send one of the two")
    return [asked.input] if isinstance(asked.input, str) else asked.input
