"""What tests of the reward server share: judges that count words, and a server on a port of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from crm.rewards.server.app import make_app

from crm.judges.controls import LengthJudge, words
from crm.judges.judge import Asked, Reading
from crm.rewards.scoring import Rewards
from tests.running_app import running

LONG = 50
"""Words that `WordJudge` reads at most."""


class WordJudge(LengthJudge):
    """A score is the logarithm of one more than the words; longer responses than `LONG` are not read.

    ``asked`` are the responses of each call, in their order; ``pause`` is how many seconds a call takes. A response
    ``break`` breaks it, and ``nan`` has a score that is none.
    """

    left_out = "too_long"

    def __init__(self, pause: float = 0.0) -> None:
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "pause", pause)

    def fits(self, asked: Asked) -> bool:
        return all(words(turns) <= LONG for turns in (asked[0].response_a, asked[0].response_b))

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        sides = [turns[0].content for row, _ in comparisons for turns in (row.response_a, row.response_b)]
        self.asked.append(sides)  # type: ignore[attr-defined]
        time.sleep(self.pause)  # type: ignore[attr-defined]
        if "break" in sides:
            raise RuntimeError("broken on purpose")
        for reading in (one for portion in super().read(comparisons) for one in portion):
            if self.fits((reading.comparison, "ab")):
                row = reading.comparison
                scores = [
                    math.nan if turns[0].content == "nan" else score
                    for turns, score in ((row.response_a, reading.score_a), (row.response_b, reading.score_b))
                ]
                yield [Reading(row, reading.order, reading.preference_logit, *scores)]


class OnlyCompares:
    """The same without scores, and with a taste of 0.3 for the place that is shown first."""

    left_out, together, digest = "unanswered", 1, "only-compares"

    def fits(self, asked: Asked) -> bool:
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for reading in (one for portion in LengthJudge().read(comparisons) for one in portion):
            assert reading.preference_logit is not None
            shift = 0.3 if reading.order == "ab" else -0.3
            yield [Reading(reading.comparison, reading.order, reading.preference_logit + shift)]


def app_of(judge: Any, **settings: Any) -> Any:
    """The application around a judge, under the name ``words``."""
    given = {"name": "words", "version": "9", "queue_rows": 2000, "batch_rows": 64, **settings}
    return make_app(Rewards(judge), **given)


@contextmanager
def serve(judge: Any, port: int = 0, **settings: Any) -> Iterator[str]:
    """The address of a server with this judge."""
    with running(app_of(judge, **settings), port, grace=2) as address:
        yield address


def log_words(text: str) -> float:
    return math.log(1 + len(text.split()))


def group(*responses: str, criteria: Sequence[str] = ("likes words",), **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Why?"}]
    return {"criteria": list(criteria), "messages": messages, "responses": list(responses), **more}
