"""Suites of the study say what the judge says of each comparison, in both directions."""

from __future__ import annotations

import pytest

from crm.data.comparisons import make_comparisons
from crm.judges.crm_judge import CrmJudge
from crm.schema import Message, Preference
from experiments.human_labels.suites import read_suites, sums

ANSWERS = ("Clouds cool.", "It just does, I am afraid, and nobody knows why it should.", "Why not?", "Rain? Rain!")
PREFERENCES = [
    Preference(
        id=f"x-{first}{second}",
        prompt=(Message("user", f"Why rain {first}?"),),
        response_a=(Message("assistant", ANSWERS[first]),),
        response_b=(Message("assistant", ANSWERS[second]),),
        winner="a" if first < second else "b",
        criteria_a=("Short answers",),
        criteria_b=("Long answers",) if first else (),
    )
    for first in range(4)
    for second in range(4)
    if first != second
]


def test_suites_say_what_the_judge_says(make_model, make_encoder) -> None:
    judge = CrmJudge(make_model("late", "llama", seed=2), make_encoder("late"), batch_size=8)
    frame = read_suites(judge, {"D": PREFERENCES})
    expected = {}
    for side, direction in (("+", "original"), ("-", "reverse")):
        rows, _ = make_comparisons(PREFERENCES, direction=direction, noise="none", pool=None, seed=0, epoch=0)
        readings = [one for portion in judge.read([(row, "ab") for row in rows]) for one in portion]
        says = {reading.comparison.id: reading.preference_logit > 0 for reading in readings}
        right = [says[row.id] == (row.label == "a") for row in rows]
        assert frame[frame["side"] == side]["right"].tolist() == [float(one) for one in right]
        expected[side] = sum(right) / len(right)
    assert len(frame[frame["side"] == "-"]) == 9 and len(frame) == 21, "three have no criteria to turn round"
    found = sums([frame])["D"]
    assert found["sum"] == pytest.approx(sum(expected.values()), abs=1e-4)
    assert found["low"] <= found["sum"] <= found["high"] and (found["n"], found["directions"]) == (21, 2)
