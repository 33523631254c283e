"""Many questions to a chat endpoint. In: requests and the schema of a reply. Out: one outcome per request, in order.

An answer is a reply that holds exactly one JSON object valid under the schema. A reply that does not is sent back once
with what is wrong; if the second one is no better, the request has failed. A failed request never has a value.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, Generic

from pydantic import BaseModel

from crm.io import rows
from crm.io.chat import failures, replies
from crm.io.chat.cache import ReplyCache, code_version, request_key
from crm.io.chat.client import CHARACTERS_PER_TOKEN, ChatClient
from crm.io.chat.counts import Counts
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import CallFailed, one_line
from crm.io.chat.replies import Schema, read_object
from crm.io.chat.together import gather_limited
from crm.schema import Message

OnProgress = Callable[[int, int], None]
"""Called with (requests done, all requests) after each."""
REPAIRED = frozenset({"not_json", "wrong_schema"})
"""Kinds of failure that a second try of the model may mend."""
MAX_RETURNED_TEXT = 4_000
"""Characters of an invalid reply that are sent back."""


@dataclass(frozen=True, slots=True)
class Request:
    """One question. ``id`` is for messages and outcomes only; it need not be unique."""

    id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Schema]):
    """What became of one request: a ``value``, or ``failure`` (of `failures.FAILURES`) and its ``detail``."""

    id: str
    value: Schema | None = None
    failure: str | None = None
    detail: str = ""
    cached: bool = False
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What asking would cost. Tokens are estimates from characters / 4; those of replies are the most allowed.

    Retries and repairs come on top.
    """

    requests: int
    cached: int
    calls: int
    prompt_tokens: int
    max_completion_tokens: int


class Asker:
    """Asks an endpoint, remembers valid replies in ``cache`` and counts.

    Budgets, the total deadline and the circuit breaker hold over all runs of one asker; a new asker begins anew.
    """

    def __init__(self, endpoint: Endpoint, cache: ReplyCache | None = None) -> None:
        self.endpoint = endpoint
        self.cache = cache
        self.counts = Counts()
        self._ends: float | None = None

    def plan(self, requests: Sequence[Request], schema: type[Schema], sources: Sequence[ModuleType]) -> Plan:
        """What `ask_all` would have to send; sends nothing itself."""
        version = _version(schema, sources)
        missing = [request for request in requests if self._remembered(request, schema, version) is None]
        characters = sum(len(turn.content) for request in missing for turn in request.messages)
        return Plan(
            requests=len(requests),
            cached=len(requests) - len(missing),
            calls=len(missing),
            prompt_tokens=characters // CHARACTERS_PER_TOKEN,
            max_completion_tokens=len(missing) * self.endpoint.max_tokens,
        )

    def ask_all(
        self,
        requests: Sequence[Request],
        schema: type[Schema],
        sources: Sequence[ModuleType],
        progress: OnProgress | None = None,
    ) -> list[Outcome[Schema]]:
        """One outcome per request, in the order of requests. Where an event loop runs, await `ask_many` instead.

        ``sources`` are the modules that write these prompts and define ``schema``: when their text changes, replies
        in the cache no longer count. A request that fails is an outcome and is asked again by the next run; only what
        dooms every request (a wrong key, address or model, an unusable cache) raises ``ValueError``. What was answered
        before an error or an interruption stays in the cache.
        """
        return asyncio.run(self.ask_many(requests, schema, sources, progress))

    async def ask_many(
        self,
        requests: Sequence[Request],
        schema: type[Schema],
        sources: Sequence[ModuleType],
        progress: OnProgress | None = None,
    ) -> list[Outcome[Schema]]:
        """As `ask_all`, for a running event loop."""
        version = _version(schema, sources)
        done = 0

        async def one(request: Request) -> Outcome[Schema]:
            nonlocal done
            outcome = await self.ask_structured(client, request, schema, version)
            done += 1
            if progress is not None:
                progress(done, len(requests))
            return outcome

        self._ends = self._ends or time.monotonic() + self.endpoint.total_deadline_s
        async with ChatClient(self.endpoint, self.counts, self._ends) as client:
            return await gather_limited([partial(one, request) for request in requests], self.endpoint.concurrency)

    async def ask_structured(
        self, client: ChatClient, request: Request, schema: type[Schema], version: str
    ) -> Outcome[Schema]:
        """The outcome of one request: from the cache, else from the endpoint, with one repair."""
        remembered = self._remembered(request, schema, version)
        if remembered is not None:
            self.counts.requests += 1
            self.counts.cached += 1
            return remembered
        try:
            text, value, repaired = await self._ask(client, request, schema)
        except CallFailed as failure:
            self.counts.requests += 1
            self.counts.failures[failure.kind] += 1
            detail = one_line(failure.detail, self.endpoint.api_key, limit=400)
            return Outcome(request.id, failure=failure.kind, detail=detail)
        self.counts.requests += 1
        self.counts.answered += 1
        self.counts.repaired += repaired
        if self.cache is not None:
            self.cache.put(self._key(request, version), json.dumps({"text": text, "repaired": repaired}))
        return Outcome(request.id, value, repaired=repaired)

    async def _ask(self, client: ChatClient, request: Request, schema: type[Schema]) -> tuple[str, Schema, bool]:
        """A valid reply: its text, its value and whether it took a repair. Raises `CallFailed`."""
        response_format = _response_format(schema) if self.endpoint.json_schema else None
        text = await client.call(request.messages, request.id, response_format)
        try:
            return text, read_object(text, schema), False
        except CallFailed as failure:
            if failure.kind not in REPAIRED:
                raise
            messages = (*request.messages, *_send_back(text, failure))
        self.counts.repairs += 1
        text = await client.call(messages, f"{request.id} repair", response_format)
        return text, read_object(text, schema), True

    def _remembered(self, request: Request, schema: type[Schema], version: str) -> Outcome[Schema] | None:
        """The outcome in the cache. What cannot be read there counts as missing and will be replaced."""
        stored = None if self.cache is None else self.cache.get(self._key(request, version))
        if stored is None:
            return None
        try:
            entry = json.loads(stored)
            value = read_object(entry["text"], schema)
            return Outcome(request.id, value, cached=True, repaired=bool(entry["repaired"]))
        except (CallFailed, ValueError, KeyError, TypeError):
            return None

    def _key(self, request: Request, version: str) -> str:
        return request_key(self.endpoint, request.messages, version)


def _version(schema: type[BaseModel], sources: Sequence[ModuleType]) -> str:
    """What a reply has to satisfy and the code that decides it, as a digest."""
    code = code_version([*sources, sys.modules[__name__], replies, failures, rows])
    return f"{code} {json.dumps(schema.model_json_schema(), sort_keys=True)}"


def _response_format(schema: type[Schema]) -> dict[str, Any]:
    """The schema as the chat API takes it. Not strict: strict mode allows no limits on lengths."""
    return {"type": "json_schema", "json_schema": {"name": schema.__name__, "schema": schema.model_json_schema()}}


def _send_back(text: str, failure: CallFailed) -> tuple[Message, Message]:
    complaint = (
        f"Your reply cannot be used: {failure.detail}. Write it again, the whole of it, as one JSON object of the form"
        " described above and nothing else: no code fence, no words before or after it."
    )
    return Message("assistant", text[:MAX_RETURNED_TEXT]), Message("user", complaint)
