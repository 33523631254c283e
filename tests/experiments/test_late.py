"""Leaderboards of all axes: a judge that reads the truth off the texts has them all, one that inverts them has none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from crm.data.simulation.lexicon import levels_of, pole_of
from crm.judges.judge import Asked, Reading
from experiments.late.boards import boards


class Oracle:
    """Knows the levels of taste in a simulated text; ``sign`` -1 inverts every criterion."""

    def __init__(self, sign: int, head: str, bias: float = 0.0) -> None:
        self.sign, self.bias, self.encoder = sign, bias, SimpleNamespace(head=head)

    def read(self, asked: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in asked:
            axis, side = pole_of(row.criteria[0]) or ("", 0)
            one, other = (dict(levels_of(text[-1].content) or ())[axis] for text in (row.response_a, row.response_b))
            first = self.bias if order == "ab" else -self.bias
            yield [Reading(row, order, 40.0 * self.sign * side * (one - other) + first)]


@pytest.mark.parametrize(("head", "bias"), [("pairwise", 5.0)])
def test_the_truth_has_every_leaderboard_right_in_either_order(head: str, bias: float) -> None:
    right: Any = Oracle(1, head, bias)
    found = boards(right)
    assert len(found) == 26
    assert found["truth"].min() > 0.999
    assert found["opposite"].max() < -0.999


def test_inverted_criteria_reverse_every_ranking() -> None:
    wrong: Any = Oracle(-1, "late")
    assert boards(wrong)["truth"].max() < -0.999
