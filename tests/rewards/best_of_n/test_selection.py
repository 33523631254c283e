"""Round robin against enumeration, knockout against a plain tournament; what is not read is left out and counted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from crm.rewards.best_of_n.estimator import best_of_k
from crm.rewards.best_of_n.selection import best_of_duels, cycle_rate, knockout, read_duels, round_robin

from crm.rewards.scoring import Group, Pair, Reward
from tests.conftest import say

NAN = float("nan")


class ByStrength:
    """Rewards of pairs: the log-odds are the difference of two numbers in the responses, but for pairs that fail."""

    pointwise = False

    def __init__(self, fails: Sequence[set[int]] = ()) -> None:
        self.fails, self.asked = fails, 0

    def of_pairs(self, pairs: Sequence[Pair]) -> list[Reward]:
        self.asked += len(pairs)
        return [self._of(pair) for pair in pairs]

    def _of(self, pair: Pair) -> Reward:
        a, b = (int(pair.group.responses[place][0].content) for place in (pair.first, pair.second))
        return None if {a, b} in self.fails else float(a - b)


def group(*strengths: int) -> Group:
    return Group((), say("user: Who?"), tuple(say(f"assistant: {strength}") for strength in strengths))


def test_round_robin_by_strength_is_the_best_of_k() -> None:
    known, ks = np.zeros((2, 5)), (1, 2, 3, 5)
    known[1, 4] = NAN
    rewards = ByStrength()
    duels, chosen = round_robin(rewards, [group(4, 1, 5, 2, 3), group(2, 9, 7, 1, 0)], known, ks)  # type: ignore[arg-type]
    strengths = np.array([[4.0, 1, 5, 2, 3], [2.0, 9, 7, 1, NAN]])
    assert chosen.picked == pytest.approx(best_of_k(strengths, ks), nan_ok=True)
    assert (chosen.pairs, chosen.unread_pairs, rewards.asked) == (10 + 6, 0, 16)
    assert cycle_rate(duels).tolist() == [0, 0]


def test_of_a_subset_the_highest_mean_within_it_is_picked() -> None:
    """a beats b beats c beats a, by differing margins: another one leads each pair and the three."""
    duels = np.array([[[NAN, 3.0, -1.0], [-3.0, NAN, 2.0], [1.0, -2.0, NAN]]])
    picked = best_of_duels(duels, np.zeros((1, 3)), (1, 2, 3))[0]
    assert picked[1] == pytest.approx([1 / 3, 1 / 3, 1 / 3]) and picked[2].tolist() == [1, 0, 0]
    assert cycle_rate(duels).tolist() == [1.0]


def test_cycles_are_counted_over_triples_that_were_read() -> None:
    random = np.random.default_rng(3)
    upper = np.triu(random.choice([-1.0, 1.0, NAN], size=(6, 7, 7), p=[0.4, 0.4, 0.2]), 1)
    duels = np.where(np.isnan(upper), NAN, upper - np.nan_to_num(upper).transpose(0, 2, 1))
    duels = np.where(np.isnan(upper.transpose(0, 2, 1)), NAN, duels)
    duels[:, range(7), range(7)] = NAN
    for matrix, rate in zip(duels, cycle_rate(duels), strict=True):
        found = []
        for a, b, c in combinations(range(7), 3):
            outcomes = (matrix[a, b], matrix[b, c], matrix[c, a])
            if not np.isnan(outcomes).any():
                found.append(all(out > 0 for out in outcomes) or all(out < 0 for out in outcomes))
        assert rate == pytest.approx(np.mean(found))
    assert np.isnan(cycle_rate(np.full((1, 2, 2), NAN))).all()


def test_a_pair_that_was_not_read_leaves_out_its_subset_of_two() -> None:
    _, chosen = round_robin(ByStrength([{1, 2}]), [group(1, 2, 3)], np.zeros((1, 3)), (2, 3))  # type: ignore[arg-type]
    assert chosen.picked[0].tolist() == [[0, 0, 1], [0, 0, 1]] and chosen.unread_pairs == 1


def test_a_knockout_asks_for_one_pair_less_than_there_are_candidates() -> None:
    rewards, strengths = ByStrength(), list(range(16))
    chosen = knockout(rewards, [group(*strengths)], np.zeros((1, 16)), (1, 2, 4, 8, 16), names=["q"], seed=1)  # type: ignore[arg-type]
    assert rewards.asked == chosen.pairs == 15 and chosen.unread_pairs == 0
    assert chosen.picked.sum(axis=2).tolist() == [[1.0] * 5]
    assert [(row > 0).sum() for row in chosen.picked[0]] == [16, 8, 4, 2, 1]
    assert chosen.picked[0, -1, 15] == 1
    for more, fewer in zip(chosen.picked[0], chosen.picked[0][1:], strict=False):
        assert not ((fewer > 0) & (more == 0)).any(), "a winner of a round has won the one before"


def test_the_blocks_of_a_knockout_are_unbiased_for_their_size() -> None:
    """By strength a knockout of k ends with the best of k; over drawn orders its mean is that over all subsets."""
    strengths = np.array([[1.0, 8, 3, 5, 2, 7, 4, 6, 9, 0, 11]])
    ks = (1, 2, 4, 8)
    drawn = [
        knockout(ByStrength(), [group(*map(int, strengths[0]))], strengths, ks, names=["q"], seed=seed).picked[0]  # type: ignore[arg-type]
        for seed in range(600)
    ]
    error = np.std(drawn, axis=0) / 600**0.5
    assert (np.abs(np.mean(drawn, axis=0) - best_of_k(strengths, ks)[0]) <= 4.5 * error + 1e-9).all()


def test_a_block_without_a_winner_is_left_out_and_the_order_follows_seed_and_name() -> None:
    groups = [group(1, 2, 3, 4)]
    one, again = (
        knockout(ByStrength([{1, 4}]), groups, np.zeros((1, 4)), (2, 4), names=["q"], seed=2).picked  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert np.array_equal(one, again, equal_nan=True)
    seen = set()
    for seed in range(20):
        found = knockout(ByStrength([{1, 4}]), groups, np.zeros((1, 4)), (2, 4), names=["q"], seed=seed)  # type: ignore[arg-type]
        met = found.unread_pairs == 1
        assert np.isnan(found.picked[0, 1]).all() == met
        seen.add(met)
    assert seen == {True, False}


def test_duels_are_antisymmetric() -> None:
    duels = read_duels(ByStrength(), [group(3, 1, 2)], np.zeros((1, 3)))[0]  # type: ignore[arg-type]
    assert np.allclose(duels, -duels.T, equal_nan=True) and duels[0, 1] == 2
