"""Spearman's rho with ratings: by hand on two small groups, by symmetry, and on real ratings."""

import math
from pathlib import Path

import pandas as pd
import pytest

from crm.config import compose
from crm.data.public.pairs import Rated
from crm.schema import Comparison, Message, Prediction
from experiments.one_model.agreement import MEAN, agreement, rating_comparisons, run_agreement
from experiments.sources.sets import RatedInPlace
from tests.made_files import DATA_ROOT

WORDINGS = {"clear": ("Be clear", "Say it plainly"), "fun": ("Be fun",)}


def response(group: str, author: str, clear: float, fun: float) -> RatedInPlace:
    prompt = (Message("user", f"query {group}"),)
    return RatedInPlace(group, prompt, Rated(f"text of {author}", author, {"clear": clear, "fun": fun}))


RESPONSES = [
    *(response("g", author, clear, fun) for author, clear, fun in (("c", 1, 3), ("a", 2, 2), ("b", 3, 1))),
    *(response("h", author, clear, fun) for author, clear, fun in (("a", 1, 1), ("b", 2, 1), ("c", 3, 1))),
]


def judged(rows: list[Comparison], score: dict[str, float]) -> list[Prediction]:
    """A judge with a score for each author, whatever the aspect."""
    made = []
    for row in rows:
        a, b = (score[turns[0].content.removeprefix("text of ")] for turns in (row.response_a, row.response_b))
        made += [
            Prediction(row.id, order, a - b, row.label, row.cluster, "ratings", "mark", a, b) for order in ("ab", "ba")
        ]
    return made


def test_rho_by_hand() -> None:
    rows = rating_comparisons(RESPONSES, WORDINGS, seed=1)
    found = agreement(RESPONSES, judged(rows, {"a": 0.5, "b": 2.0, "c": -1.0})).set_index("aspect")
    # g: authors a, b, c are judged to rank 2, 3, 1; clear ranks them 2, 3, 1 and fun 2, 1, 3. h: clear ranks 1, 2, 3:
    # d = 1, 1, -2 and rho = 1 - 6 * 6 / (3 * 8) = -0.5; fun is constant there, so that there is no rho.
    assert found.loc["clear", "rho"] == pytest.approx((1.0 - 0.5) / 2) and found.loc["clear", "groups"] == 2
    assert found.loc["fun", "rho"] == pytest.approx(-1.0) and found.loc["fun", "groups"] == 1
    assert math.isnan(found.loc["fun", "low"]), "one group says nothing of spread"
    assert found.loc[MEAN, "groups"] == 1 and found.loc[MEAN, "rho"] == pytest.approx(0.0)


def test_a_response_without_a_verdict_takes_its_group_out() -> None:
    rows = rating_comparisons(RESPONSES, WORDINGS, seed=1)
    made = judged(rows, {"a": 0.5, "b": 2.0, "c": -1.0})
    lost = [row for row in made if not (row.comparison_id == rows[0].id and row.order == "ba")]
    failed = Prediction(rows[0].id, "ba", None, "tie", rows[0].cluster, "ratings", "mark", failure="refusal")
    found = agreement(RESPONSES, [*lost, failed]).set_index("aspect")
    assert found.loc["clear", "groups"] == 1


@pytest.mark.skipif(not (DATA_ROOT / "topicalchat").is_dir(), reason=f"no public data under {DATA_ROOT}")
@pytest.mark.parametrize("name", ["summeval", "topicalchat"])
def test_on_real_ratings(tmp_path: Path, name: str) -> None:
    words = ["data=file", f"data.name={name}", f"data.root='{DATA_ROOT}'", "judge=length", "progress=false"]
    words.append(f"predictions='{tmp_path}'")
    run_agreement(compose("evaluate", words, tmp_path / "out"))
    found = pd.read_csv(tmp_path / "out" / "agreement.csv", skiprows=1).set_index("aspect")
    assert found.loc[MEAN, "groups"] >= 25 and -1 < found.loc[MEAN, "low"] < found.loc[MEAN, "rho"] < 1
