"""A person picks: the same question for the same picks, a ranking that gets right, noise that stays undecided."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import kendalltau

from crm.picking.criteria import Contrasts, contrasts
from crm.picking.posterior import CHOICES, expected_tau, probabilities, win_rates
from crm.picking.session import Pick, Session, expected_information
from crm.report.statistics import Floats

CRITERIA = 6


@pytest.fixture(scope="module")
def bank() -> Contrasts:
    """60 queries, 7 models with leanings of their own."""
    rng = np.random.default_rng(5)
    leaning = rng.normal(size=(CRITERIA, 1, 7))
    likes = (leaning + rng.normal(size=(CRITERIA, 60, 7))).astype(np.float32)
    return contrasts(likes, np.zeros_like(likes))


def go(bank: Contrasts, weights: Floats, count: int, seed: int, **given: object) -> Session:
    """Somebody with these weights, who tells why."""
    rng = np.random.default_rng(seed)
    session = Session(bank, 0, (False,) * CRITERIA, (), seed, **given)  # type: ignore[arg-type]
    for _ in range(count):
        pair = session.next_pair()
        gap = bank.difference(pair.query, pair.left, pair.right)
        choice = CHOICES[int(rng.choice(3, p=probabilities(np.asarray(gap @ weights))))]
        offered = session.reasons(pair)
        spoken = gap * weights * {"left": 1, "same": 0, "right": -1}[choice]
        best = max(offered, key=lambda place: float(spoken[place]), default=None)
        reason = best if best is not None and spoken[best] > 0 else None
        session = replace(session, picks=(*session.picks, Pick(pair, choice, offered, reason)))
    return session


def test_the_same_picks_have_the_same_next_pair_and_no_pair_comes_twice(bank: Contrasts) -> None:
    one, other = (go(bank, np.array([2.0, 0, 0, 0, 0, 0]), 12, 3) for _ in range(2))
    assert one.picks == other.picks and one.next_pair() == other.next_pair()
    shown = [(pick.pair.query, frozenset((pick.pair.left, pick.pair.right))) for pick in one.picks]
    assert len(set(shown)) == len(shown)
    assert replace(one, seed=4).next_pair() != one.next_pair()


def test_the_ranking_comes_to_be_the_persons_own(bank: Contrasts) -> None:
    weights = np.array([0, 2.0, 0, 0, -1.5, 0])
    truth = win_rates(bank, weights[None], 0)[0][0]
    before, after = (
        np.mean([kendalltau(go(bank, weights, count, seed).ranking.mean, truth).statistic for seed in range(4)])
        for count in (0, 20)
    )
    assert after > 0.8 > 0.5 > before


def test_what_was_typed_is_believed_before_any_pick_and_can_be_overruled(bank: Contrasts) -> None:
    typed = (True, *(False,) * (CRITERIA - 1))
    session = Session(bank, 0, typed)
    truth = win_rates(bank, np.eye(CRITERIA)[:1], 0)[0][0]
    assert kendalltau(session.ranking.mean, truth).statistic > 0.9
    against = replace(go(bank, np.array([-3.0, 0, 0, 0, 0, 0]), 25, 1), typed=typed)
    assert against.posterior.mean[0] < 0


@pytest.mark.parametrize("read", [0, 1])
def test_a_question_to_which_too_few_answers_were_read_costs_no_criterion(read: int) -> None:
    likes = np.random.default_rng(0).normal(size=(2, 5, 4)).astype(np.float32)
    likes[0, 0, read:] = np.nan
    found = contrasts(likes, -likes)
    assert found.units[0] == pytest.approx(contrasts(likes[:, 1:], -likes[:, 1:]).units[0])
    assert np.isfinite(found.values[1:]).all() and found.values[1:].any(axis=(0, 1)).all()


def test_win_rates_and_their_intervals_are_those_of_sigmoids(bank: Contrasts) -> None:
    weights = np.array([[1.0, 0, -1, 0, 0, 0], [0, 0.5, 0, 0, 0, 0]])
    rates, errors = win_rates(bank, weights, 2)
    for draw in range(2):
        wins = expit((bank.values - bank.values[:, [2]]) @ weights[draw])
        np.testing.assert_allclose(rates[draw], wins.mean(axis=0))
        np.testing.assert_allclose(errors[draw], wins.std(axis=0, ddof=1) / np.sqrt(60))
    assert rates[0, 2] == 0.5
    session = go(bank, np.array([2.0, 0, 0, 0, 0, 0]), 15, 2)
    low, high = session.ranking.interval
    assert (low <= session.ranking.mean).all() and (session.ranking.mean <= high).all()


def test_expected_tau_is_the_mean_over_pairs_of_rankings() -> None:
    rates = np.random.default_rng(1).normal(size=(5, 6))
    expected = np.mean([kendalltau(rates[i], rates[j]).statistic for i in range(5) for j in range(i)])
    assert expected_tau(rates) == pytest.approx(expected)
    assert expected_tau(np.repeat(rates[:1], 4, axis=0)) == pytest.approx(1)


def test_information_is_by_enumeration_what_an_answer_tells() -> None:
    rng = np.random.default_rng(2)
    gaps, weights = rng.normal(size=(3, 2)), rng.normal(size=(4, 2))
    for gap, found in zip(gaps, expected_information(gaps, weights), strict=True):
        joint = np.array([probabilities(np.asarray(gap @ one)) / 4 for one in weights])
        apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
        assert found == pytest.approx(float((joint * np.log(joint / apart)).sum()))


def test_pairs_are_drawn_at_random_now_and_then_and_the_judge_is_measured_on_them(bank: Contrasts) -> None:
    sessions = [go(bank, np.array([3.0, 0, 0, 0, 0, 0]), 20, seed) for seed in range(4)]
    drawn = [pick.pair.random for session in sessions for pick in session.picks]
    assert 0.02 < np.mean(drawn) < 0.25
    every = [session.agreement(random_only=False) for session in sessions]
    agreed, asked = np.sum(every, axis=0)
    assert asked == sum(pick.choice != "same" for session in sessions for pick in session.picks)
    assert agreed / asked > 0.7
    noise = np.sum([go(bank, np.zeros(6), 20, seed).agreement(random_only=False) for seed in range(4)], axis=0)
    assert 0.3 < noise[0] / noise[1] < 0.65
