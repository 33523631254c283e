"""Judges that these tests share: one that only compares, and one that reads no long texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from crm.judges import Asked, Reading
from crm.judges.controls import LengthJudge


class OnlyCompares:
    """`LengthJudge` without scores: it gives the logit of two responses, and nothing of one."""

    left_out, together, digest = "unanswered", 1, "only-compares"

    def fits(self, asked: Asked) -> bool:
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for portion in LengthJudge().read(comparisons):
            yield [Reading(found.comparison, found.order, found.preference_logit) for found in portion]


class ShortOnly(LengthJudge):
    """`LengthJudge` that reads nothing of more than five words."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        def short(row: Asked) -> bool:
            return all(len(turns[0].content.split()) <= 5 for turns in (row[0].response_a, row[0].response_b))

        yield from super().read([row for row in comparisons if short(row)])
