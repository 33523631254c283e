"""The race to the top k: bets against every order of a small bank, a loop by hand, and thousands of simulated races."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from crm.leaderboard.racing import Standing, log_capital, race, settle, surely_better

Floats = npt.NDArray[np.float64]


def by_hand(values: Sequence[float], total: int) -> list[float]:
    """The capital in the paper's own terms: x in [0, 1], null mean 1/2, one query at a time."""
    capital, path = 1.0, []
    points: list[float] = []
    for value in values:
        left = total - len(points)
        m = (total / 2 - sum(points)) / left
        count = len(points) + 1
        mean = (sum(points) + 0.5) / count
        second = (sum((2 * x - 1) ** 2 for x in points) + 1) / count / 4
        gain = mean - m
        stake = min(max(gain / (second - (mean - 0.5) ** 2 + gain**2), 0.0), 0.75 / m)
        x = (value + 1) / 2
        capital *= 1 + stake * (x - m)
        points.append(x)
        path.append(capital)
    return path


def test_capital_equals_a_loop_in_the_papers_terms() -> None:
    values = np.random.default_rng(0).uniform(-0.7, 0.9, (30, 4))
    capital = np.exp(log_capital(values, 60))
    for column in range(4):
        assert capital[:, column] == pytest.approx(by_hand(values[:, column].tolist(), 60))


@pytest.mark.parametrize(
    "values", [(1, -1, 0.5, -0.5, 0, 0), (0.9, 0.9, -0.9, -0.9, 0.3, -0.3), (1, 1, 1, -1, -1, -1), (0.8, -1, 0.1, 0, 0)]
)
def test_over_every_order_a_true_null_earns_nothing(values: tuple[float, ...]) -> None:
    """Exact, not simulated: all orders of a bank are equally likely, so the mean over them is the expectation."""
    orders = np.array(list(itertools.permutations(values)), dtype=np.float64).T
    capital = np.exp(log_capital(orders, len(values)))
    assert (capital.mean(axis=1) <= 1 + 1e-9).all()
    for level in (0.5, 0.25, 0.1):
        assert (capital.max(axis=0) >= 1 / level).mean() <= level


def simulated(generator: np.random.Generator, races: int, queries: int, models: int, kind: str) -> Floats:
    """Win probabilities (queries, races, models) in random order, hard or soft; neighbours nearly tied."""
    shared = generator.normal(0, 1, (queries, races, 1))
    logit = shared + generator.normal(0, 1, (queries, races, models)) + 0.05 * np.arange(models)
    return (logit > 0).astype(np.float64) if kind == "hard" else 1 / (1 + np.exp(-logit))


@pytest.mark.parametrize(("models", "top", "kind"), [(2, 1, "hard"), (5, 2, "soft"), (5, 2, "hard")])
def test_wrong_sets_are_rarer_than_promised_at_every_stopping_time(models: int, top: int, kind: str) -> None:
    """2,000 races. A set can be wrong only if a pair across the edge is called the wrong way, at whatever query."""
    generator, alpha, queries = np.random.default_rng(1), 0.05, 60
    level = alpha / (top * (models - top))
    wrong = naive = races = 0
    for _ in range(4):
        wins = simulated(generator, 500, queries, models, kind)
        lead = wins[..., :, None] - wins[..., None, :]
        true = wins.mean(axis=0)
        edge = np.sort(true, axis=1)[:, -top]
        inside = true >= edge[:, None]
        across = ~inside[:, :, None] & inside[:, None, :] & (lead.mean(axis=0) < -1e-12)
        called = (log_capital(lead, queries) >= -np.log(level)).any(axis=0)
        wrong += int((called & across).any(axis=(1, 2)).sum())
        count = np.arange(1, queries + 1)[:, None, None, None]
        mean = np.cumsum(lead, axis=0) / count
        error = np.sqrt(np.maximum(np.cumsum(lead**2, axis=0) / count - mean**2, 1e-9) / count)
        naive += int((((mean > 1.96 * error) & (count >= 8)).any(axis=0) & across).any(axis=(1, 2)).sum())
        races += 500
    assert wrong / races <= alpha
    assert naive / races > alpha / 2 > wrong / races, "a t-test looked at after every query is misled by these banks"


def names(count: int) -> list[str]:
    return [f"m{index}" for index in range(count)]


def run_race(wins: Floats, top: int, seed: int = 0) -> tuple[Standing, Floats]:
    """A race over a table (queries, models); the standing, and how many queries each model was read on."""
    read = np.zeros(wins.shape[1])

    def reader(models: Sequence[str], queries: Sequence[str]) -> Floats:
        columns = [int(name[1:]) for name in models]
        read[columns] += len(queries)
        return np.asarray(wins[np.ix_([int(name) for name in queries], columns)])

    queries = [str(index) for index in range(len(wins))]
    return race(names(wins.shape[1]), queries, reader, top=top, confidence=0.95, seed=seed), read


def test_clear_leaders_are_found_early_and_the_losers_are_left_alone() -> None:
    generator = np.random.default_rng(0)
    strengths = np.array([3.0, 1.5, 1.0, -1.5, -1.6, -3.0])
    wins = 1 / (1 + np.exp(-strengths - generator.normal(0, 0.5, (400, 6))))
    standing, read = run_race(wins, 3)
    assert (standing.models("in"), standing.models("out")) == (["m0", "m1", "m2"], ["m3", "m4", "m5"])
    assert standing.models("open") == [] and read.max() < 100
    assert (standing.top, standing.queries, standing.confidence) == (3, 400, 0.95)


def test_true_ties_at_the_edge_are_read_to_the_end_and_stay_open() -> None:
    """Of 100 orders; calling a tie is wrong in the promised share of races at most, one share for each direction."""
    column = np.random.default_rng(0).uniform(0, 1, 64)
    tied = np.stack([column, column[::-1], np.roll(column, 7), column * 0.1], axis=1)
    unsettled = 0
    for seed in range(100):
        standing, read = run_race(tied, 1, seed)
        assert "m3" in standing.models("out")
        unsettled += standing.models("open") == ["m0", "m1", "m2"] and read[:3].tolist() == [64, 64, 64]
    assert unsettled >= 90


def test_exhausted_races_end_with_the_true_order() -> None:
    for seed in range(30):
        wins = np.random.default_rng(seed).uniform(0, 1, (20, 5))
        standing, _ = run_race(wins, 2, seed)
        best = sorted(names(5), key=lambda name: -wins[:, int(name[1:])].mean())[:2]
        assert standing.models("in") == sorted(best) and not standing.models("open")


def test_a_lead_that_cannot_be_made_up_is_called() -> None:
    wins = np.array([[1.0, 0.0]] * 6)
    assert surely_better(wins, 11, 1e-9).tolist() == [[False, True], [False, False]]
    assert not surely_better(wins, 12, 1e-9).any()


def test_settling_by_hand() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[0, 1:] = True
    assert settle(better, 1) == ["in", "out", "out", "out"]
    assert settle(better, 2) == ["in", "open", "open", "open"]
    better[1:3, 3] = True
    assert settle(better, 2) == ["in", "open", "open", "out"]
    # With the first in and the last out, one slot is left for the two between: told apart, they settle.
    better[1, 2] = True
    assert settle(better, 2) == ["in", "in", "out", "out"]
    circle = np.roll(np.eye(3, dtype=bool), 1, axis=1)
    assert settle(circle, 2) == ["open"] * 3, "calls that contradict one another settle nothing"


def test_the_order_of_queries_is_the_seeds_alone() -> None:
    seen: list[list[str]] = []

    def reader(models: Sequence[str], queries: Sequence[str]) -> Floats:
        seen.append(list(queries))
        return np.full((len(queries), len(models)), 0.5)

    queries = [f"q{index}" for index in range(30)]
    for given, seed in ((queries, 1), (queries[::-1], 1), (queries, 2)):
        race(["a", "b"], given, reader, top=1, confidence=0.9, seed=seed)
    first, again, other = seen[:4], seen[4:8], seen[8:]
    assert first == again != other
    assert sorted(itertools.chain(*other)) == sorted(queries) and math.ceil(30 / 8) == len(other)


@pytest.mark.parametrize(("top", "confidence", "message"), [(0, 0.9, "top=0: 2"), (2, 0.9, "top=2: 2"), (1, 1, "=1: ")])
def test_what_cannot_be_raced_is_refused(top: int, confidence: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        race(["a", "b"], ["q"], lambda *_: np.zeros((1, 2)), top=top, confidence=confidence, seed=0)
