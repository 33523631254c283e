"""Check what a person asks for, and turn it into a link and back.

The limits hold for everybody who reaches the server, whatever the page in front of it lets through.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any
from urllib.parse import parse_qsl, urlencode

from pydantic import ConfigDict

from crm.schema import GENERIC_CRITERION, short

MAX_LINES = 20
"""Criteria and dislikes together."""
MAX_CHARACTERS = 500
"""Of one of them, and of the sentence about what the person does."""
DISLIKE = "Dislikes: "
"""Put before what the person dislikes, so that the judge reads it as a criterion."""
MAX_QUERIES = 100_000
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0
SIMILAR = 60
"""Queries taken where they are chosen by similarity and nobody says how many."""
LISTS = ("criteria", "dislikes", "topics", "models")
TEXTS = ("about", "baseline")


class ProfileError(ValueError):
    """A field of a profile holds something it may not; the message names it and says what is allowed."""


@dataclass(frozen=True)
class Profile:
    """What a person cares about, and which part of a bank it is about. Raises `ProfileError`."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)

    criteria: tuple[str, ...] = ()
    """Likes, a line each; with no dislikes either, what most people would find better is asked."""
    dislikes: tuple[str, ...] = ()
    """Dislikes, a line each."""
    topics: tuple[str, ...] = ()
    """Of the bank; empty for all."""
    about: str = ""
    """A sentence about what the person does: queries are chosen by similarity to it, instead of by topics."""
    baseline: str = ""
    """The LLM to compare with; empty for the bank's own."""
    models: tuple[str, ...] = ()
    """LLMs that take part; empty for all."""
    queries: int = 0
    """How many to draw, in turns over topics; 0 for all, or with ``about`` for the 60 most similar."""
    weights: tuple[float, ...] = ()
    """How much each line of criteria and then of dislikes counts; empty: all the same."""

    def __post_init__(self) -> None:
        for name in LISTS:
            object.__setattr__(self, name, _lines(name, getattr(self, name)))
        for name in TEXTS:
            value = getattr(self, name)
            if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
                raise ProfileError(f"{name}: expected text of at most {MAX_CHARACTERS} characters, got {short(value)}")
            object.__setattr__(self, name, _clean(value))
        if isinstance(self.queries, bool) or not isinstance(self.queries, int) or not 0 <= self.queries <= MAX_QUERIES:
            raise ProfileError(f"queries: expected a number from 0 (all) to {MAX_QUERIES}, got {short(self.queries)}")
        count = len(self.criteria) + len(self.dislikes)
        if count > MAX_LINES:
            raise ProfileError(f"criteria: {count} lines of likes and dislikes; at most {MAX_LINES} are read")
        object.__setattr__(self, "weights", _weights(self.weights, count))
        if self.about and self.topics:
            raise ProfileError("topics: queries are chosen by topics or by what you do, not by both; clear one of them")

    @property
    def told(self) -> tuple[str, ...]:
        """What the judge is told, in the person's order; the generic criterion where there is nothing."""
        return (*self.criteria, *(DISLIKE + line for line in self.dislikes)) or (GENERIC_CRITERION,)

    @property
    def digest(self) -> str:
        """16 hex digits of all fields."""
        return hashlib.sha256(json.dumps(asdict(self)).encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def to_query(self) -> str:
        """The query string of a link that asks for the same: ``criteria=...&criteria=...&topics=...``."""
        pairs = [(name, value) for name in LISTS for value in getattr(self, name)]
        pairs += [(name, getattr(self, name)) for name in (*TEXTS, "queries") if getattr(self, name)]
        return urlencode(pairs + [("weights", f"{weight:g}") for weight in self.weights])


def from_query(query: str) -> Profile:
    """The profile of `Profile.to_query`; parameters of other names are passed over."""
    pairs = parse_qsl(query[: 4 * MAX_LINES * MAX_CHARACTERS], max_num_fields=1000)
    given: dict[str, Any] = {name: tuple(value for key, value in pairs if key == name) for name in LISTS}
    given |= {name: value for name, value in pairs if name in TEXTS}
    number = dict(pairs).get("queries", "0")
    given["weights"] = tuple(_number(value) for key, value in pairs if key == "weights")
    return Profile(**given, queries=int(number) if number.isascii() and number.isdigit() else -1)


def from_mapping(given: Mapping[str, Any]) -> Profile:
    """A profile from a JSON object. Raises `ProfileError` for a field that there is none of."""
    known = [field.name for field in fields(Profile)]
    for name in given:
        if name not in known:
            raise ProfileError(f"{short(name)}: no such field; there are {', '.join(known)}")
    return Profile(**given)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _weights(values: Any, count: int) -> tuple[float, ...]:
    """Checked and rounded to what a link holds; nothing where all of them are 1."""
    if isinstance(values, str) or not isinstance(values, Sequence) or len(values) not in (0, count):
        raise ProfileError(f"weights: expected one for each of the {count} lines of likes and dislikes, or none")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not LEAST_WEIGHT <= value <= MOST_WEIGHT:
            raise ProfileError(
                f"weights: {short(value)}: expected numbers from {LEAST_WEIGHT:g} to {MOST_WEIGHT:g}; a dislike has a "
                "weight above 0 as well"
            )
    rounded = tuple(float(f"{value:g}") for value in values)
    return () if all(weight == 1.0 for weight in rounded) else rounded


def _lines(name: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ProfileError(f"{name}: expected a list of texts, got {short(values)}")
    if len(values) > 1000:
        raise ProfileError(f"{name}: {len(values)} entries are more than any bank has; send fewer")
    cleaned = []
    for value in values:
        if not isinstance(value, str) or len(value) > MAX_CHARACTERS:
            raise ProfileError(f"{name}: expected texts of at most {MAX_CHARACTERS} characters, got {short(value)}")
        cleaned.append(_clean(value))
    return tuple(dict.fromkeys(line for line in cleaned if line))


def _clean(text: str) -> str:
    """Without surrounding space and without what cannot be shown or encoded: control characters, lone surrogates."""
    kept = "".join(letter if letter.isprintable() else " " for letter in text)
    return " ".join(kept.split())
