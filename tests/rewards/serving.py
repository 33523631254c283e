"""Judges that count words, and a reward server around one."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from crm.judges.judge import Asked, LengthJudge, Reading, words
from crm.rewards.scoring import Rewards
from crm.rewards.server import make_app
from tests.running_app import running

LONG = 50
"""Words that `WordJudge` reads at most."""


class WordJudge(LengthJudge):
    """A score is log(1 + words); responses longer than ``longest`` are not read.

    ``asked`` are the responses of each call; ``pause`` is how many seconds a call takes. A response ``break`` breaks
    it, and ``nan`` has a score that is no number.
    """

    left_out = "too_long"

    def __init__(self, pause: float = 0.0, longest: int = LONG) -> None:
        self.__dict__.update(asked=[], pause=pause, longest=longest)

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        sides = [turns[0].content for row, _ in comparisons for turns in (row.response_a, row.response_b)]
        self.__dict__["asked"].append(sides)
        time.sleep(self.__dict__["pause"])
        if "break" in sides:
            raise RuntimeError("broken on purpose")
        for reading in (one for portion in super().read(comparisons) for one in portion):
            row = reading.comparison
            if all(words(turns) <= self.__dict__["longest"] for turns in (row.response_a, row.response_b)):
                a, b = (
                    math.nan if turns[0].content == "nan" else score
                    for turns, score in ((row.response_a, reading.score_a), (row.response_b, reading.score_b))
                )
                yield [Reading(row, reading.order, reading.preference_logit, a, b)]


class OnlyCompares:
    """The same without scores, and with a bias of ``place`` for the response shown first; ``fails`` in order ba."""

    left_out, digest = "unanswered", "only-compares"

    def __init__(self, place: float = 0.3, fails: str = "") -> None:
        self.place, self.fails = place, fails

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for reading in (one for portion in LengthJudge().read(comparisons) for one in portion):
            row, order = reading.comparison, reading.order
            assert reading.preference_logit is not None
            if self.fails and self.fails in (row.response_a[0].content, row.response_b[0].content) and order == "ba":
                yield [Reading(row, order, None, failure="refused")]
            else:
                yield [Reading(row, order, reading.preference_logit + (self.place if order == "ab" else -self.place))]


def app_of(judge: Any, **settings: Any) -> Any:
    """The application around a judge, under the name ``words``."""
    return make_app(Rewards(judge), **{"name": "words", "queue_rows": 2000, **settings})


@contextmanager
def serve(judge: Any, **settings: Any) -> Iterator[str]:
    """The address of a server with this judge."""
    with running(app_of(judge, **settings), grace=2) as address:
        yield address


def log_words(text: str) -> float:
    return math.log(1 + len(text.split()))


def group(*responses: str, criteria: Any = ("likes words",), **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Why?"}]
    return {"criteria": criteria, "messages": messages, "responses": list(responses), **more}
