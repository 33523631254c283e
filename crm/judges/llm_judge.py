"""A language model behind a chat endpoint as a judge.

A reply of the model is an outcome, with or without a verdict. A call that got no reply
(`crm.endpoint.replies.UNANSWERED`) is none: its comparison has no judgement, is counted, and is asked again by the next
run.
"""

from __future__ import annotations

import hashlib
import logging
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from crm.criteria.prompts import PROMPTS, as_json
from crm.endpoint.client import ChatClient, EndpointConfig, Outcome
from crm.endpoint.replies import UNANSWERED, CallFailed, Reply, ReplyCache, refuses, split_thoughts
from crm.judges.judge import Asked, Reading
from crm.model.encoding import Order
from crm.schema import GENERIC_CRITERION, Comparison, Message

log = logging.getLogger(__name__)

VERDICT_LOGIT = math.log(0.95 / 0.05)
"""What a verdict in words is taken for, whatever the model was sure of: 95 % for the response that it names."""
PORTION = 4
"""Requests of a portion, times those under way at once: an interruption loses one portion of judgements at most."""
NOT_ASKED = UNANSWERED | {"rejected", "budget", "endpoint_down"}
"""Kinds of failure in which the model gave no verdict."""
Verdict = Literal["first", "second"]
_LINE = re.compile(
    r"(\*\*)?(?ai:verdict):(\*\*)?[ \t]*(\*\*)?(?P<brackets>\[\[)?(?P<letter>[AB])(?(brackets)\]\])\.?(\*\*)?\.?"
)
_TASK = PROMPTS["judge"]


def judge_messages(row: Comparison, order: Order) -> tuple[Message, Message]:
    """Ask which response is preferred, the one shown first (A) or second (B).

    All texts from data are in one JSON object in the user's turn, so that none can end its string, play another part of
    the prompt or hold a control token of a chat format (`crm.criteria.prompts.as_json`). Nothing is cut.
    """
    first, second = (row.response_a, row.response_b) if order == "ab" else (row.response_b, row.response_a)
    turns = {"conversation": row.prompt, "response_a": first, "response_b": second}
    material = {"criteria": list(row.criteria) or [GENERIC_CRITERION]} | {
        name: [{"role": turn.role, "content": turn.content} for turn in own] for name, own in turns.items()
    }
    return Message("system", _TASK), Message("user", as_json(material))


class LlmJudge:
    """Asks ``endpoint`` which response a user prefers, each comparison in each order by itself.

    The model reasons and ends with a verdict line; every verdict is the same logit, `VERDICT_LOGIT`, so that log loss,
    Brier score and calibration say little of this judge. Valid replies are cached and never paid again.
    """

    left_out = "unanswered"
    prompt_digest = hashlib.sha256(_TASK.encode()).hexdigest()[:16]
    """16 hex digits of the instruction."""

    def __init__(self, endpoint: EndpointConfig, cache: ReplyCache | None = None) -> None:
        self.client = ChatClient(endpoint, cache)

    @property
    def digest(self) -> str:
        """Of model, address, parameters and `prompt_digest`; not of the key."""
        version = f"text {self.prompt_digest}, {self.client.endpoint.max_tokens} tokens"  # those cut off are stored
        return f"llm-{self.client.key((), version)[:32]}"

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Portions of `PORTION` times the endpoint's ``concurrency``.

        Raises ``ValueError`` for what dooms every request: a wrong key, address or model, a cache that cannot be used.
        """
        kinds: Counter[str] = Counter()
        details: dict[str, str] = {}
        size = PORTION * self.client.endpoint.concurrency
        for start in range(0, len(comparisons), size):
            portion = comparisons[start : start + size]
            found = self.client.ask([judge_messages(*asked) for asked in portion], _logit, "judge")
            unanswered = [outcome for outcome in found if outcome.failure in NOT_ASKED]
            kinds.update(str(outcome.failure) for outcome in unanswered)
            details |= {str(outcome.failure): outcome.detail for outcome in unanswered}
            yield [
                _reading(asked, outcome)
                for asked, outcome in zip(portion, found, strict=True)
                if outcome.failure not in NOT_ASKED
            ]
        for kind, count in sorted(kinds.items()):
            log.warning("%d unanswered (%s), such as: %s", count, kind, details[kind])


def _logit(reply: Reply) -> float:
    """The log-odds that the response shown first is preferred. Raises `CallFailed` for a reply without a verdict."""
    verdict, failure = read_verdict(reply.text)
    if verdict is None:
        raise CallFailed(str(failure), "the reply ends without a verdict")
    return VERDICT_LOGIT if verdict == "first" else -VERDICT_LOGIT


def _reading(asked: Asked, outcome: Outcome[float]) -> Reading:
    """The logit is about the record's response A, whichever was shown first."""
    if outcome.value is None:
        return Reading(*asked, None, failure=outcome.failure, tokens=outcome.tokens)
    return Reading(*asked, outcome.value if asked[1] == "ab" else -outcome.value, tokens=outcome.tokens)


def read_verdict(text: str) -> tuple[Verdict, None] | tuple[None, str]:
    """The verdict of a reply's last line that is not blank, or why there is none; a preference is never guessed.

    The line is ``Verdict: A`` (the response shown first) or ``Verdict: B``; bold, the letter in double brackets, blanks
    and a final period are tolerated. Thoughts at the beginning (``<think>``) are no part of the reply.
    """
    thoughts, text = split_thoughts(text)
    lines = [line for line in (line.strip(" \t\r") for line in text.split("\n")) if line]
    if not lines:
        return None, "no_verdict" if thoughts else "empty"
    if not _LINE.fullmatch(lines[-1]):
        return None, "refusal" if refuses(text) else "no_verdict"
    letters = [found["letter"] for line in lines if (found := _LINE.fullmatch(line))]
    if len(set(letters)) > 1:
        return None, "contradictory"
    return ("first" if letters[-1] == "A" else "second"), None
