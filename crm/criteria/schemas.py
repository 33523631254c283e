"""What a language model must reply, and what its criteria may not be. In: a JSON object. Out: a validated model.

A criterion that breaks a rule makes the whole reply invalid: dropping it would hide what the model did.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from crm.criteria.prompts import EXAMPLE_WHY, EXAMPLES_A, EXAMPLES_B

MAX_PER_SIDE = 8
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=3, max_length=300)]
Side = Annotated[list[Text], Field(min_length=1, max_length=MAX_PER_SIDE)]

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


_EXAMPLES = frozenset(map(key, (*EXAMPLES_A, *EXAMPLES_B)))


class CriteriaReply(BaseModel):
    """Criteria under which a user would prefer A, and B: 1 to 8 a side, 3 to 300 characters, no two alike."""

    model_config = ConfigDict(extra="forbid")

    criteria_a: Side
    criteria_b: Side

    @field_validator("criteria_a", "criteria_b")
    @classmethod
    def _are_criteria(cls, criteria: list[str]) -> list[str]:
        for text in criteria:
            _check(text)
        if len({key(text) for text in criteria}) < len(criteria):
            raise ValueError("a criterion stands twice")
        return criteria

    @model_validator(mode="after")
    def _sides_differ(self) -> CriteriaReply:
        if shared(self.criteria_a, self.criteria_b):
            raise ValueError("a criterion stands on both sides")
        return self


class SubjectiveReply(BaseModel):
    """Whether good answers to a request differ by taste, and one sentence why."""

    model_config = ConfigDict(extra="forbid")

    subjective: bool
    why: Text

    @field_validator("why")
    @classmethod
    def _is_a_reason(cls, why: str) -> str:
        if key(why) == key(EXAMPLE_WHY):
            raise ValueError("the reason is copied from the example")
        return why


def shared(criteria_a: Sequence[str], criteria_b: Sequence[str]) -> bool:
    """Whether a criterion stands on both sides, in whatever case."""
    return bool({key(text) for text in criteria_a} & {key(text) for text in criteria_b})


def _check(text: str) -> None:
    if _CONTROL.search(text):
        raise ValueError("a criterion holds a line end or a control character")
    if sum(map(str.isalpha, text)) < 2 or _PLACEHOLDER.fullmatch(key(text).strip("<>[](){}\"' ")):
        raise ValueError("a criterion is a placeholder, not a wish")
    if key(text) in _EXAMPLES:
        raise ValueError("a criterion is copied from the example")
    if _NAMES_A_SIDE.search(text):
        raise ValueError("a criterion names response A or B, which means nothing without the pair")
