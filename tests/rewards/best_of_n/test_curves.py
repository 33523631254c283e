"""Picks and curves against plain means; a proxy that goes wrong at the top has a peak, with a loss after it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from crm.rewards.best_of_n.candidates import Candidates, simulated
from crm.rewards.best_of_n.curves import COLUMNS, curves, gold_table, peaks
from crm.rewards.best_of_n.estimator import best_of_k, sizes
from crm.rewards.best_of_n.gold import by_judge
from crm.rewards.best_of_n.picking import Picks, controls, judges, words_of
from crm.rewards.best_of_n.study import document, study_of, write_study

from crm.judges.controls import LengthJudge, words
from crm.judges.judge import Asked, Reading
from crm.report.statistics import mean_interval
from crm.rewards.best_of_n import picking
from crm.rewards.scoring import Rewards

POOL = [replace(own, criteria=("short",), opposite=("long",)) for own in simulated(seed=5, count=6, n=7)]
CLUSTERS = [own.cluster for own in POOL]
KS = sizes(7)


class ByWish(LengthJudge):
    """Fewer words for who wants it short, more for who wants it long, the first letter for who wants neither."""

    def __init__(self) -> None:
        self.read_texts: list[str] = []

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in comparisons:
            scores = [self._score(row.criteria, turns) for turns in (row.response_a, row.response_b)]
            self.read_texts += [turns[0].content for turns in (row.response_a, row.response_b)]
            yield [Reading(row, order, scores[0] - scores[1], *scores)]

    def _score(self, criteria: Sequence[str], turns: object) -> float:
        sign = {"short": -1.0, "long": 1.0}.get(criteria[0], 0.0)
        return sign * words(turns)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def gold() -> np.ndarray:
    found = -words_of(POOL)
    found[0, 3] = np.nan
    return found


def test_the_judge_is_told_the_criteria_nothing_and_the_opposite(gold: np.ndarray) -> None:
    found = judges(Rewards(ByWish()), POOL, gold, KS, seed=1, temperature=1.0, in_order=True)
    beside = controls(POOL, gold, KS)
    assert list(found) == ["judge", "blind", "opposite", "judge, soft", "judge, first k"]
    assert found["judge"].picked == pytest.approx(beside["oracle"].picked, nan_ok=True)
    assert found["opposite"].picked == pytest.approx(beside["length"].picked, nan_ok=True)
    assert found["blind"].picked == pytest.approx(beside["random"].picked, nan_ok=True)
    assert (found["judge"].picked[0, :3, 3] == 0).all() and np.isnan(found["judge"].picked[0, -1]).all()


def test_portions_change_nothing_and_those_who_share_responses_stand_together(
    gold: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [replace(own, criteria=(wish,)) for wish in ("short", "long") for own in POOL]
    twice = np.vstack([gold, gold])
    whole = judges(Rewards(ByWish()), users, twice, KS, seed=1)
    monkeypatch.setattr(picking, "PORTION", 10)
    parts = judges(Rewards(ByWish()), users, twice, KS, seed=1)
    assert parts["judge"].picked == pytest.approx(whole["judge"].picked, nan_ok=True)
    assert whole["judge"].of_queries(slice(0, 6)).picked == pytest.approx(
        judges(Rewards(ByWish()), POOL, gold, KS, seed=1)["judge"].picked, nan_ok=True
    )
    assert all({place % 6 for place in portion} for portion in picking._portions(users))
    assert [sorted(portion) for portion in picking._portions(users)] == [[place, place + 6] for place in range(6)]


def test_a_judge_that_only_compares_plays_all_pairs_or_a_knockout(gold: np.ndarray) -> None:
    class Compares(ByWish):
        pointwise = False

    few = judges(Rewards(Compares()), POOL, gold, KS, seed=1)
    by_scores = judges(Rewards(ByWish()), POOL, gold, KS, seed=1)
    assert few["judge"].picked == pytest.approx(by_scores["judge"].picked, nan_ok=True)
    assert few["judge"].cycles is not None and not few["judge"].cycles.any()
    many = simulated(seed=5, count=2, n=12)
    found = judges(Rewards(Compares()), many, np.zeros((2, 12)), (1, 2, 4, 8, 12), seed=1)["judge"]
    assert found.counts == {"pairs": 2 * 10, "unread_pairs": 0} and found.cycles is None
    assert np.isnan(found.picked[:, 4]).all() and not np.isnan(found.picked[:, :4]).any()


def test_rows_are_means_over_queries_with_their_intervals(gold: np.ndarray) -> None:
    picks = judges(Rewards(ByWish()), POOL, gold, KS, seed=1) | controls(POOL, gold, KS)
    frame = curves(picks, gold, words_of(POOL), CLUSTERS, KS).set_index(["picked_by", "measure", "k"])
    known = [row[~np.isnan(row)] for row in gold]
    random = mean_interval([float(row.mean()) for row in known], CLUSTERS)
    row = frame.loc["judge", "gold", 1]
    assert (row["mean"], row["low"], row["n"]) == (pytest.approx(random.mean), pytest.approx(random.low), 6)
    best = mean_interval([float(row.max()) for row in known[1:]], CLUSTERS[1:])
    assert frame.loc["judge", "gold", 7]["mean"] == pytest.approx(best.mean) and frame.loc["judge", "gold", 7]["n"] == 5
    gain = mean_interval([float(row.max() - row.mean()) for row in known[1:]], CLUSTERS[1:])
    assert frame.loc["judge", "gain", 7]["high"] == pytest.approx(gain.high)
    assert frame.loc["judge", "regret", 7]["mean"] == pytest.approx(0)
    lost = mean_interval([float(row.max() - row.min()) for row in known[1:]], CLUSTERS[1:])
    assert frame.loc["opposite", "regret", 7]["mean"] == pytest.approx(lost.mean)
    assert frame.loc["judge", "words", 7]["mean"] == pytest.approx(-best.mean)
    assert frame.loc["judge", "reward", 4]["mean"] == pytest.approx(frame.loc["judge", "gold", 4]["mean"])


def test_two_users_of_one_prompt_are_one_cluster(gold: np.ndarray) -> None:
    twice = np.vstack([gold, gold])
    one, two = (
        curves(controls(pool, own, KS), own, words_of(pool), [row.cluster for row in pool], KS)
        for pool, own in ((POOL, gold), (POOL + POOL, twice))
    )
    assert two["n"].tolist() == [2 * n for n in one["n"]] and two["prompts"].tolist() == one["prompts"].tolist()
    assert two["low"].to_numpy() == pytest.approx(one["low"].to_numpy())


def test_over_optimization_is_a_peak_and_a_loss_after_it() -> None:
    """The proxy is gold, but for one response of each query that it loves and that is worth nothing."""
    random = np.random.default_rng(0)
    gold = random.normal(size=(40, 32))
    proxy = gold.copy()
    proxy[:, 5], gold[:, 5] = 9.0, -5.0
    ks = sizes(32)
    picks = {"judge": Picks(best_of_k(proxy, ks), proxy), "oracle": Picks(best_of_k(gold, ks), gold)}
    judge, oracle = peaks(picks, gold, [str(place) for place in range(40)], ks)
    assert 1 < judge.k < 32 and judge.loss is not None and judge.loss.low > 1
    assert (oracle.k, oracle.loss) == (32, None)


def test_a_k_that_few_queries_have_is_no_peak() -> None:
    gold = np.arange(40.0).reshape(10, 4)
    gold[1:, 3] = np.nan
    (found,) = peaks({"judge": Picks(best_of_k(gold, (1, 2, 4)), gold)}, gold, list("abcdefghij"), (1, 2, 4))
    assert (found.k, found.largest, found.n) == (2, 2, 10)


def test_equal_means_peak_at_the_least_k() -> None:
    flat = np.zeros((4, 4))
    found = peaks({"judge": Picks(best_of_k(flat, (1, 2, 4)), flat)}, flat, list("abcd"), (1, 2, 4))
    assert found[0].k == 1 and found[0].loss is not None and found[0].loss.mean == 0


def test_a_study_is_written_whole_and_says_what_was_left_out(gold: np.ndarray, tmp_path: Path) -> None:
    picks = judges(Rewards(ByWish()), POOL, gold, KS, seed=1) | controls(POOL, gold, KS)
    study = study_of(picks, POOL, gold, KS)
    assert study.counts == {"queries": 6, "prompts": 6, "responses": 42, "gold_unknown": 1, "unread": 0}
    write_study(tmp_path, study, {"seed": 1}, title="short $x", unit="words", caption="n = 6")
    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert found["run"] == {"seed": 1} and found["k"] == [1, 2, 4, 7] and found["kl_at_most"]["2"] == 0.1931
    assert set(found["curves"][0]) == set(COLUMNS) and found["curves"] == document(study)["curves"]
    assert {path.name for path in tmp_path.iterdir()} >= {"best_of_n.png", "best_of_n.md", "peaks.csv"}
    table = gold_table(study.curves)
    assert table.columns.tolist() == ["picked_by", "k = 1", "k = 2", "k = 4", "k = 7"]
    assert table["picked_by"].tolist() == ["judge", "blind", "opposite", "length", "random", "oracle"]


def test_without_gold_only_rewards_and_words_are_told(tmp_path: Path) -> None:
    there = np.zeros((6, 7))
    picks = judges(Rewards(ByWish()), POOL, there, KS, seed=1) | controls(POOL, there, KS)
    study = study_of(picks, POOL, there, KS, known=False)
    assert set(study.curves["measure"]) == {"reward", "words"} and not study.peaks
    write_study(tmp_path, study, {}, title="short", unit="not known", caption="")
    assert not (tmp_path / "peaks.md").exists()


def test_one_prompt_has_no_interval(tmp_path: Path) -> None:
    one, gold = POOL[:1], by_judge(Rewards(ByWish()), POOL[:1])
    study = study_of(judges(Rewards(ByWish()), one, gold, KS, seed=1) | controls(one, gold, KS), one, gold, KS)
    row = next(row for row in document(study)["curves"] if row["measure"] == "gold")
    assert (row["low"], row["high"], row["n"]) == (None, None, 1)


def test_responses_to_a_prompt_are_candidates_of_it() -> None:
    own = Candidates(POOL[0].prompt, ("a", "b"))
    assert [turns[0].content for turns in own.group(["x"]).responses] == ["a", "b"]
