"""Request bodies as pydantic models, and what is wrong with one as a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from crm.schema import short

REFERENCE = "#/components/schemas/{model}"


class BodyError(ValueError):
    """A field of a request holds something it may not; the message names it."""


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
    # Of a union pydantic also names the type that was tried, such as list[str].
    places = [str(part) for part in first["loc"] if str(part).isidentifier() or part != str(part)]
    where = ".".join(places[1:] if places[:1] == ["body"] else places) or "body"
    why = re.sub("[Tt]uple", "list", first["msg"].removeprefix("Value error, "))
    if first["type"] == "value_error":
        return why if where == "body" else f"{where}: {why}"
    return f"{where[:80]}: {why[:1].lower()}{why[1:]}, got {short(first['input'])}"


def explain_errors(api: FastAPI) -> None:
    """Answer every mistake with ``{"error": sentence}``."""

    @api.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence(error.errors())}, 422)

    @api.exception_handler(BodyError)
    async def wrong(_request: Request, error: BodyError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @api.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)


B = TypeVar("B", bound=BaseModel)


async def body_of(request: Request, kind: type[B]) -> B:
    """The body of a request, of any content type. Raises `BodyError`."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        raise BodyError(sentence(error.errors(include_url=False, include_context=False))) from None


def described(kind: type[BaseModel]) -> dict[str, Any]:
    """The body of a route for OpenAPI, where `body_of` reads it."""
    schema = {"$ref": REFERENCE.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def describe(api: FastAPI, kinds: Sequence[type[BaseModel]]) -> None:
    """Give OpenAPI the bodies that `described` names."""
    _, found = models_json_schema([(kind, "validation") for kind in kinds], ref_template=REFERENCE)
    made = api.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        document.setdefault("components", {}).setdefault("schemas", {}).update(found["$defs"])
        return document

    api.openapi = openapi  # type: ignore[method-assign]
