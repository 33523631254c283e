"""A client of the reward server. In: groups and pairs of responses as JSON. Out: rewards, or None with a reason.

with RewardClient("http://127.0.0.1:8000") as client:
    (group,) = client.score([{"criteria": [...], "messages": [...], "responses": ["...", "..."]}])
    group.rewards

A server that is being restarted, or full, is waited for until the deadline. What has no answer by then is None with the
reason ``unanswered``, where ``mask`` says so, or raises `ServerLostError`; there is never a number in its place.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from crm.io.chat.client import retry_after
from crm.io.untrusted import decode, printable
from crm.schema import RecordError

UNANSWERED = "unanswered"
PORTION = 64
"""Groups or pairs of one request."""
PORTION_BYTES = 2_000_000
MAX_ANSWER_BYTES = 20_000_000
MAX_PAUSE_S = 5.0
Item = Mapping[str, Any]


class ServerLostError(OSError):
    """The server gave no answer before the deadline, or one that is of no use."""


class _BusyError(ServerLostError):
    """Worth another attempt, after so many seconds where the server says so."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True)
class GroupRewards:
    """A reward for each response of a group in nats; where it is None its reason is a word."""

    rewards: tuple[float | None, ...]
    reasons: tuple[str | None, ...]


@dataclass(frozen=True)
class PairLogit:
    """Log-odds that the first response is preferred, shown first and shown second; None with a reason."""

    shown_first: float | None
    shown_second: float | None
    reason: str | None


@dataclass(frozen=True)
class ServedModel:
    """What a server says of its model."""

    name: str
    digest: str
    pointwise: bool


class RewardClient:
    """``deadline_s`` is for one call with all its requests, pauses and attempts; ``digest`` is the model wanted.

    Where none is given it is the first that answers: a server that comes back with another model is refused with
    ``ValueError``, as is everything that the server calls a mistake.
    """

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        deadline_s: float = 600.0,
        concurrency: int = 4,
        mask: bool = False,
        digest: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(base_url=address, headers=headers, transport=transport)
        self.address, self.deadline_s, self.concurrency, self.mask = address, deadline_s, concurrency, mask
        self.digest = digest

    def __enter__(self) -> RewardClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def model(self) -> ServedModel:
        """What is served. Raises `ServerLostError` where nobody answers."""
        said = self._call("GET", "/v1/models", None, time.monotonic() + self.deadline_s)
        try:
            (model,) = said["data"]
            found = ServedModel(str(model["id"]), str(model["digest"]), bool(model["pointwise"]))
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{self.address}: its /v1/models names no digest; is this a server of serve.py?") from None
        self._same(found.digest)
        return found

    def score(self, groups: Sequence[Item]) -> list[GroupRewards]:
        """One for each group: ``criteria``, ``messages`` (the prompt), ``responses``, and an ``anchor`` or none."""
        return [
            GroupRewards((None,) * len(group["responses"]), (UNANSWERED,) * len(group["responses"]))
            if said is None
            else GroupRewards(tuple(map(_number, said["rewards"])), tuple(said["reasons"]))
            for group, said in zip(groups, self._all("/v1/score", "groups", groups), strict=True)
        ]

    def compare(self, pairs: Sequence[Item]) -> list[PairLogit]:
        """One for each pair: ``criteria``, ``messages`` (the prompt), ``first``, ``second``."""
        return [
            PairLogit(None, None, UNANSWERED)
            if said is None
            else PairLogit(_number(said["shown_first"]), _number(said["shown_second"]), said["reason"])
            for said in self._all("/v1/compare", "pairs", pairs)
        ]

    def _all(self, path: str, field: str, items: Sequence[Item]) -> Iterator[Any]:
        """The answer to each item, None where there is none; several requests at a time."""
        ends = time.monotonic() + self.deadline_s

        def ask(portion: list[str]) -> list[Any]:
            try:
                said = self._call("POST", path, f'{{"{field}": [{", ".join(portion)}]}}'.encode(), ends)
                self._same(said.get("digest"))
                answers = said.get(field)
                if not isinstance(answers, list) or len(answers) != len(portion):
                    raise ServerLostError(f"{self.address}{path}: not an answer to each of {len(portion)} {field}")
                return answers
            except ServerLostError:
                if not self.mask:
                    raise
                return [None] * len(portion)

        with ThreadPoolExecutor(self.concurrency) as pool:
            for answers in pool.map(ask, _portions(items)):
                yield from answers

    def _same(self, digest: Any) -> None:
        if self.digest is None:
            self.digest = str(digest)
        if digest != self.digest:
            raise ValueError(
                f"{self.address}: serves the model {printable(str(digest))}, expected {self.digest}; start the server "
                "with the same checkpoint again, or begin anew with this one"
            )

    def _call(self, method: str, path: str, content: bytes | None, ends: float) -> dict[str, Any]:
        retrying = Retrying(
            stop=stop_after_delay(max(0.0, ends - time.monotonic())),
            wait=lambda state: min(_pause(state), max(0.0, ends - time.monotonic())),
            retry=retry_if_exception_type(_BusyError),
            reraise=True,
        )
        return retrying(self._once, method, path, content, ends)

    def _once(self, method: str, path: str, content: bytes | None, ends: float) -> dict[str, Any]:
        timeout = max(0.1, ends - time.monotonic())
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        body = bytearray()
        try:
            with self._http.stream(method, path, content=content, headers=headers, timeout=timeout) as response:
                for piece in response.iter_raw():
                    body += piece
                    if len(body) > MAX_ANSWER_BYTES or time.monotonic() > ends:
                        raise ServerLostError(f"{self.address}{path}: the answer is too long, or too slow")
        except httpx.HTTPError as error:
            raise _BusyError(f"{self.address}{path}: {type(error).__name__}: {error}") from None
        where = f"{self.address}{path}: status {response.status_code}"
        if response.status_code in (408, 429, 502, 503, 504):
            raise _BusyError(f"{where} until the deadline", retry_after(response.headers.get("Retry-After")))
        if 400 <= response.status_code < 500:
            raise ValueError(f"{where}: {_sentence(bytes(body))}")
        if response.status_code != 200:
            raise ServerLostError(f"{where}: {_sentence(bytes(body))}")
        try:
            said = decode(bytes(body))
        except RecordError as error:
            raise ServerLostError(f"{where}: {error}") from None
        if not isinstance(said, dict):
            raise ServerLostError(f"{where}: expected a JSON object")
        return said


def _pause(state: RetryCallState) -> float:
    """What the server asks for, else from a quarter of a second doubling; at most `MAX_PAUSE_S`."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.after if isinstance(error, _BusyError) else None
    return min(MAX_PAUSE_S, asked if asked is not None else wait_exponential(0.25, max=MAX_PAUSE_S)(state))


def _portions(items: Sequence[Item]) -> Iterator[list[str]]:
    """Items as JSON, so many together as fit into one request; one that is too large goes alone."""
    portion: list[str] = []
    size = 0
    for item in items:
        text = json.dumps(item, allow_nan=False)
        if portion and (len(portion) == PORTION or size + len(text) > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(text)
        size += len(text)
    if portion:
        yield portion


def _number(value: Any) -> float | None:
    """A number or null as it came; `decode` has refused what is not finite."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServerLostError(f"the server's answer holds {value!r:.80}, expected a number or null")
    return float(value)


def _sentence(body: bytes) -> str:
    """What the server says is wrong."""
    try:
        said = decode(body)
    except RecordError:
        said = None
    text = said.get("error") or said.get("detail") if isinstance(said, dict) else None
    return printable(str(text or body[:200].decode("utf-8", "replace")))
