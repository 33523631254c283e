"""How the body of a request is read. In: a request and what it should hold. Out: checked fields, or a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema

from crm.io.rows import printable
from crm.schema import short

REFERENCE = "#/components/schemas/{model}"


class BodyError(ValueError):
    """A body is no JSON, or a field of it holds something it may not; the message names it."""


class Body(BaseModel):
    """Has no fields but these."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


B = TypeVar("B", bound=BaseModel)


async def body_of(request: Request, kind: type[B]) -> B:
    """The body of a request. Raises `BodyError` that names the field, for anything else."""
    content = await request.body()
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise BodyError(_sentence(error, kind)) from None


async def json_of(request: Request) -> Any:
    """Any JSON value. Raises `BodyError` for what is none."""
    try:
        return TypeAdapter(Any).validate_json(await request.body())
    except ValidationError:
        raise BodyError("body: expected JSON in UTF-8") from None


def _sentence(error: ValidationError, kind: type[BaseModel]) -> str:
    first = error.errors(include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "body: expected JSON in UTF-8"
    # Of a union pydantic also names the type that was tried, such as list[str].
    where = ".".join(str(part) for part in first["loc"] if str(part).isidentifier() or part != str(part)) or "body"
    known = ", ".join(kind.model_fields)
    unknown = first["type"] in ("extra_forbidden", "missing", "model_type") and len(first["loc"]) <= 1
    hint = f"; there are {known}" if unknown else ""
    return f"{printable(where)[:80]}: {first['msg'][:1].lower()}{first['msg'][1:]}, got {short(first['input'])}{hint}"


def described(kind: type[BaseModel]) -> dict[str, Any]:
    """The body of a route for OpenAPI."""
    return body_like({"$ref": REFERENCE.format(model=kind.__name__)})


def body_like(schema: dict[str, Any]) -> dict[str, Any]:
    """The same, by a JSON schema."""
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(api: FastAPI, kinds: Sequence[type[BaseModel]]) -> None:
    """Give OpenAPI the bodies that `described` names: routes read them on their own, whatever type they come as."""
    _, found = models_json_schema([(kind, "validation") for kind in kinds], ref_template=REFERENCE)
    made = api.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(found["$defs"])
        return document

    api.openapi = openapi  # type: ignore[method-assign]
