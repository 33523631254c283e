"""Votes of somebody who follows one criterion of the pool, in a random judge's eyes: that criterion comes out."""

import random
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from crm.io.draws import turn
from crm.judges.crm_judge import CrmJudge
from crm.model.late_reading import LateReader, added_up
from crm.picking.criteria import PoolEntry, contrasts, joined
from crm.picking.from_votes import taste, taste_of
from crm.picking.posterior import Evidence, Posterior, weighted_criteria
from crm.schema import Preference

POOL = (
    PoolEntry("rain", "Wants rain", "Hates rain"),
    PoolEntry("short", "Be brief", "Write pages and pages"),
    PoolEntry("names", "xyzzy!", "Plain Words"),
)
WORDS = ("yes", "no", "rain", "see [1]", "Thus", "cold", "¿why?", "12", "and so on", "END")


@pytest.fixture(scope="module")
def reader(make_model: Any, make_encoder: Any) -> LateReader:
    judge = CrmJudge(make_model("late"), make_encoder("late", max_length=200), batch_size=8, model_digest="m")
    assert judge.late_reader is not None
    return judge.late_reader


def voted(reader: LateReader, like: str, opposite: str, count: int) -> list[Preference]:
    """Who prefers what ``like`` has over ``opposite`` in this judge's eyes."""
    rng, rows = random.Random(7), []
    sides = [turn("assistant", " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))) for _ in range(2 * count)]
    prompts = [turn("user", f"Question {number}") for number in range(count)]
    vectors = reader.responses([(prompts[place // 2], side) for place, side in enumerate(sides)])
    scores = vectors @ added_up(reader.criterion_vectors([like, opposite]), [1, -1])
    for number, gap in enumerate((scores[::2] - scores[1::2]).tolist()):
        winner = "tie" if abs(gap) < 0.05 else "a" if gap > 0 else "b"
        rows.append(Preference(str(number), prompts[number], *sides[2 * number : 2 * number + 2], winner=winner))
    return rows


@pytest.mark.parametrize(("entry", "turned"), [(0, False), (1, True), (2, False)])
def test_the_criterion_that_was_followed_comes_first_with_its_side(
    reader: LateReader, entry: int, turned: bool
) -> None:
    sides = (POOL[entry].like, POOL[entry].opposite)
    rows = voted(reader, *(sides[::-1] if turned else sides), count=80)
    found = taste_of(rows, reader, POOL)
    assert found.criteria[0].text == sides[turned]
    assert found.criteria[0].low > 0
    assert (found.votes, found.unread) == (80, 0)
    assert found.asked == sum(row.winner != "tie" for row in rows)
    assert found.agreed > 0.85 * found.asked


@pytest.mark.parametrize(
    ("weight", "votes", "files", "least", "most"),
    [(0.0, 60, 60, 0, 5), (2.0, 30, 15, 8, 15), (2.0, 60, 15, 14, 15), (2.0, 160, 15, 15, 15)],
)
def test_a_coin_has_no_taste_and_a_taste_is_found(weight: float, votes: int, files: int, least: int, most: int) -> None:
    """In most files, by 12 criteria that go together; limits hold after the choice of criteria."""
    pool, found = tuple(PoolEntry(str(k), f"more {k}", f"less {k}") for k in range(12)), []
    for seed in range(files):
        rng = np.random.default_rng(seed)
        gaps = rng.standard_t(3, size=(votes, 12)) + rng.normal(size=(votes, 1))
        gaps /= np.sqrt((gaps**2).mean(axis=0))
        choices = np.where(rng.random(votes) < 0.025 + 0.95 * expit(weight * gaps[:, 4]), 0, 2)
        found.append(taste(Evidence(gaps, choices, np.zeros(gaps.shape), np.full(votes, -1)), pool))
    first = [one.criteria[0] for one in found if one.criteria]
    assert least <= len(first) <= most
    assert all(one.low > 0 for each in found for one in each.criteria)
    assert all(each.more is None or each.more >= 10 for each in found if not each.criteria)
    if weight:
        held = [one.text == "more 4" and one.low <= weight <= one.high for one in first]
        assert np.mean(held) > 0.7 and max(len(each.criteria) for each in found) <= 2


def test_votes_that_are_too_long_are_counted_and_all_of_them_are_refused(reader: LateReader) -> None:
    rows = voted(reader, POOL[0].like, POOL[0].opposite, count=6)
    long = [
        Preference(f"l{n}", turn("user", "?"), turn("assistant", "word " * 400), turn("assistant", "no"), winner="a")
        for n in range(2)
    ]
    assert taste_of(rows + long, reader, POOL).unread == 2
    with pytest.raises(ValueError, match="votes: none of 2 could be read"):
        taste_of(long, reader, POOL)


def test_only_what_matters_is_put_into_words() -> None:
    posterior = Posterior(np.array([-1.2, 0.2, 0.9]), np.diag([0.04, 0.0001, 4.0]))
    (one,) = weighted_criteria(posterior, POOL)
    assert one.text == "Hates rain"
    assert (one.weight, one.low, one.high) == pytest.approx((1.2, 1.2 - 0.392, 1.2 + 0.392), abs=1e-3)


def scores(seed: int, criteria: int = 3, queries: int = 40, models: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(criteria, queries, models)).astype(np.float32)


def test_a_pair_differs_by_one_in_the_mean_square() -> None:
    found = contrasts(7 * scores(1), scores(2))
    gaps = [found.values[:, one] - found.values[:, other] for one in range(5) for other in range(one)]
    np.testing.assert_allclose(np.square(gaps).mean(axis=(0, 1)), 1, rtol=1e-6)
    raw = (7 * scores(1).astype(float) - scores(2)).transpose(1, 2, 0) / 2
    np.testing.assert_allclose(found.values * found.units, raw, rtol=1e-5)
    np.testing.assert_allclose(found.difference(3, 0, 4), found.values[3, 0] - found.values[3, 4])


def test_a_criterion_in_which_nothing_differs_is_zero_and_what_was_not_read_is_nan() -> None:
    likes, opposites = scores(1), scores(2)
    likes[1] = opposites[1] = 3.0
    likes[:, 4, 2] = np.nan
    found = contrasts(likes, opposites)
    assert np.isnan(found.values[4, 2, [0, 2]]).all() and np.isnan(found.values[4, 2, 1])
    assert (np.delete(found.values[..., 1], 4, axis=0) == 0).all()
    pairs = found.pairs(4000, np.random.default_rng(0))
    assert 3000 < len(pairs) < 4000
    assert not ((pairs[:, 0] == 4) & ((pairs[:, 1] == 2) | (pairs[:, 2] == 2))).any()
    assert (pairs[:, 1] != pairs[:, 2]).all()


def test_what_was_typed_takes_the_place_of_what_is_alike_or_the_opposite() -> None:
    pool = contrasts(scores(1), scores(2))
    typed = contrasts(-2 * scores(1)[1:2], -2 * scores(2)[1:2])
    both, kept = joined(typed, pool)
    assert kept.tolist() == [0, 2]
    np.testing.assert_allclose(both.values[..., 0], -pool.values[..., 1], atol=1e-5)
    np.testing.assert_array_equal(both.values[..., 1:], pool.values[..., [0, 2]])
    assert both.units.shape == (3,)
    assert both.units[0] == pytest.approx(2 * pool.units[1], rel=1e-5)
