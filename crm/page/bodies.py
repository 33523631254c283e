"""Request bodies as pydantic models, and what is wrong with one as a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, model_validator
from starlette.exceptions import HTTPException

from crm.schema import short


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


def explain_errors(api: FastAPI) -> None:
    """Answer every mistake with ``{"error": sentence}``."""

    @api.exception_handler(RequestValidationError)
    async def invalid(_request: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": sentence(error.errors())}, 422)

    @api.exception_handler(ProfileError)
    async def wrong(_request: Request, error: ProfileError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 422)

    @api.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers=error.headers)
