"""Leaderboards of all axes: a judge that reads the truth off the texts has them all, one that turns it round none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from crm.data.simulation.arena import simulate
from crm.data.simulation.lexicon import pole_of
from crm.data.simulation.responses import levels_of
from crm.judges.judge import Asked, Reading
from crm.judges.oracle import OracleJudge
from experiments.late.__main__ import verdicts
from experiments.late.boards import boards


class Oracle:
    """Knows the levels of taste in a simulated text; ``sign`` -1 turns every wish round."""

    def __init__(self, sign: int, head: str, bias: float = 0.0) -> None:
        self.sign, self.bias, self.encoder = sign, bias, SimpleNamespace(head=head)

    def read(self, asked: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in asked:
            axis, side = pole_of(row.criteria[0]) or ("", 0)
            one, other = (dict(levels_of(text[-1].content) or ())[axis] for text in (row.response_a, row.response_b))
            first = self.bias if order == "ab" else -self.bias
            yield [Reading(row, order, 40.0 * self.sign * side * (one - other) + first)]


@pytest.mark.parametrize(("head", "bias"), [("late", 0.0), ("pairwise", 5.0)])
def test_the_truth_has_every_leaderboard_right_whatever_stands_first(head: str, bias: float) -> None:
    right: Any = Oracle(1, head, bias)
    found = boards(right)
    assert len(found) == 26
    assert found["truth"].min() > 0.999
    assert found["opposite"].max() < -0.999


def test_who_turns_wishes_round_has_every_leaderboard_wrong() -> None:
    wrong: Any = Oracle(-1, "late")
    assert boards(wrong)["truth"].max() < -0.999


def test_a_pupil_learns_what_its_teacher_says_of_each_side() -> None:
    votes = simulate(seed=1, train=60, validation=1, suite=1).train
    known = {row.id: row for row in votes}
    teacher: Any = OracleJudge()
    taught = list(verdicts(teacher, votes, "train"))
    assert len({row.id for row in taught}) == len(taught)
    changed = 0
    for row in taught:
        vote = known[row.id.split("/")[0]]
        told, silent = (row.criteria_a, row.criteria_b) if row.winner == "a" else (row.criteria_b, row.criteria_a)
        assert told and not silent
        changed += told not in ((vote.criteria_a,) if row.winner == "a" else (vote.criteria_b,))
    sides = sum(bool(side) for vote in votes if vote.winner != "tie" for side in (vote.criteria_a, vote.criteria_b))
    assert len(taught) == sides
    assert 0 < changed < 0.2 * len(taught), "now and then a vote contradicts its criteria, and the truth does not"
