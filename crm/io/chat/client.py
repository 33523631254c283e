"""One run against a chat endpoint. In: messages. Out: the model's reply, or `CallFailed` with its kind.

Every limit holds whatever the server does: a deadline per call and one for the run, bytes of a reply, attempts, calls
and tokens. Redirects are not followed: the messages and the key go to the address that was configured and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay

from crm.io.chat.counts import Counts
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import RETRIED, UNANSWERED, CallFailed, one_line
from crm.io.chat.replies import Completion, read_completion
from crm.io.draws import generator
from crm.schema import Message

MAX_REPLY_BYTES = 2_000_000
MAX_PAUSE_S = 60.0
CHARACTERS_PER_TOKEN = 4
"""A rule of thumb for English, for estimates only."""

_MISTAKES = {
    401: "the endpoint does not accept the key; check api_key and the variable it comes from",
    403: "the endpoint denies access; check that the api_key may use the model, and the base_url",
    404: "there is nothing at this address; check base_url (it usually ends in /v1) and that the model is served",
}


class ChatClient:
    """An async context manager for one event loop.

    ``counts`` and ``ends`` (when the time is over, as `time.monotonic` tells it) belong to the asker, so that budgets,
    deadline and circuit breaker hold over all its runs.
    """

    def __init__(self, endpoint: Endpoint, counts: Counts, ends: float) -> None:
        self.endpoint = endpoint
        self.counts = counts
        self._ends = ends
        # A compressed body could outgrow the byte limit in one piece, so none is asked for.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if endpoint.api_key is not None:
            headers["Authorization"] = f"Bearer {endpoint.api_key}"
        limits = httpx.Limits(max_connections=endpoint.concurrency, max_keepalive_connections=endpoint.concurrency)
        # This time limit begins anew with every byte; `call` has one for the whole.
        timeout = endpoint.call_deadline_s
        self._http = httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout, follow_redirects=False)

    async def __aenter__(self) -> ChatClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._http.aclose()

    async def call(self, messages: Sequence[Message], key: str, response_format: dict[str, Any] | None = None) -> str:
        """The text of the reply. ``key`` names the call where its pauses are drawn.

        Raises `CallFailed`; ``ValueError`` where no request can succeed (401, 403, 404).
        """
        extra = {"response_format": response_format} if response_format else {}
        completion = await self.complete(messages, key, extra)
        try:
            return completion.text()
        except CallFailed as failure:  # a refusal is the server's own words
            raise CallFailed(failure.kind, one_line(failure.detail, self.endpoint.api_key)) from None

    async def complete(self, messages: Sequence[Message], key: str, extra: Mapping[str, Any]) -> Completion:
        """The whole completion, which may hold no usable text; ``extra`` is sent besides the endpoint's parameters.

        Raises as `call` does where no completion came.
        """
        payload = {
            **self.endpoint.parameters(),
            "messages": [{"role": turn.role, "content": turn.content} for turn in messages],
            **extra,
        }
        self._admit()
        left = self._ends - time.monotonic()
        limit = min(left, self.endpoint.call_deadline_s)
        try:
            completion = await asyncio.wait_for(self._attempts(payload, key, limit), limit)
        except TimeoutError:
            if limit == left:
                raise CallFailed("deadline", "the time for the whole run ended during the call") from None
            self.counts.unanswered_in_a_row += 1
            raise CallFailed("timeout", f"no complete reply within {limit:g} s") from None
        except CallFailed as failure:
            self.counts.unanswered_in_a_row += failure.kind in UNANSWERED
            raise
        self.counts.unanswered_in_a_row = 0
        return completion

    def _admit(self) -> None:
        """Raise `CallFailed` where no further request may be sent."""
        endpoint, counts = self.endpoint, self.counts
        if counts.unanswered_in_a_row >= endpoint.breaker:
            raise CallFailed("endpoint_down", f"not sent: {counts.unanswered_in_a_row} calls in a row got no answer")
        if time.monotonic() >= self._ends:
            raise CallFailed("deadline", f"not sent: the run may take {endpoint.total_deadline_s:g} s")
        if 0 < endpoint.budget_calls <= counts.calls:
            raise CallFailed("budget", f"not sent: the budget is {endpoint.budget_calls} calls")
        if 0 < endpoint.budget_tokens <= counts.tokens:
            raise CallFailed("budget", f"not sent: the budget is {endpoint.budget_tokens} tokens")

    async def _attempts(self, payload: dict[str, Any], key: str, limit: float) -> Completion:
        def pause(state: RetryCallState) -> float:
            failure = state.outcome.exception() if state.outcome else None
            asked = failure.retry_after if isinstance(failure, CallFailed) else None
            return max(asked or 0.0, backoff(self.endpoint, key, state.attempt_number))

        retrying = AsyncRetrying(
            # A pause that would outlast the deadline ends the call now: waiting for it could not help.
            stop=stop_after_attempt(self.endpoint.attempts) | stop_before_delay(limit),
            wait=pause,
            retry=retry_if_exception(lambda error: isinstance(error, CallFailed) and error.kind in RETRIED),
            reraise=True,
        )
        async for attempt in retrying:
            with attempt:
                completion = await self._attempt(payload, again=attempt.retry_state.attempt_number > 1)
        return completion

    async def _attempt(self, payload: dict[str, Any], again: bool) -> Completion:
        self._admit()
        self.counts.calls += 1
        self.counts.retries += again
        content = json.dumps(payload).encode()
        try:
            async with self._http.stream("POST", self.endpoint.url, content=content) as response:
                body = await _read(response)
        except httpx.HTTPError as error:
            kind = "timeout" if isinstance(error, httpx.TimeoutException) else "connection"
            what = f"{type(error).__name__} {error}"
            raise CallFailed(kind, one_line(what, self.endpoint.api_key)) from None
        if response.status_code != 200:
            raise self._refused(response, body or b"")
        if body is None:
            raise CallFailed("not_completion", f"the body is compressed or has more than {MAX_REPLY_BYTES:,} bytes")
        completion = read_completion(body)
        self._count_tokens(completion, len(content) + len(body))
        return completion

    def _refused(self, response: httpx.Response, body: bytes) -> CallFailed | ValueError:
        status = response.status_code
        said = one_line(body.decode("utf-8", "replace"), self.endpoint.api_key)
        if status in _MISTAKES:
            return ValueError(f"{self.endpoint.url}: {_MISTAKES[status]} (status {status}: {said})")
        detail = f"status {status}: {said}"
        if status == 429:
            return CallFailed("rate_limited", detail, retry_after(response.headers.get("Retry-After")))
        if status == 408:
            return CallFailed("timeout", detail, retry_after(response.headers.get("Retry-After")))
        if status >= 500:
            return CallFailed("server_error", detail, retry_after(response.headers.get("Retry-After")))
        return CallFailed("rejected", detail)

    def _count_tokens(self, completion: Completion, characters: int) -> None:
        if completion.tokens is None:
            self.counts.unreported_tokens += characters // CHARACTERS_PER_TOKEN
        else:
            self.counts.prompt_tokens += completion.tokens[0]
            self.counts.completion_tokens += completion.tokens[1]


async def _read(response: httpx.Response) -> bytes | None:
    """The body, or ``None`` where it is compressed or longer than `MAX_REPLY_BYTES`."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            return None
    return bytes(body)


def backoff(endpoint: Endpoint, key: str, attempt: int) -> float:
    """Seconds to pause after attempt ``attempt`` (from 1) of call ``key``: doubling, the upper half of it drawn."""
    whole: float = min(MAX_PAUSE_S, endpoint.backoff_s * 2 ** (attempt - 1))
    drawn: float = generator(endpoint.seed or 0, attempt, key, "backoff").random()
    return whole * (1 + drawn) / 2


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for, as a whole number or an HTTP date; ``None`` for anything else."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
