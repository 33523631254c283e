"""Responses of a model behind a chat endpoint. In: an endpoint and queries. Out: a text a query, kept as they come.

What the model said is never asked for again; a call without a reply is told by its kind, and asked again next time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from crm.io.chat.cache import ReplyCache, code_version, request_key
from crm.io.chat.client import ChatClient
from crm.io.chat.counts import Counts
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import CallFailed
from crm.io.chat.replies import split_thoughts
from crm.io.chat.together import gather_limited
from crm.leaderboard.bank.bank import BankQuery

PORTION = 4
"""Requests of a portion, times those under way at once: an interruption loses one portion at most."""


class Collector:
    """Asks ``endpoint`` every query as it stands, and keeps valid replies in ``cache``.

    ``failures`` counts calls without a usable reply by kind (`crm.io.chat.failures`). What the model thought before it
    answered (`split_thoughts`) is in ``thoughts``, by query id, and no part of a response.
    """

    def __init__(self, endpoint: Endpoint, cache: ReplyCache) -> None:
        self.endpoint, self.cache = endpoint, cache
        self.failures: Counter[str] = Counter()
        self.thoughts: dict[str, str] = {}
        self._counts = Counts()

    def collect(self, queries: Sequence[BankQuery]) -> Iterator[dict[str, str]]:
        """Responses by query id, in portions; queries whose call failed are in none.

        Raises ``ValueError`` for what dooms every request: a wrong key, address or model.
        """
        ends = time.monotonic() + self.endpoint.total_deadline_s
        size = PORTION * self.endpoint.concurrency
        for start in range(0, len(queries), size):
            yield asyncio.run(self._portion(queries[start : start + size], ends))

    async def _portion(self, queries: Sequence[BankQuery], ends: float) -> dict[str, str]:
        async with ChatClient(self.endpoint, self._counts, ends) as client:
            jobs = [partial(self._one, client, query) for query in queries]
            texts = await gather_limited(jobs, self.endpoint.concurrency)
        return {query.id: text for query, text in zip(queries, texts, strict=True) if text is not None}

    async def _one(self, client: ChatClient, query: BankQuery) -> str | None:
        key = request_key(self.endpoint, query.prompt, code_version([sys.modules[__name__]]))
        text = self.cache.get(key)
        if text is None:
            try:
                text = await client.call(query.prompt, query.id)
                if not split_thoughts(text)[1].strip():
                    raise CallFailed("empty", "the reply ends with the model's thoughts; allow more max_tokens")
            except CallFailed as failure:
                self.failures[failure.kind] += 1
                return None
            self.cache.put(key, text)
        thoughts, response = split_thoughts(text)
        if thoughts:
            self.thoughts[query.id] = thoughts
        return response
