"""Suites say what the judge says of each comparison, by vectors too; boards reverse where criteria do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from crm.data.comparisons import make_comparisons
from crm.data.splits import Splits
from crm.judges.crm_judge import CrmJudge
from crm.schema import Message, Preference
from experiments.real_judge.boards import trait_boards
from experiments.real_judge.leakage import leakage, shared
from experiments.real_judge.suites import read_suites, sums
from experiments.real_judge.traits import TRAITS


@pytest.fixture(scope="module")
def preferences() -> list[Preference]:
    answers = ("Clouds cool.", "It just does, I am afraid, and nobody knows why it should.", "Why not?", "Rain? Rain!")
    return [
        Preference(
            id=f"x-{first}{second}",
            prompt=(Message("user", f"Why rain {first}?"),),
            response_a=(Message("assistant", answers[first]),),
            response_b=(Message("assistant", answers[second]),),
            winner="a" if first < second else "b",
            criteria_a=("Short answers",),
            criteria_b=("Long answers",) if first else (),
            topic="Length" if first < 2 else "Lists",
        )
        for first in range(4)
        for second in range(4)
        if first != second
    ]


@pytest.mark.parametrize("head", ["late"])
def test_suites_say_what_the_judge_says(head, preferences, make_model, make_encoder) -> None:
    model, encoder = make_model(head, "llama-1", seed=2), make_encoder(head)
    judge = CrmJudge(model, encoder, batch_size=8)
    frame = read_suites(judge, {"D": preferences})
    expected = {}
    for side, direction in (("+", "original"), ("-", "reverse")):
        rows, _ = make_comparisons(preferences, direction=direction, noise="none", pool=None, seed=0, epoch=0)
        readings = [one for portion in judge.read([(row, "ab") for row in rows]) for one in portion]
        says = {reading.comparison.id: reading.preference_logit > 0 for reading in readings}
        right = [says[row.id] == (row.label == "a") for row in rows]
        assert frame[frame["side"] == side]["right"].tolist() == [float(one) for one in right]
        expected[side] = sum(right) / len(right)
    assert len(frame[frame["side"] == "-"]) == 9 and len(frame) == 21, "three have no criteria to turn round"
    found = sums([frame])["D"]
    assert found["sum"] == pytest.approx(sum(expected.values()), abs=1e-4)
    assert found["low"] <= found["sum"] <= found["high"] and (found["n"], found["directions"]) == (21, 2)


def test_boards_of_a_judge_that_counts_agree_with_the_counts() -> None:
    trait = next(one for one in TRAITS if one.name == "Questions to the reader")
    counts = np.arange(12.0).reshape(3, 4) * trait.measure.clear
    more = np.stack([counts, 2 * counts])
    board = trait_boards(trait, more, -more, counts, counts, baseline=0)
    assert (board.opposite, board.same, board.ceiling) == (-1.0, 1.0, 1.0)
    assert board.truth == board.mixed > 0.7, "those above the baseline are equal by the share of queries"


def test_what_training_and_suites_share_is_counted(preferences) -> None:
    asked = "Why does it rain so often in the west of Ireland in winter"
    rows = [replace(row, author_a="one", author_b="two") for row in preferences]
    rows[0] = replace(rows[0], prompt=(Message("user", asked),))
    near = replace(rows[0], prompt=(Message("user", f"{asked}?"),))
    other = replace(rows[0], author_a="three", prompt=(Message("user", "Why snow?"),), criteria_a=("Lists",))
    splits = Splits(rows, [], {"M": [near, other]}, {})
    long = "Answers that run to many pages and never stop talking"
    table = leakage(splits, {"short  ANSWERS", long}).set_index("what")
    assert table["n"].to_dict() == {"queries": 2, "llms": 3, "sentences": 2}
    assert table["equal"].to_dict() == {"queries": 0, "llms": 2, "sentences": 1}
    assert table["near"].to_dict() == {"queries": 1, "llms": 0, "sentences": 0}
    assert table["held_out"].to_dict() == {"queries": True, "llms": True, "sentences": False}
    assert shared({long + "!", "Nothing like it"}, {long}, nearly=True) == (0, 1)
    assert shared({long + "!", "Nothing like it"}, {long}, nearly=False) == (0, 0)
