"""What a language model must reply, as pydantic models; one bad criterion makes the whole reply invalid."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from crm.criteria.prompts import EXAMPLE_WHY, EXAMPLES_A, EXAMPLES_B

MAX_PER_SIDE = 8
_PLACEHOLDER = re.compile(
    r"(your |another |first |second |third |a |an |the |some |my )?"
    r"(criteri(on|a|ons|um)|string|text|wish|item|example|placeholder|lorem ipsum.*|todo|tbd|n/?a|none|null|unknown|"
    r"nothing|same( as .*)?)"
    r"( (text|here|goes here|for|of|side|person|a|b|one|two|three|[0-9]+))*[\s\W]*[0-9]*[\s\W]*",
)
_NAMES_A_SIDE = re.compile(
    r"\b([Rr]esponses?|[Aa]nswer|[Aa]ssistant|[Mm]odel|[Oo]ption|[Ss]ide)[ _-]?(A|B)\b|_[ab]\b"
    r"|\b[Tt]he (first|second|former|latter|other) (response|answer|one)\b"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def key(text: str) -> str:
    """Equal for texts that differ only in case, white space and a full stop."""
    return " ".join(text.casefold().split()).rstrip(".")


_EXAMPLES = frozenset(map(key, (*EXAMPLES_A, *EXAMPLES_B, EXAMPLE_WHY)))


def _original(text: str) -> str:
    if key(text) in _EXAMPLES:
        raise ValueError("the text is copied from the example")
    return text


def _one_line(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("the text has a line end or a control character")
    return text


def _criterion(text: str) -> str:
    if sum(map(str.isalpha, text)) < 2 or _PLACEHOLDER.fullmatch(key(text).strip("<>[](){}\"' ")):
        raise ValueError("a criterion is a placeholder")
    if _NAMES_A_SIDE.search(text):
        raise ValueError("a criterion names response A or B, which means nothing without the pair")
    return text


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=300), AfterValidator(_original)]
Side = Annotated[
    list[Annotated[Text, AfterValidator(_one_line), AfterValidator(_criterion)]],
    Field(min_length=1, max_length=MAX_PER_SIDE),
]


class CriteriaReply(BaseModel):
    """Criteria under which a user would prefer A, and B: 1 to 8 a side, 3 to 300 characters, no two alike."""

    model_config = ConfigDict(extra="forbid")

    criteria_a: Side
    criteria_b: Side

    @field_validator("criteria_a", "criteria_b")
    @classmethod
    def _differ(cls, criteria: list[str]) -> list[str]:
        if len({key(text) for text in criteria}) < len(criteria):
            raise ValueError("a criterion is repeated")
        return criteria

    @model_validator(mode="after")
    def _sides_differ(self) -> CriteriaReply:
        if {key(text) for text in self.criteria_a} & {key(text) for text in self.criteria_b}:
            raise ValueError("a criterion is on both sides")
        return self


class SubjectiveReply(BaseModel):
    """Whether good answers to a request differ by taste, and one sentence why."""

    model_config = ConfigDict(extra="forbid")

    subjective: bool
    why: Text
