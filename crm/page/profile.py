"""What a person asks for, as a request's body or the query of a link."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator

from crm.schema import GENERIC_CRITERION
from crm.web import Body

MAX_LINES = 20
"""Criteria and dislikes together."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]
Distinct = AfterValidator(lambda lines: tuple(dict.fromkeys(line for line in lines if line)))
Lines = Annotated[tuple[Text, ...], Field(max_length=MAX_LINES), Distinct]
Topics = Annotated[tuple[Text, ...], Field(max_length=1000), Distinct]
Weight = Annotated[float, Field(ge=0.01, le=100.0)]


class Profile(Body):
    """What a person cares about, and which part of a bank it is about."""

    model_config = ConfigDict(frozen=True)

    criteria: Lines = ()
    """Likes, a line each. With no lines at all there is no ranking."""
    dislikes: Lines = ()
    """What counts against an answer, a line each."""
    topics: Topics = ()
    """Of the bank; empty for all."""
    baseline: Text = ""
    """The LLM to compare with; empty for the bank's own."""
    queries: int = Field(0, ge=0, le=100_000)
    """How many to draw, in turns over topics; 0 for all."""
    drop_flawed: bool = False
    """Leave out queries to which some LLM has an empty, cut off or repeating response, or one that quotes a line."""
    weights: tuple[Weight, ...] = ()
    """How much each line of criteria and then of dislikes counts, above 0 for dislikes too; empty: all the same."""

    @model_validator(mode="after")
    def _together(self) -> Profile:
        count = len(self.lines)
        if count > MAX_LINES:
            raise ValueError(f"criteria: {count} lines of likes and dislikes; at most {MAX_LINES} are read")
        if len(self.weights) not in (0, count):
            raise ValueError(f"weights: expected one for each of the {count} lines of likes and dislikes, or none")
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
