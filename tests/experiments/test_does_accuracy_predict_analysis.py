"""Rank correlations and p by a second route; what was planted is found, and nothing where there is nothing."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from experiments.does_accuracy_predict.analysis import ALL, correlations, draw
from experiments.does_accuracy_predict.judges import FAMILIES, SUITES
from experiments.does_accuracy_predict.power import published, six_models
from experiments.does_accuracy_predict.ranks import exact_p, kendall, permutation_p, spearman
from experiments.does_accuracy_predict.saved import Saved


def test_correlations_are_those_of_scipy_ties_or_not() -> None:
    random = np.random.default_rng(1)
    for one, other in (
        (random.normal(size=(5, 9)), random.normal(size=(5, 9))),
        (random.integers(0, 3, (5, 12)).astype(float), random.integers(0, 4, (5, 12)).astype(float)),
    ):
        for row in range(len(one)):
            assert spearman(one, other)[row] == pytest.approx(stats.spearmanr(one[row], other[row]).statistic)
            assert kendall(one, other)[row] == pytest.approx(stats.kendalltau(one[row], other[row]).statistic)
    flat = np.ones((1, 4))
    assert np.isnan(spearman(flat, one[:1, :4])).all() and np.isnan(kendall(flat, one[:1, :4])).all()


@pytest.mark.parametrize("other", [[3.0, 1.0, 4.0, 2.0, 6.0, 5.0], [1.0, 1.0, 2.0, 2.0, 3.0, 1.0]])
def test_p_of_few_judges_is_that_of_all_permutations(other: list[float]) -> None:
    one = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 5.0])
    found = abs(stats.spearmanr(one, other).statistic)
    hits = [abs(stats.spearmanr(one, order).statistic) >= found - 1e-9 for order in permutations(other)]
    assert permutation_p(one, np.array(other), seed=1) == pytest.approx(np.mean(hits))


def test_what_was_published_of_six_models_is_what_chance_gives() -> None:
    rhos = [stats.spearmanr(range(6), order).statistic for order in permutations(range(6))]
    assert exact_p(0.257, 6) == pytest.approx(np.mean(np.abs(rhos) > 0.257 - 1e-3))
    assert [round(row["p"], 2) for row in published()] == [0.66, 0.5]


def planted(strength: float, seed: int, judges: int = 26, pairs: int = 300) -> Saved:
    """Judges from chance to nearly right; what they are good for follows their true accuracy by ``strength``."""
    random = np.random.default_rng(seed)
    truth = np.linspace(0.5, 0.97, judges)
    right = {suite: (random.random((judges, pairs)) < truth[:, None]).astype(float) for suite in SUITES}
    value = strength * (truth - truth.mean()) / truth.std() + np.sqrt(1 - strength**2) * random.normal(size=judges)
    uses = {
        "best_of_4": value[:, None] + 0.3 * random.normal(size=(judges, 30)),
        "grpo_selected": np.where(np.arange(judges)[:, None] % 3 == 0, value[:, None] + np.zeros(12), np.nan),
    }
    families = tuple(FAMILIES[-1] if place >= judges - 2 else FAMILIES[0] for place in range(judges))
    prompts = {suite: np.arange(pairs) for suite in SUITES}
    return Saved(tuple(map(str, range(judges))), families, right, prompts, uses, {})


def test_a_planted_relation_is_found_and_no_relation_is_not() -> None:
    for strength, seed in ((0.95, 1), (0.0, 2)):
        saved = planted(strength, seed)
        drawn = draw(saved, seed=1, resamples=300)
        groups = {"all": np.arange(len(saved.names)), "above_chance": saved.above_chance()}
        rows = {(row["judges"], row["use"], row["suite"]): row for row in correlations(drawn, groups, seed=1)}
        assert len(rows) == 2 * 2 * 10
        row = rows["all", "best_of_4", ALL]
        values = saved.uses["best_of_4"].mean(axis=1)
        accuracy = np.mean([saved.right[suite].mean(axis=1) for suite in SUITES], axis=0)
        assert row["spearman"] == pytest.approx(stats.spearmanr(accuracy, values).statistic)
        assert row["kendall"] == pytest.approx(stats.kendalltau(accuracy, values).statistic)
        assert row["low"] <= row["spearman"] <= row["high"] and row["p"] <= row["p_holm"]
        assert (row["low"] > 0.5 and row["p_holm"] < 0.05) if strength else (row["low"] < 0 and row["p"] > 0.05)
        assert rows["all", "grpo_selected", ALL]["n"] == 9
        whole = [row for (group, use, _), row in rows.items() if (group, use) == ("all", "best_of_4")]
        assert min(row["behind"] for row in whole) == 0
        six = six_models(drawn, ALL, groups, seed=1, draws=100)[0]
        assert six["low"] <= six["median"] <= six["high"] and (six["significant"] > 0.5) == bool(strength)
