"""What a person asks for, and its link."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from crm.page.bodies import Body, ProfileError, sentence
from crm.schema import GENERIC_CRITERION

MAX_LINES = 20
"""Criteria and dislikes together."""
MAX_CHARACTERS = 500
DISLIKE = "Dislikes: "
"""Put before what the person dislikes, so that the judge reads it as a criterion."""
SIMILAR = 60
"""Queries taken where they are chosen by similarity and no number is given."""
LISTS = ("criteria", "dislikes", "topics", "models")
TEXTS = ("about", "baseline", "queries")


def _clean(text: str) -> str:
    """Without surrounding space, control characters and lone surrogates."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _clean_json(value: Any) -> Any:
    return _clean(value) if isinstance(value, str) and len(value) <= MAX_CHARACTERS else value


Text = Annotated[str, Field(max_length=MAX_CHARACTERS), BeforeValidator(_clean_json, json_schema_input_type=str)]
Lines = Annotated[
    tuple[Text, ...],
    Field(max_length=1000),
    AfterValidator(lambda lines: tuple(dict.fromkeys(line for line in lines if line))),
]
Weight = Annotated[float, Field(ge=0.01, le=100.0), AfterValidator(lambda value: float(f"{value:g}"))]
"""Rounded to what a link holds."""


class Profile(Body):
    """What a person cares about, and which part of a bank it is about."""

    model_config = ConfigDict(frozen=True, strict=False)

    criteria: Lines = ()
    """Likes, a line each; with no dislikes either, what most people would find better is asked."""
    dislikes: Lines = ()
    """Dislikes, a line each."""
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
    def judge_criteria(self) -> tuple[str, ...]:
        """What the judge reads, dislikes marked; the generic criterion where there is nothing."""
        return (*self.criteria, *(DISLIKE + line for line in self.dislikes)) or (GENERIC_CRITERION,)

    @property
    def signed(self) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """Lines and their weights, below 0 for dislikes; the generic criterion where there are none."""
        if not self.lines:
            return (GENERIC_CRITERION,), (1.0,)
        sizes, likes = self.weights or (1.0,) * len(self.lines), len(self.criteria)
        return self.lines, (*sizes[:likes], *(-size for size in sizes[likes:]))

    @property
    def digest(self) -> str:
        """16 hex digits of all fields."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]

    def to_query(self) -> str:
        """The query string of a link that asks for the same: ``criteria=...&criteria=...&topics=...``."""
        pairs = [(name, value) for name in LISTS for value in getattr(self, name)]
        pairs += [(name, getattr(self, name)) for name in TEXTS if getattr(self, name)]
        return urlencode(pairs + [("weights", f"{weight:g}") for weight in self.weights])


def from_query(query: str) -> Profile:
    """The profile of `Profile.to_query`; parameters of other names are ignored. Raises `ProfileError`."""
    pairs = parse_qsl(query[: 4 * MAX_LINES * MAX_CHARACTERS])
    given: dict[str, Any] = {name: value for name, value in pairs if name in TEXTS}
    return from_mapping(given | {name: [v for key, v in pairs if key == name] for name in (*LISTS, "weights")})


def from_mapping(given: Mapping[str, Any]) -> Profile:
    """A checked profile. Raises `ProfileError`."""
    try:
        return Profile.model_validate(given)
    except ValidationError as error:
        raise ProfileError(sentence(error.errors(include_url=False, include_context=False))) from None
