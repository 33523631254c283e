"""A language model behind a chat endpoint as a judge. In: comparisons. Out: readings, or failures with a kind.

A reply of the model is an outcome, be it a verdict or none that can be used. A call that got no reply (see
`crm.io.chat.failures`) is none: its comparison has no reading, is counted, and is asked again by the next run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from crm.criteria import prompts
from crm.io.chat.cache import ReplyCache, code_version, request_key
from crm.io.chat.client import ChatClient
from crm.io.chat.counts import Counts
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import CallFailed
from crm.io.chat.replies import Completion
from crm.io.chat.together import gather_limited
from crm.judges import llm_prompt, verdicts
from crm.judges.judge import Asked, Reading
from crm.judges.verdicts import read_verdict, token_logit
from crm.schema import Message

log = logging.getLogger(__name__)

VERDICT_LOGIT = math.log(0.95 / 0.05)
"""What a verdict in words is taken for, whatever the model was sure of: 95 % for the response that it names."""
PORTION = 4
"""Requests of a portion, times those under way at once: an interruption loses one portion of readings at most."""
LIKELY_TOKENS = 20
"""The most that endpoints commonly tell of the first token."""


@dataclass(frozen=True, slots=True)
class _Reply:
    """What a verdict is read from, as the cache keeps it: ``text``, or the ``likely`` first tokens."""

    text: str
    likely: tuple[tuple[str, float], ...]
    tokens: int | None

    def json(self) -> str:
        return json.dumps({"text": self.text, "likely": self.likely, "tokens": self.tokens})


class LlmJudge:
    """Asks ``endpoint`` which response a user prefers, each comparison in each order by itself.

    With ``verdict="text"`` the model reasons and ends with a verdict line; every verdict is the same logit,
    `VERDICT_LOGIT`, so that log loss, Brier score and calibration say little of this judge. With ``logprobs`` it is
    asked for one token, and the logit is that of A against B among the likely ones. Valid replies are kept in
    ``cache`` and never paid again. ``counts`` adds up calls and tokens over all readings; budgets and the total
    deadline of the endpoint hold over them.
    """

    left_out, together = "unanswered", 1

    def __init__(
        self, endpoint: Endpoint, verdict: Literal["text", "logprobs"] = "text", cache: ReplyCache | None = None
    ) -> None:
        self.endpoint = endpoint if verdict == "text" else replace(endpoint, max_tokens=1)
        self.verdict = verdict
        self.cache = cache
        self.counts = Counts()
        self._ends: float | None = None
        self._unanswered: dict[str, str] = {}

    @property
    def prompt_digest(self) -> str:
        """16 hex digits of the code that writes the prompt and reads the verdict."""
        return code_version([llm_prompt, prompts, verdicts, sys.modules[__name__]])[:16]

    @property
    def digest(self) -> str:
        """Of model, address, temperature and other parameters, kind of verdict, and `prompt_digest`; not of the key."""
        return f"llm-{request_key(self.endpoint, (), f'{self.verdict} {self.prompt_digest}')[:32]}"

    def fits(self, asked: Asked) -> bool:
        """Unknown before the endpoint is asked."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Portions of `PORTION` times the endpoint's ``concurrency``; where an event loop runs, use a thread.

        Raises ``ValueError`` for what dooms every request: a wrong key, address or model, a cache that cannot be used,
        an endpoint without log probabilities where they are the verdict.
        """
        self._ends = self._ends or time.monotonic() + self.endpoint.total_deadline_s
        kinds: Counter[str] = Counter()
        size = PORTION * self.endpoint.concurrency
        for start in range(0, len(comparisons), size):
            found = asyncio.run(self._read_portion(comparisons[start : start + size], self._ends))
            kinds.update(item.kind for item in found if isinstance(item, CallFailed))
            yield [item for item in found if isinstance(item, Reading)]
        for kind, count in sorted(kinds.items()):
            log.warning("%d unanswered (%s), such as: %s", count, kind, self._unanswered[kind])

    async def _read_portion(self, asked: Sequence[Asked], ends: float) -> list[Reading | CallFailed]:
        async with ChatClient(self.endpoint, self.counts, ends) as client:
            jobs = [partial(self._read_one, client, pair) for pair in asked]
            return await gather_limited(jobs, self.endpoint.concurrency)

    async def _read_one(self, client: ChatClient, asked: Asked) -> Reading | CallFailed:
        """The reading of one comparison in one order; the failure of its call where the model said nothing."""
        messages = self._messages(asked)
        key = request_key(self.endpoint, messages, "judge")
        self.counts.requests += 1
        kept = self._kept(key)
        if kept is not None:
            self.counts.cached += 1
            return self._reading(asked, kept)
        try:
            completion = await self._complete(client, messages, f"{asked[0].id} {asked[1]}")
        except CallFailed as failure:
            self.counts.failures[failure.kind] += 1
            self._unanswered.setdefault(failure.kind, failure.detail)
            return failure
        reading, reply = self._judged(asked, completion)
        if reading.failure is not None:
            self.counts.failures[reading.failure] += 1
            return reading
        self.counts.answered += 1
        if self.cache is not None and reply is not None:
            self.cache.put(key, reply.json())
        return reading

    def _messages(self, asked: Asked) -> tuple[Message, ...]:
        row, order = asked
        shown = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
        form = llm_prompt.TEXT_FORM if self.verdict == "text" else llm_prompt.LETTER_FORM
        return llm_prompt.judge_messages(row.criteria, row.prompt, *shown, form=form)

    async def _complete(self, client: ChatClient, messages: Sequence[Message], name: str) -> Completion:
        extra: dict[str, Any] = {} if self.verdict == "text" else {"logprobs": True, "top_logprobs": LIKELY_TOKENS}
        return await client.complete(messages, name, extra)

    def _judged(self, asked: Asked, completion: Completion) -> tuple[Reading, _Reply | None]:
        """The reading of a completion, and what to keep of it. Raises ``ValueError`` where log probabilities lack."""
        tokens = sum(completion.tokens) if completion.tokens else None
        try:
            reply = self._reply(completion, tokens)
        except CallFailed as failure:
            return Reading(*asked, None, failure=failure.kind, tokens=tokens), None
        return self._reading(asked, reply), reply

    def _reply(self, completion: Completion, tokens: int | None) -> _Reply:
        if self.verdict == "text":
            return _Reply(completion.text(), (), tokens)
        likely = completion.first_token()
        if likely is None:
            raise ValueError(
                f"judge.verdict=logprobs: {self.endpoint.url} returns no log probabilities of the first token (asked "
                "for with logprobs and top_logprobs); set judge.verdict=text, or serve the model where they are given"
            )
        return _Reply("", tuple(likely), tokens)

    def _reading(self, asked: Asked, reply: _Reply) -> Reading:
        """The logit is about the record's response A, whichever was shown first."""
        logit, failure = self._logit(reply)
        if logit is None:
            return Reading(*asked, None, failure=failure, tokens=reply.tokens)
        return Reading(*asked, logit if asked[1] == "ab" else -logit, tokens=reply.tokens)

    def _logit(self, reply: _Reply) -> tuple[float | None, str | None]:
        """The log-odds that the response shown first is preferred, or why they are not known."""
        if self.verdict == "logprobs":
            logit = token_logit(reply.likely)
            return logit, None if logit is not None else "no_verdict"
        verdict, failure = read_verdict(reply.text)
        if verdict is None:
            return None, failure
        return (VERDICT_LOGIT if verdict == "first" else -VERDICT_LOGIT), None

    def _kept(self, key: str) -> _Reply | None:
        """The reply in the cache. One that cannot be read, or gives no verdict, counts as missing and is replaced."""
        stored = None if self.cache is None else self.cache.get(key)
        if stored is None:
            return None
        try:
            entry = json.loads(stored)
            likely = tuple((str(token), float(value)) for token, value in entry["likely"])
            tokens = None if entry["tokens"] is None else int(entry["tokens"])
            reply = _Reply(str(entry["text"]), likely, tokens)
        except (ValueError, KeyError, TypeError):
            return None
        return reply if self._logit(reply)[1] is None else None
