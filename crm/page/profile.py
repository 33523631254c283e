"""What a person asks for, as a request's body and as the query of a link."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crm.schema import GENERIC_CRITERION, short

MAX_LINES = 20
"""Criteria and dislikes together."""
MAX_CHARACTERS = 500
LISTS = ("criteria", "dislikes", "topics", "models", "weights")
TEXTS = ("about", "baseline", "queries")


class ProfileError(ValueError):
    """A field of a request holds something it may not; the message names it and says what is allowed."""


class Body(BaseModel):
    """Has no fields but these."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def known_fields(cls, given: Any) -> Any:
        """Raise ``ValueError`` for another field, with those that there are."""
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"{short(name)}: no such field; there are {', '.join(cls.model_fields)}")
        return given


def sentence(errors: Sequence[Any]) -> str:
    """The first of pydantic's errors: field, what is allowed, what was given."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return "body: expected JSON in UTF-8"
    if isinstance(first["input"], bytes) and len(first["loc"]) < 2:
        return "body: expected JSON in UTF-8, with the header Content-Type: application/json"
    where = ".".join(map(str, first["loc"])).removeprefix("body.") or "body"
    why = re.sub("[Tt]uple", "list", first["msg"].removeprefix("Value error, "))
    if first["type"] == "value_error":
        return why if where == "body" else f"{where}: {why}"
    return f"{where[:80]}: {why[:1].lower()}{why[1:]}, got {short(first['input'])}"


def _clean(value: Any) -> Any:
    """Text without surrounding space, control characters and lone surrogates."""
    if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
        return value
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())


Text = Annotated[str, Field(max_length=MAX_CHARACTERS), BeforeValidator(_clean, json_schema_input_type=str)]
Lines = Annotated[
    tuple[Text, ...],
    Field(max_length=1000),
    AfterValidator(lambda lines: tuple(dict.fromkeys(line for line in lines if line))),
]
Weight = Annotated[float, Field(ge=0.01, le=100.0)]


class Profile(Body):
    """What a person cares about, and which part of a bank it is about."""

    model_config = ConfigDict(frozen=True, strict=False)

    criteria: Lines = ()
    """Likes, a line each; with no dislikes either, what most people would find better is asked."""
    dislikes: Lines = ()
    topics: Lines = ()
    """Of the bank; empty for all."""
    about: Text = ""
    """A sentence about what the person does: queries are chosen by similarity to it, instead of by topics."""
    baseline: Text = ""
    """The LLM to compare with; empty for the bank's own."""
    models: Lines = ()
    """LLMs that take part; empty for all."""
    queries: int = Field(0, ge=0, le=100_000)
    """How many to draw, in turns over topics; 0 for all, or with ``about`` for the 60 most similar."""
    weights: tuple[Weight, ...] = ()
    """How much each line of criteria and then of dislikes counts, above 0 for dislikes too; empty: all the same."""

    @field_validator("weights")
    @classmethod
    def _one_for_each_line(cls, weights: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        count = len(info.data.get("criteria", ())) + len(info.data.get("dislikes", ()))
        if len(weights) not in (0, count):
            raise ValueError(f"expected one for each of the {count} lines of likes and dislikes, or none")
        return () if set(weights) == {1.0} else weights

    @model_validator(mode="after")
    def _together(self) -> Profile:
        if len(self.lines) > MAX_LINES:
            raise ValueError(f"criteria: {len(self.lines)} lines of likes and dislikes; at most {MAX_LINES} are read")
        if self.about and self.topics:
            raise ValueError("topics: queries are chosen by topics or by what you do, not by both; clear one of them")
        return self

    @property
    def lines(self) -> tuple[str, ...]:
        """Likes, then dislikes."""
        return (*self.criteria, *self.dislikes)

    @property
    def signed(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Lines and their weights, below 0 for dislikes; the generic criterion where there are none."""
        if not self.lines:
            return (GENERIC_CRITERION,), (1.0,)
        sizes, likes = self.weights or (1.0,) * len(self.lines), len(self.criteria)
        return self.lines, (*sizes[:likes], *(-size for size in sizes[likes:]))


def from_query(query: str) -> Profile:
    """The profile of a link, ``criteria=...&criteria=...&topics=...``; other parameters are ignored.

    Raises `ProfileError`.
    """
    pairs = parse_qsl(query[: 4 * MAX_LINES * MAX_CHARACTERS])
    given: dict[str, Any] = {name: value for name, value in pairs if name in TEXTS}
    try:
        return Profile.model_validate(given | {name: [v for key, v in pairs if key == name] for name in LISTS})
    except ValidationError as error:
        raise ProfileError(sentence(error.errors(include_url=False, include_context=False))) from None
