"""Describe and check the requests of the HTTP API field by field."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Request
from pydantic import Field, TypeAdapter, WithJsonSchema

from crm.page.profile import Profile, ProfileError
from crm.web.bodies import Body, BodyError, body_of, json_of

PROFILE = TypeAdapter(Profile).json_schema()
AnyProfile = Annotated[dict[str, Any], WithJsonSchema(PROFILE)]
"""A JSON object; `crm.page.profile.from_mapping` checks it."""
Place = Annotated[int, Field(ge=0, lt=1_000_000)]


class CompareRequest(Body):
    """Two people."""

    first: AnyProfile
    second: AnyProfile


class WhyRequest(Body):
    """Whose ranking, and which model's place in it."""

    profile: AnyProfile
    model: str
    """Any but the baseline."""
    examples: bool = False
    """A typical win and a typical loss alone, instead of every query."""


class SentencesRequest(Body):
    """Which response is taken apart."""

    profile: AnyProfile
    model: str
    query_id: str
    """As in the answer of ``/api/why``."""


B = TypeVar("B", bound=Body)


async def asked(request: Request, kind: type[B]) -> B:
    """The body of a request. Raises `ProfileError` that names the field, for anything else."""
    try:
        return await body_of(request, kind)
    except BodyError as error:
        raise ProfileError(str(error)) from None


async def profile_of(request: Request) -> Any:
    """The JSON of a request whose body is a profile. Raises `ProfileError` for what is no JSON."""
    try:
        return await json_of(request)
    except BodyError as error:
        raise ProfileError(str(error)) from None
