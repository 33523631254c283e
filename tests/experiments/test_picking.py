"""The study of picks on a small world in which the judge sees the truth: people, courses, what a condition comes to."""

from __future__ import annotations

import numpy as np
import pytest

from crm.picking.criteria import contrasts
from crm.picking.session import Pair, Pick
from experiments.picking.__main__ import summary
from experiments.picking.courses import Condition, Course, course, own_votes, stays
from experiments.picking.world import POOL, World


@pytest.fixture(scope="module")
def world() -> World:
    """40 queries, 6 models, the pool's axes and three more; models have leanings."""
    rng = np.random.default_rng(1)
    leaning = rng.normal(size=(1, 6, POOL + 3))
    levels = np.clip(np.round(0.6 * leaning + 0.7 * rng.normal(size=(40, 6, POOL + 3))), -1, 1)
    raw = levels[..., :POOL].transpose(2, 0, 1).astype(np.float32)
    seen = contrasts(raw, np.zeros_like(raw))
    return World(seen, (seen, contrasts(-raw, np.zeros_like(raw))), levels, 0)


def test_picks_come_nearer_to_the_truth_and_typing_starts_nearer(world: World) -> None:
    found = {
        name: [course(world, condition, seed, 12) for seed in range(5)]
        for name, condition in {
            "picks": Condition(),
            "typed": Condition(typed=2),
            "noise": Condition(kind="noise"),
        }.items()
    }
    start, end = (np.mean([one.taus[place] for one in found["picks"]]) for place in (0, -1))
    typed = np.mean([one.taus[0] for one in found["typed"]])
    assert end > start + 0.3 and typed > start + 0.3
    means = summary(found["picks"], 12)
    assert means["tau_after"]["8"] == pytest.approx(np.mean([one.taus[8] for one in found["picks"]]), abs=1e-3)
    assert means["top3_after_8"]["mean"] == np.mean([one.found_early for one in found["picks"]])
    assert summary(found["noise"], 12)["decided"] <= 0.3


def test_own_votes_are_bradley_terry() -> None:
    picks = [Pick(Pair(0, 0, 1), "left")] * 9 + [Pick(Pair(0, 1, 0), "left")] * 3 + [Pick(Pair(1, 2, 1), "same")] * 4
    strength = own_votes(picks, 4)
    assert strength[0] > strength[1] == pytest.approx(strength[2], abs=0.05)
    assert strength[3] == pytest.approx(0, abs=1e-4)
    assert strength[0] - strength[1] == pytest.approx(np.log(3), abs=0.15)
    assert (own_votes([], 4) == 0).all()


def test_a_ranking_is_right_from_where_it_stays_so() -> None:
    assert stays(np.array([0.1, 0.9, 0.7, 0.8, 0.9]), 0.8) == 3
    assert stays(np.array([0.9, 0.9]), 0.8) == 0
    assert stays(np.array([0.9, 0.7]), 0.8) == float("inf")
    rows = [Course(np.array([0.0, 0.9, 0.9]), np.array([0.0, 0.5, 0.9]), True, 1, 2) for _ in range(3)]
    rows.append(Course(np.array([0.0, 0.0, 0.0]), np.array([0.0, 0.1, 0.2]), False, 0, 2))
    means = summary(rows, 2)
    assert means["median_comparisons"] == 1 and means["right_after_all_picks"] == 0.75
    assert (means["decided"], means["tau_of_decided"], means["stops_after"]) == (0.75, 0.9, 2)
    assert means["agreement_on_random_pairs"] == pytest.approx(3 / 8, abs=1e-3)
