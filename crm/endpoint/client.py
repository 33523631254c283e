"""Chat endpoints (OpenAI-compatible): requests side by side, validated replies, one cache of replies.

A request that fails is an outcome with a kind (`crm.endpoint.replies.CallFailed`) and never has a value. The next run
asks it again, and takes what was answered from the cache.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from crm.config import Settings, setting
from crm.endpoint.replies import UNANSWERED, CallFailed, Reply, ReplyCache, read_object, reply_of
from crm.schema import Message

BREAKER = 10
CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English, for estimates."""
MISTAKES = {
    **dict.fromkeys((401, 403), "the endpoint does not accept the key; check api_key and the variable it comes from"),
    402: "no credit is left; add some, and the same command goes on",
    404: "check base_url (it usually ends in /v1) and that the model is served",
}
"""What no request survives, by status; 403 and 404 are about one request once another was answered."""
REFUSED = ("max_tokens", "temperature")
"""The parameters that reasoning models do not support."""
MAX_RETURNED = 4_000
"""Characters of an invalid reply that are sent back to be repaired."""
log = logging.getLogger(__name__)
Value = TypeVar("Value")
Schema = TypeVar("Schema", bound=BaseModel)


@dataclass
class EndpointConfig(Settings, group="endpoint"):
    """An OpenAI-compatible chat endpoint and how hard it may be used."""

    base_url: str | None = None
    """Of any OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1."""
    model: str | None = None
    key_variable: str = "CRM_API_KEY"
    """Environment variable that holds the key; a server that wants none needs none."""
    temperature: float = setting(0.0, at_least=0, at_most=2)
    max_tokens: int = setting(1024, at_least=1)
    """Tokens of one reply at most."""
    concurrency: int = setting(8, at_least=1, at_most=256)
    """Requests at once."""
    call_deadline_s: float = setting(120.0, above=0, unit="seconds")
    """Seconds for one attempt of a call."""
    attempts: int = setting(4, at_least=1)
    budget_calls: int = setting(0, at_least=0, zero="no limit")
    """Calls at most in one run, attempts of one call counted once."""
    json_schema: bool = False
    """Have the server write JSON under a schema (``response_format``); for servers that can."""

    def need(self) -> None:
        """Raise ``ValueError`` unless an endpoint and its model are named."""
        for name in ("base_url", "model"):
            self.require(getattr(self, name), name, "a value: an endpoint has a base_url and a model")
        given = str(self.base_url)
        valid = re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", given)
        self.require(valid, "base_url", "an address without user, query and fragment, as http://127.0.0.1:8000/v1")

    def api_key(self) -> str | None:
        """The key in the environment. Raises ``ValueError`` where a variable was named that is not set."""
        key = os.environ.get(self.key_variable)
        if not key and self.key_variable != EndpointConfig.key_variable:
            # Without its value: somebody may have put the key itself there.
            raise ValueError(
                f"{self._prefix}key_variable: no environment variable of that name is set; export it with the key, or "
                "leave the setting out for a server that wants none"
            )
        return key or None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """What became of one request: a ``value``, or a ``failure`` (kind of `CallFailed`) and its ``detail``."""

    value: Value | None = None
    failure: str | None = None
    detail: str = ""
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What asking would cost. Tokens are estimates from characters / 4; those of replies are the most allowed."""

    requests: int
    cached: int
    calls: int
    prompt_tokens: int
    max_completion_tokens: int


class ChatClient:
    """Asks one endpoint and counts."""

    def __init__(self, endpoint: EndpointConfig, cache: ReplyCache | None = None) -> None:
        self.endpoint, self.cache = endpoint, cache
        named = {name: getattr(endpoint, name) for name in ("model", "temperature", "max_tokens")}
        self.parameters: dict[str, Any] = {**named, "seed": 0}
        self._key = endpoint.api_key()
        self._calls, self._unanswered, self._answered = itertools.count(1), 0, False
        self._refused: frozenset[str] = frozenset()

    def key(self, messages: Sequence[Message], version: str) -> str:
        """SHA-256 over address, parameters, messages and version; not over ``max_tokens``, nor the key of the API."""
        content = {
            "url": f"{str(self.endpoint.base_url).rstrip('/')}/chat/completions",
            "parameters": {name: value for name, value in self.parameters.items() if name != "max_tokens"},
            "messages": [[turn.role, turn.content] for turn in messages],
            "version": version,
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def ask_for(
        self,
        schema: type[Schema],
        requests: Sequence[Sequence[Message]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Outcome[Schema]]:
        """One ``schema`` a request, as `ask` gives them; an invalid reply is sent back once."""
        read = partial(read_object, schema=schema)
        return self.ask(requests, read, self._version(schema), schema=schema, progress=progress)

    def plan_for(self, schema: type[BaseModel], requests: Sequence[Sequence[Message]]) -> Plan:
        """What `ask_for` would cost; sends nothing."""
        version = self._version(schema)
        asked = {self.key(turns, version): turns for turns in requests}
        missing = [turns for key, turns in asked.items() if not (self.cache and self.cache.get(key))]
        characters = sum(len(turn.content) for turns in missing for turn in turns)
        most = len(missing) * self.endpoint.max_tokens
        return Plan(len(asked), len(asked) - len(missing), len(missing), characters // CHARACTERS_PER_TOKEN, most)

    def _version(self, schema: type[BaseModel]) -> str:
        text = json.dumps(schema.model_json_schema(), sort_keys=True)
        return f"json_schema {text}" if self.endpoint.json_schema else text

    def ask(
        self,
        requests: Sequence[Sequence[Message]],
        read: Callable[[Reply], Value],
        version: str,
        *,
        schema: type[BaseModel] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Outcome[Value]]:
        """One outcome a request, in order; equal ones are sent once. ``read`` makes a value of a reply, or raises
        `CallFailed`.

        ``version`` says what a reply has to satisfy: a cached one counts only under the version it was accepted by.
        With a ``schema`` a reply that is not_json or wrong_schema is sent back once with what is wrong. Raises
        ``ValueError`` for what dooms every request: a wrong key, address or model, a cache that cannot be used.
        """
        keys = [self.key(messages, version) for messages in requests]
        asked = dict(zip(keys, requests, strict=True))
        found = {key: outcome for key in asked if (outcome := self._cached(key, read))}
        pool = ThreadPoolExecutor(self.endpoint.concurrency)
        try:
            futures = {
                pool.submit(self._answer, messages, key, read, schema): key
                for key, messages in asked.items()
                if key not in found
            }
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                if progress is not None:
                    progress(len(found), len(asked))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return [found[key] for key in keys]

    def _cached(self, key: str, read: Callable[[Reply], Value]) -> Outcome[Value] | None:
        reply = self.cache.get(key) if self.cache is not None else None
        try:
            return Outcome(read(reply), tokens=reply.tokens) if reply else None
        except CallFailed:
            return None

    def _answer(
        self, messages: Sequence[Message], key: str, read: Callable[[Reply], Value], schema: type[BaseModel] | None
    ) -> Outcome[Value]:
        """What became of the request; a reply that can be read is cached."""
        tokens = None
        form = {"response_format": response_format(schema)} if schema and self.endpoint.json_schema else {}
        try:
            reply = self.call(messages, **form)
            tokens = reply.tokens
            try:
                value = read(reply)
            except CallFailed as failure:
                if schema is None or failure.kind not in ("not_json", "wrong_schema"):
                    raise
                reply = self.call([*messages, *_sent_back(reply.text, failure.detail)], **form)
                value = read(reply)
        except CallFailed as failure:
            return Outcome(failure=failure.kind, detail=failure.detail, tokens=tokens)
        if self.cache is not None:
            self.cache.put(key, reply)
        return Outcome(value, tokens=reply.tokens)

    def call(self, messages: Sequence[Message], **form: Any) -> Reply:
        """The reply to one request. Raises `CallFailed`; ``ValueError`` where no request can succeed."""
        if self._unanswered >= BREAKER:
            raise CallFailed("endpoint_down", f"not sent: {self._unanswered} calls in a row got no answer")
        if 0 < self.endpoint.budget_calls < next(self._calls):
            raise CallFailed("budget", f"not sent: the budget is {self.endpoint.budget_calls} calls")
        try:
            reply = reply_of(self._complete(messages, form))
        except CallFailed as failure:
            self._unanswered = self._unanswered + 1 if failure.kind in UNANSWERED else 0
            raise
        self._unanswered, self._answered = 0, True
        return reply

    def _complete(self, messages: Sequence[Message], form: Mapping[str, Any]) -> Any:
        import openai

        refused = self._refused
        try:
            turns: Any = [{"role": turn.role, "content": turn.content} for turn in messages]
            return self._sdk.chat.completions.create(messages=turns, **self._taken(refused), **form)
        except openai.APIStatusError as error:
            detail = f"status {error.status_code}: {error.body}".replace(self._key or "\0", "[key]")
            text = error.response.text if error.status_code == 400 else ""  # of a proxy without param and code
            named = re.findall(r"[\"'](\w+)[\"']", text) if "unsupported" in text.lower() else []
            if name := next((name for name in REFUSED if name in named and name not in refused), None):
                if name not in self._refused:
                    log.warning("%s: asked without %s from now on (%s)", self.endpoint.model, name, detail[:200])
                self._refused |= {name}
                return self._complete(messages, form)
            alone = error.status_code in (403, 404) and (self._answered or "flagged" in detail)
            if not alone and (mistake := MISTAKES.get(error.status_code)) is not None:
                raise ValueError(f"{self.endpoint.base_url}: {mistake} ({detail[:200]})") from None
            kind = "rate_limited" if error.status_code == 429 else "rejected"
            raise CallFailed("server_error" if error.status_code >= 500 else kind, detail) from None
        except openai.APITimeoutError:
            raise CallFailed("timeout", f"no reply within {self.endpoint.call_deadline_s:g} s") from None
        except openai.APIConnectionError as error:
            raise CallFailed("connection", str(error.__cause__ or error)) from None
        except (openai.APIError, ValueError) as error:
            raise CallFailed("not_completion", str(error)) from None

    def _taken(self, refused: Collection[str]) -> dict[str, Any]:
        """The parameters without those refused, the limit of tokens under its other name."""
        renamed = {"max_completion_tokens": self.endpoint.max_tokens} if "max_tokens" in refused else {}
        return renamed | {name: value for name, value in self.parameters.items() if name not in refused}

    @cached_property
    def _sdk(self) -> Any:
        """The client of the openai package, which retries; it would follow redirects with the key."""
        import openai

        return openai.OpenAI(
            base_url=self.endpoint.base_url,
            api_key=self._key or "none",
            max_retries=self.endpoint.attempts - 1,
            timeout=self.endpoint.call_deadline_s,
            http_client=openai.DefaultHttpxClient(follow_redirects=False),
        )


def response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """Of a request whose reply the server is to write under ``schema``, in the strict form that OpenAI takes."""
    import openai

    function = openai.pydantic_function_tool(schema)["function"]
    return {
        "type": "json_schema",
        "json_schema": {"name": function["name"], "strict": True, "schema": function["parameters"]},
    }


def _sent_back(text: str, detail: str) -> tuple[Message, Message]:
    complaint = (
        f"Your reply cannot be used: {detail}. Write it again, the whole of it, as one JSON object of the form"
        " described above and nothing else: no code fence, no words before or after it."
    )
    return Message("assistant", text[:MAX_RETURNED]), Message("user", complaint)
