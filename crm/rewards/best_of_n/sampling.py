"""Samples of a model behind a chat endpoint. In: an endpoint and queries. Out: n responses a query, kept as they come.

Each sample has a seed of its own, which servers that can repeat themselves get to see; its reply is kept under that
seed, so that a run that was stopped, or more samples than before, ask only for what is missing. The budget and the
circuit breaker hold over all samples. A call without a reply is told by its kind, and asked again next time.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from rich.progress import track

from crm.io.chat.cache import ReplyCache, code_version, request_key
from crm.io.chat.client import ChatClient
from crm.io.chat.counts import Counts
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import CallFailed
from crm.io.chat.replies import split_thoughts
from crm.io.chat.together import gather_limited
from crm.rewards.best_of_n.candidates import Candidates
from crm.rewards.scoring import Turns

PORTION = 4
"""Requests of a portion, times those under way at once: an interruption loses one portion at most."""
Wanted = tuple[int, int]
"""The place of a query and the number of a sample."""


class Sampler:
    """Asks ``endpoint`` with the seeds ``seed``, ``seed + 1`` ..., and keeps replies in ``cache``.

    ``failures`` counts calls without a usable reply by kind (`crm.io.chat.failures`).
    """

    def __init__(self, endpoint: Endpoint, cache: ReplyCache, *, seed: int) -> None:
        self.endpoint, self.cache, self.seed = endpoint, cache, seed
        self.failures: Counter[str] = Counter()
        self._counts = Counts()

    def sample(self, prompts: Sequence[Turns], n: int, *, progress: bool) -> list[Candidates]:
        """Candidates of each prompt, ``n`` at most; one without a single reply has none.

        All queries get their first sample before any gets its second, so that a budget that ends leaves them alike.
        Raises ``ValueError`` for what dooms every request: a wrong key, address or model.
        """
        wanted = [(place, number) for number in range(n) for place in range(len(prompts))]
        size = PORTION * self.endpoint.concurrency
        ends = time.monotonic() + self.endpoint.total_deadline_s
        found: dict[Wanted, str] = {}
        starts = range(0, len(wanted), size)
        for start in track(starts, "samples, in portions", disable=not progress):
            found |= asyncio.run(self._portion(prompts, wanted[start : start + size], ends))
        return [
            Candidates(prompt, tuple(found[place, number] for number in range(n) if (place, number) in found))
            for place, prompt in enumerate(prompts)
        ]

    async def _portion(self, prompts: Sequence[Turns], wanted: Sequence[Wanted], ends: float) -> dict[Wanted, str]:
        async with ChatClient(self.endpoint, self._counts, ends) as client:
            jobs = [partial(self._one, client, prompts[place], number) for place, number in wanted]
            texts = await gather_limited(jobs, self.endpoint.concurrency)
        return {one: text for one, text in zip(wanted, texts, strict=True) if text is not None}

    async def _one(self, client: ChatClient, prompt: Turns, number: int) -> str | None:
        seeded = replace(self.endpoint, seed=self.seed + number)
        key = request_key(seeded, prompt, code_version([sys.modules[__name__]]))
        text = self.cache.get(key)
        if text is None:
            try:
                completion = await client.complete(prompt, key, {"seed": seeded.seed})
                text = completion.text()
                if not split_thoughts(text)[1].strip():
                    raise CallFailed("empty", "the reply ends with the model's thoughts; allow more max_tokens")
            except CallFailed as failure:
                self.failures[failure.kind] += 1
                return None
            self.cache.put(key, text)
        return split_thoughts(text)[1]
