"""Grades of a response on many criteria, by a language model in one call."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidatorFunctionWrapHandler, WrapValidator, create_model, model_validator

from crm.criteria.pool import Criterion
from crm.criteria.prompts import PROMPTS, as_json
from crm.schema import Message

_WRITTEN = re.compile(r"(\d{1,2})(?:\.0+)?(?: ?/ ?10)?")
_TASK = PROMPTS["grading"]


def grading_task(criteria: Sequence[Criterion]) -> str:
    """The instruction, the same for every response."""
    named = as_json({each.name: each.definition for each in criteria})
    return _TASK.format(criteria=named, count=len(criteria), example=json.dumps(criteria[0].name))


def grading_messages(task: str, prompt: Sequence[Message], response: str) -> tuple[Message, Message]:
    """Ask for grades of a response; all texts from data are in one JSON object (`as_json`), and nothing is cut."""
    turns = [{"role": turn.role, "content": turn.content} for turn in prompt]
    return Message("system", task), Message("user", as_json({"conversation": turns, "response": response}))


class Grades(BaseModel):
    """A grade for each criterion, in their order: an integer from 1 to 10, None for "cannot tell", NaN: unreadable.

    A grade that is missing, out of range or something else is unreadable by itself, never another number. A reply in
    which all are is invalid.
    """

    @model_validator(mode="before")
    @classmethod
    def _every_name(cls, given: Any) -> Any:
        names = [str(field.alias) for field in cls.model_fields.values()]
        return {name: given.get(name, "missing") for name in names} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _one_at_least(self) -> Grades:
        if all(grade is not None and math.isnan(grade) for grade in self.grades()):
            raise ValueError("no grade is an integer from 1 to 10 or null under the name of its criterion")
        return self

    def grades(self) -> list[float | None]:
        """Of each criterion."""
        return [getattr(self, name) for name in type(self).model_fields]


def _read(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """An integer may be written 7.0, "7" or "7/10"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (found := _WRITTEN.fullmatch(value.strip())):
        value = int(found[1])
    try:
        return check(value)
    except ValueError:
        return math.nan


Grade = Annotated[Annotated[int, Field(ge=1, le=10)] | None, WrapValidator(_read)]


def grades_model(criteria: Sequence[Criterion]) -> type[Grades]:
    """What a reply has to be."""
    fields: dict[str, Any] = {f"grade_{place}": (Grade, Field(alias=each.name)) for place, each in enumerate(criteria)}
    return create_model("Grades", __base__=Grades, **fields)
