"""A language model behind a chat endpoint as a judge.

A reply of the model is an outcome, with or without a verdict. A call that got no reply (`crm.chat.replies.UNANSWERED`)
is none: its comparison has no judgement, is counted, and is asked again by the next run.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from crm.chat.cache import ReplyCache
from crm.chat.client import ChatClient, EndpointConfig, Outcome
from crm.chat.replies import UNANSWERED, CallFailed, Reply
from crm.judges import llm_prompt
from crm.judges.judge import Asked, Reading
from crm.judges.verdicts import read_verdict, token_logit
from crm.schema import Message

log = logging.getLogger(__name__)

VERDICT_LOGIT = math.log(0.95 / 0.05)
"""What a verdict in words is taken for, whatever the model was sure of: 95 % for the response that it names."""
PORTION = 4
"""Requests of a portion, times those under way at once: an interruption loses one portion of judgements at most."""
LIKELY_TOKENS = 20
"""The most that endpoints commonly tell of the first token."""
NOT_ASKED = UNANSWERED | {"rejected", "budget", "endpoint_down"}
"""Kinds of failure in which the model said nothing."""


class LlmJudge:
    """Asks ``endpoint`` which response a user prefers, each comparison in each order by itself.

    With ``verdict="text"`` the model reasons and ends with a verdict line; every verdict is the same logit,
    `VERDICT_LOGIT`, so that log loss, Brier score and calibration say little of this judge. With ``logprobs`` it is
    asked for one token, and the logit is that of A against B among the likely ones. Valid replies are kept in
    ``cache`` and never paid again; ``client.counts`` adds up calls and tokens.
    """

    left_out, together = "unanswered", 1

    def __init__(
        self, endpoint: EndpointConfig, verdict: Literal["text", "logprobs"] = "text", cache: ReplyCache | None = None
    ) -> None:
        self.verdict = verdict
        extra = {} if verdict == "text" else {"logprobs": True, "top_logprobs": LIKELY_TOKENS}
        used = endpoint if verdict == "text" else replace(endpoint, max_tokens=1)
        self.client = ChatClient(used, cache, extra)

    @property
    def prompt_digest(self) -> str:
        """16 hex digits of the instruction."""
        instruction = llm_prompt.judge_messages((), (), (), (), form=self._form)[0].content
        return hashlib.sha256(instruction.encode()).hexdigest()[:16]

    @property
    def _form(self) -> str:
        return llm_prompt.TEXT_FORM if self.verdict == "text" else llm_prompt.LETTER_FORM

    @property
    def digest(self) -> str:
        """Of model, address and parameters, kind of verdict, and `prompt_digest`; not of the key."""
        return f"llm-{self.client.key((), f'{self.verdict} {self.prompt_digest}')[:32]}"

    def fits(self, asked: Asked) -> bool:
        """Unknown before the endpoint is asked."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Portions of `PORTION` times the endpoint's ``concurrency``.

        Raises ``ValueError`` for what dooms every request: a wrong key, address or model, a cache that cannot be used,
        an endpoint without log probabilities where they are the verdict.
        """
        kinds: Counter[str] = Counter()
        details: dict[str, str] = {}
        size = PORTION * self.client.endpoint.concurrency
        for start in range(0, len(comparisons), size):
            portion = comparisons[start : start + size]
            found = self.client.ask([self._messages(asked) for asked in portion], self._judged, "judge")
            silent = [outcome for outcome in found if outcome.failure in NOT_ASKED]
            kinds.update(str(outcome.failure) for outcome in silent)
            details |= {str(outcome.failure): outcome.detail for outcome in silent}
            yield [
                _reading(asked, outcome)
                for asked, outcome in zip(portion, found, strict=True)
                if outcome.failure not in NOT_ASKED
            ]
        for kind, count in sorted(kinds.items()):
            log.warning("%d unanswered (%s), such as: %s", count, kind, details[kind])

    def _messages(self, asked: Asked) -> tuple[Message, ...]:
        row, order = asked
        shown = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
        return llm_prompt.judge_messages(row.criteria, row.prompt, *shown, form=self._form)

    def _judged(self, reply: Reply) -> float:
        """The log-odds that the response shown first is preferred. Raises `CallFailed` where they are not known."""
        if self.verdict == "text":
            verdict, failure = read_verdict(reply.text)
            if verdict is None:
                raise CallFailed(str(failure), "the reply ends without a verdict")
            return VERDICT_LOGIT if verdict == "first" else -VERDICT_LOGIT
        if not reply.likely:
            raise ValueError(
                f"judge.verdict=logprobs: {self.client.endpoint.base_url} returns no log probabilities of the first "
                "token (asked for with logprobs and top_logprobs); set judge.verdict=text, or serve the model where "
                "they are given"
            )
        logit = token_logit(reply.likely)
        if logit is None:
            raise CallFailed("no_verdict", "neither A nor B is among the likely first tokens")
        return logit


def _reading(asked: Asked, outcome: Outcome[float]) -> Reading:
    """The logit is about the record's response A, whichever was shown first."""
    if outcome.value is None:
        return Reading(*asked, None, failure=outcome.failure, tokens=outcome.tokens)
    return Reading(*asked, outcome.value if asked[1] == "ab" else -outcome.value, tokens=outcome.tokens)
