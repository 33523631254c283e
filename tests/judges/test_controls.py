"""Judges that know nothing, and the one that knows the truth: what they say is checked by hand and by symmetry."""

import math
from dataclasses import replace

import pytest

from crm.data.comparisons import make_comparisons
from crm.data.simulation.arena import simulate
from crm.judges.judge import CoinJudge, Judge, LengthJudge, OracleJudge, Reading
from crm.report.statistics import correctness
from crm.schema import Comparison, Message


@pytest.fixture(scope="module")
def simulated() -> dict[str, list[Comparison]]:
    """Suite D of a small arena in both directions."""
    arena = simulate(seed=5, train=0, validation=0, suite=400)
    return {
        direction: make_comparisons(arena.suites["D"], direction=direction, noise="none", pool=None, seed=5, epoch=0)[0]
        for direction in ("original", "reverse")
    }


def read(judge: Judge, rows: list[Comparison]) -> list[Reading]:
    asked = [(row, order) for row in rows for order in ("ab", "ba")]
    readings = [reading for portion in judge.read(asked) for reading in portion]  # type: ignore[arg-type]
    assert [(reading.comparison.id, reading.order) for reading in readings] == [(row.id, o) for row, o in asked]
    return readings


def swapped(row: Comparison) -> Comparison:
    return replace(row, response_a=row.response_b, response_b=row.response_a)


def test_the_longer_response_wins(simulated) -> None:
    rows = simulated["original"][:50]
    answer = Message("assistant", "one two three")
    by_hand = replace(rows[0], response_a=(answer,), response_b=(Message("assistant", "\n one  "),))
    assert read(LengthJudge(), [by_hand])[0].preference_logit == pytest.approx(math.log(4 / 2))
    chinese = replace(
        rows[0], response_a=(Message("assistant", "好的"),), response_b=(Message("assistant", "这是一段长话"),)
    )
    assert read(LengthJudge(), [chinese])[0].preference_logit == pytest.approx(math.log(3 / 7))
    logits = [reading.preference_logit for reading in read(LengthJudge(), rows)]
    mirrored = [reading.preference_logit for reading in read(LengthJudge(), [swapped(row) for row in rows])]
    assert logits == pytest.approx([-logit for logit in mirrored])


def test_a_coin_is_fair_and_falls_once_for_a_comparison(simulated) -> None:
    rows = simulated["original"]
    readings = read(CoinJudge(3), rows)
    assert all(
        first.preference_logit == second.preference_logit
        for first, second in zip(readings[::2], readings[1::2], strict=True)
    )
    assert readings[2:] == read(CoinJudge(3), rows[1:]), "other rows change nothing"
    heads = sum(reading.preference_logit == 1.0 for reading in readings[::2])
    assert abs(heads - len(rows) / 2) < 3 * math.sqrt(len(rows)) / 2
    assert [r.preference_logit for r in readings] != [r.preference_logit for r in read(CoinJudge(4), rows)]
    assert CoinJudge(3).digest != CoinJudge(4).digest


def test_the_oracle_is_right_as_often_as_votes_are_rational(simulated) -> None:
    """Votes contradict a utility gap d with probability 1 / (1 + exp(4 d)), mostly d = 1: about 1.8 %."""
    for rows in simulated.values():
        readings = read(OracleJudge(), rows)
        logits = [reading.preference_logit for reading in readings[::2]]
        labels = [int(row.label == "a") for row in rows]
        assert 0.96 < correctness(logits, labels).mean() < 1.0
        assert [reading.preference_logit for reading in readings[1::2]] == logits
        mirrored = [reading.preference_logit for reading in read(OracleJudge(), [swapped(row) for row in rows])[::2]]
        assert logits == [-logit for logit in mirrored]


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"criteria": ("Prefers answers from the moon",)}, "unknown_criterion"),
        ({"criteria": ()}, "unknown_criterion"),
        ({"response_b": (Message("assistant", "An oak."),)}, "unknown_text"),
    ],
)
def test_the_oracle_says_where_it_knows_nothing(simulated, change, failure) -> None:
    for reading in read(OracleJudge(), [replace(simulated["original"][0], **change)]):
        assert (reading.preference_logit, reading.failure) == (None, failure)
