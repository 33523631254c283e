"""What requests of the HTTP API hold, field by field. In: the body of a request. Out: checked fields, or a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, WithJsonSchema
from pydantic.json_schema import models_json_schema

from crm.io.untrusted import printable
from crm.page.profile import Profile, ProfileError
from crm.schema import short

PROFILE = TypeAdapter(Profile).json_schema()
AnyProfile = Annotated[dict[str, Any], WithJsonSchema(PROFILE)]
"""A JSON object; `crm.page.profile.from_mapping` checks it."""
REFERENCE = "#/components/schemas/{model}"
Place = Annotated[int, Field(ge=0, lt=1_000_000)]


class Body(BaseModel):
    """Has no fields but these."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class CompareAsked(Body):
    """Two people."""

    first: AnyProfile
    second: AnyProfile


class WhyAsked(Body):
    """Whose ranking, and which model's place in it."""

    profile: AnyProfile
    model: str
    """Any but the baseline."""
    examples: bool = False
    """A typical win and a typical loss alone, instead of every query."""


class SentencesAsked(Body):
    """Which response is taken apart."""

    profile: AnyProfile
    model: str
    query_id: str
    """As in the answer of ``/api/why``."""


class AskAsked(Body):
    """A model that the server's endpoint answers for."""

    name: str


B = TypeVar("B", bound=Body)


async def asked(request: Request, kind: type[B]) -> B:
    """The body of a request. Raises `ProfileError` that names the field, for anything else."""
    try:
        return kind.model_validate(await json_of(request))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "body"
        known = ", ".join(kind.model_fields)
        hint = f"; there are {known}" if first["type"] in ("extra_forbidden", "missing", "model_type") else ""
        raise ProfileError(
            f"{printable(where)[:80]}: {first['msg'].lower()}, got {short(first['input'])}{hint}"
        ) from None


async def json_of(request: Request) -> Any:
    """Raises `ProfileError` for what is no JSON."""
    try:
        return TypeAdapter(Any).validate_json(await request.body())
    except ValidationError:
        raise ProfileError("body: expected JSON in UTF-8") from None


def described(kind: type[BaseModel] | None = None) -> dict[str, Any]:
    """The body of a route for OpenAPI; without a kind it is a profile."""
    schema = PROFILE if kind is None else {"$ref": REFERENCE.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def of_lines(*kinds: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """An answer that is a line of JSON a step, each of one of ``kinds``, for OpenAPI."""
    schemas = [{"$ref": REFERENCE.format(model=kind.__name__)} for kind in kinds]
    content = {"application/x-ndjson": {"schema": {"oneOf": schemas}}}
    return {200: {"description": "A line of JSON a step", "content": content}}


def describe(api: FastAPI, kinds: Sequence[type[BaseModel]]) -> None:
    """Give OpenAPI the bodies that `described` names: routes read them on their own, whatever type they come as."""
    _, found = models_json_schema([(kind, "validation") for kind in kinds], ref_template=REFERENCE)
    made = api.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(found["$defs"])
        return document

    api.openapi = openapi  # type: ignore[method-assign]
