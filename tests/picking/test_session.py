"""A person picks: the posterior by hand and beside an optimizer, a ranking that gets right, noise that stays open."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from scipy.stats import kendalltau

from crm.picking.criteria import Contrasts, contrasts
from crm.picking.posterior import (
    CHOICES,
    LAPSES,
    RATE,
    SAME,
    SHAPE,
    SHARPNESS,
    Evidence,
    expected_tau,
    fit,
    information,
    log_likelihood,
    probabilities,
    reason_probabilities,
    win_rates,
)
from crm.picking.session import Pick, Session, expected_information, foreseen
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
    assert [session.agreement()[1] for session in sessions] == [
        sum(pick.pair.random and pick.choice != "same" for pick in session.picks) for session in sessions
    ]
    for weight, least, most in ((3.0, 0.7, 1.0), (0.0, 0.3, 0.65)):
        of = [go(bank, np.array([weight, 0, 0, 0, 0, 0]), 20, seed).evidence for seed in range(4)]
        found = [foreseen(one, lambda rows: fit(rows, np.zeros(6)).mean, np.full(20, True)) for one in of]
        agreed, asked = np.sum(found, axis=0)
        assert asked == sum((one.choices != 1).sum() for one in of)
        assert least < agreed / asked < most


def test_picks_of_a_coin_that_is_never_undecided_settle_nothing(bank: Contrasts) -> None:
    for seed in range(6):
        rng, session = np.random.default_rng(seed), Session(bank, 0, (0.0,) * CRITERIA, (), seed)
        while not session.ended:
            pick = Pick(session.next_pair(), str(rng.choice(["left", "right"])))
            session = replace(session, picks=(*session.picks, pick))
        assert not session.decided, seed


@pytest.fixture
def evidence() -> Evidence:
    """Six picks by four criteria; three reasons asked for, one of them declined, one after "same"."""
    rng = np.random.default_rng(3)
    shown = np.zeros((6, 4))
    shown[1, [0, 2]] = shown[3, [1, 2, 3]] = shown[4, [0, 1]] = 1
    reasons = np.array([-1, 2, -1, -1, -1, -1])
    return Evidence(rng.normal(size=(6, 4)), np.array([0, 2, 1, 0, 1, 2]), shown, reasons)


def test_probabilities_are_rao_and_kupper_with_lapses() -> None:
    left, same, right = probabilities(np.array(1.7))
    assert left == pytest.approx(LAPSES / 3 + (1 - LAPSES) * expit(1.7 - SAME))
    assert right == pytest.approx(LAPSES / 3 + (1 - LAPSES) * expit(-1.7 - SAME))
    assert left + same + right == pytest.approx(1)
    assert probabilities(np.array(0.0))[0] == probabilities(np.array(0.0))[2]
    assert probabilities(np.array(50.0)).min() == pytest.approx(LAPSES / 3), "nobody is ever certain"
    assert CHOICES[int(probabilities(np.array(0.0)).argmax())] == "same"


def test_a_reason_is_the_likelier_the_more_it_speaks_for_the_pick(evidence: Evidence) -> None:
    weights = np.array([0.5, -1.0, 2.0, 0.1])
    chances = reason_probabilities(weights, evidence)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    spoken = np.exp(-SHARPNESS * evidence.differences[1, [0, 2]] * weights[[0, 2]])  # the right answer was picked
    np.testing.assert_allclose(chances[1], [*(spoken[:1] / (1 + spoken.sum())), 0, spoken[1] / (1 + spoken.sum()), 0,
                                            1 / (1 + spoken.sum())])  # fmt: skip


def test_the_gradient_is_that_of_the_likelihood(evidence: Evidence) -> None:
    weights = np.array([0.3, -0.7, 1.1, 0.0])
    _, gradient = log_likelihood(weights, evidence)
    numeric = approx_fprime(weights, lambda at: log_likelihood(at, evidence)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


def test_information_is_the_mean_square_of_the_gradient_over_what_may_be_picked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every choice of one pair, and every reason, with their probabilities."""
    gap, weights = np.array([[0.8, -1.2, 0.4]]), np.array([0.9, 0.2, -0.5])
    shown = np.array([[1.0, 1.0, 0.0]])
    expected = np.zeros((3, 3))
    bands = [Evidence(gap, np.array([choice]), shown, np.array([-1])).band for choice in range(3)]
    assert bands[1] > SAME > bands[0] == bands[2]
    monkeypatch.setattr(Evidence, "band", SAME)
    for choice in range(3):
        for reason in (0, 1, -1):
            one = Evidence(gap, np.array([choice]), shown, np.array([reason]))
            chance = probabilities(gap[0] @ weights)[choice]
            if choice != CHOICES.index("same"):
                chance *= reason_probabilities(weights, one)[0, reason]
            elif reason != -1:
                continue
            _, gradient = log_likelihood(weights, one)
            expected += chance * np.outer(gradient, gradient)
    found = sum(
        probabilities(gap[0] @ weights)[choice]
        * (information(weights, Evidence(gap, np.array([choice]), shown, np.array([-1]))))
        for choice in range(3)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def picks(weights: Floats, count: int, seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    gaps = rng.normal(size=(count, len(weights)))
    chosen = np.array([rng.choice(3, p=chances) for chances in probabilities(gaps @ weights)])
    return Evidence(gaps, chosen, np.zeros(gaps.shape), np.full(count, -1))


def test_without_picks_it_is_what_was_typed() -> None:
    nothing = Evidence(np.zeros((0, 3)), np.zeros(0, dtype=int), np.zeros((0, 3)), np.zeros(0, dtype=int))
    found = fit(nothing, np.array([1.5, 0.0, 0.0]))
    np.testing.assert_array_equal(found.mean, [1.5, 0, 0])
    np.testing.assert_allclose(found.covariance, np.eye(3) * RATE / SHAPE)


def test_the_mean_is_the_most_probable_point_under_its_own_precisions() -> None:
    evidence, prior = picks(np.array([2.0, 0.0, -1.0]), 40, 1), np.array([0.0, 0.5, 0.0])
    found = fit(evidence, prior)
    spread = (found.mean - prior) ** 2 + np.diag(found.covariance)
    precision = (SHAPE + 0.5) / (RATE + spread / 2)

    def loss(weights: Floats) -> float:
        return 0.5 * float(precision @ (weights - prior) ** 2) - log_likelihood(weights, evidence)[0]

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    np.testing.assert_allclose(found.mean, best, atol=0.01)
    expected = np.linalg.inv(information(found.mean, evidence) + np.diag(precision))
    np.testing.assert_allclose(found.covariance, expected, rtol=0.02)


def test_sets_of_picks_mirror_and_have_no_order() -> None:
    """Whoever picks the other answer each time likes the opposite, and when a pick was made says nothing."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        evidence = picks(rng.normal(size=int(rng.integers(1, 6))), int(rng.integers(1, 40)), seed)
        nothing = np.zeros(evidence.differences.shape[1])
        found = fit(evidence, nothing)
        opposite = fit(Evidence(evidence.differences, 2 - evidence.choices, evidence.shown, evidence.reasons), nothing)
        np.testing.assert_allclose(opposite.mean, -found.mean, atol=1e-9)
        np.testing.assert_allclose(opposite.covariance, found.covariance, atol=1e-9)
        order = rng.permutation(len(evidence))
        shuffled = fit(evidence.rows(order), nothing)
        np.testing.assert_allclose(shuffled.mean, found.mean, atol=1e-9)
        assert (np.linalg.eigvalsh(found.covariance) > 0).all(), "something stays unknown in every direction"
