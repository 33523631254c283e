"""The best of k by a judge that only compares. In: candidates of queries. Out: how likely each is the pick, and cycles.

Up to `ROUND_ROBIN` candidates all pairs are read. Of every subset of k the one with the highest mean log-odds against
the others of the subset is picked, so that the estimate is exact, as for scores. More candidates play a knockout in a
drawn order: at most n - 1 pairs. Its winner after j rounds is the best of a block of 2^j, and the blocks of a round are
subsets that do not overlap: their mean is unbiased for k = 2^j, and other k have no value.

A pair that was not read in both orders has no winner, and a block without one is left out; both are counted.
Letters: Q queries, K values of k, n candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from crm.io.draws import generator
from crm.rewards.best_of_n.estimator import Floats
from crm.rewards.scoring import Group, Pair, Reward, Rewards

ROUND_ROBIN = 8
"""Candidates of which all pairs are read: 28 of 8."""


@dataclass(frozen=True)
class Selection:
    """``picked`` (Q, K, n) are probabilities, NaN where nothing is known; of all ``pairs`` some were not read."""

    picked: Floats
    pairs: int
    unread_pairs: int


def round_robin(
    rewards: Rewards, groups: Sequence[Group], known: Floats, ks: Sequence[int]
) -> tuple[Floats, Selection]:
    """The duels (`read_duels`) and what follows; ``known`` (Q, n) has a number where there is a candidate, else NaN."""
    duels = read_duels(rewards, groups, known)
    counts = (~np.isnan(known)).sum(axis=1)
    pairs, read = int(counts @ (counts - 1)) // 2, int((~np.isnan(duels)).sum()) // 2
    return duels, Selection(best_of_duels(duels, known, ks), pairs, pairs - read)


def read_duels(rewards: Rewards, groups: Sequence[Group], known: Floats) -> Floats:
    """(Q, n, n) log-odds that the first of a pair is preferred to the second; NaN on the diagonal and where unread."""
    duels = np.full((*known.shape, known.shape[1]), np.nan)
    asked = [
        (place, int(a), int(b))
        for place, row in enumerate(known)
        for a, b in combinations(np.flatnonzero(~np.isnan(row)), 2)
    ]
    logits = rewards.of_pairs([Pair(groups[place], a, b) for place, a, b in asked])
    for (place, a, b), logit in zip(asked, logits, strict=True):
        if logit is not None:
            duels[place, a, b], duels[place, b, a] = logit, -logit
    return duels


def best_of_duels(duels: Floats, known: Floats, ks: Sequence[int]) -> Floats:
    """(Q, K, n) over all subsets of k: who has the highest mean of its read duels within the subset; equals share.

    A subset of several in which no pair was read is left out.
    """
    there = ~np.isnan(known)
    picked = np.full((len(known), len(ks), known.shape[1]), np.nan)
    for place, k in enumerate(ks):
        total, subsets = np.zeros(known.shape), np.zeros(len(known))
        for members in map(list, combinations(range(known.shape[1]), k)):
            shares = _winners(duels[:, members][:, :, members])
            told = there[:, members].all(axis=1) & ~np.isnan(shares[:, 0])
            total[:, members] += np.where(told[:, None], shares, 0)
            subsets += told
        with np.errstate(invalid="ignore"):
            picked[:, place] = total / subsets[:, None]
    return picked


def _winners(duels: Floats) -> Floats:
    """(Q, k) shares of the win among k, of their duels (Q, k, k); one alone wins; NaN where no pair was read."""
    if duels.shape[1] == 1:
        return np.ones(duels.shape[:2])
    read = ~np.isnan(duels)
    with np.errstate(invalid="ignore"):
        means = np.where(read, duels, 0).sum(axis=2) / read.sum(axis=2)
    best = np.max(means, axis=1, initial=-np.inf, where=~np.isnan(means), keepdims=True)
    top = (means == best).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return np.asarray(top / top.sum(axis=1, keepdims=True))


def cycle_rate(duels: Floats) -> Floats:
    """(Q,) share of read triples with a > b > c > a; a duel of exactly 0 closes no circle."""
    wins = np.where(np.isnan(duels), np.nan, duels > 0)
    rates = np.full(len(duels), np.nan)
    triples = list(combinations(range(duels.shape[1]), 3))
    if not triples:
        return rates
    a, b, c = np.array(triples).T
    one, other = (wins[:, x, y] + wins[:, y, z] + wins[:, z, x] for x, y, z in ((a, b, c), (c, b, a)))
    read = ~np.isnan(one)
    told = read.any(axis=1)
    circles = ((one == 3) | (other == 3)).sum(axis=1)
    rates[told] = circles[told] / read[told].sum(axis=1)
    return rates


def knockout(
    rewards: Rewards, groups: Sequence[Group], known: Floats, ks: Sequence[int], *, names: Sequence[str], seed: int
) -> Selection:
    """Rounds in which the winners of neighbouring blocks meet; a block that has no neighbour has played its last.

    The order of a query's candidates depends on ``seed`` and the query's name: those who are told different criteria
    meet the same blocks.
    """
    blocks: list[list[int | None]] = []
    for name, row in zip(names, known, strict=True):
        order: list[int | None] = [int(place) for place in np.flatnonzero(~np.isnan(row))]
        generator(seed, 0, name, "knockout").shuffle(order)
        blocks.append(order)
    picked = np.full((len(known), len(ks), known.shape[1]), np.nan)
    pairs = unread = 0
    size = 1
    while any(blocks):
        if size in ks:
            _note(picked[:, list(ks).index(size)], blocks)
        blocks, asked, failed = _round(rewards, groups, blocks, seed)
        pairs, unread, size = pairs + asked, unread + failed, 2 * size
    return Selection(picked, pairs, unread)


def _note(picked: Floats, blocks: Sequence[Sequence[int | None]]) -> None:
    """Shares of the win among the blocks of a query, written into ``picked`` (Q, n)."""
    for row, own in zip(picked, blocks, strict=True):
        winners = [winner for winner in own if winner is not None]
        if winners:
            row[:] = np.bincount(winners, minlength=len(row)) / len(winners)


def _round(
    rewards: Rewards, groups: Sequence[Group], blocks: Sequence[Sequence[int | None]], seed: int
) -> tuple[list[list[int | None]], int, int]:
    """The winners of the blocks joined in twos, how many pairs were asked for, and how many were not read."""
    meeting = [list(zip(own[::2], own[1::2], strict=False)) for own in blocks]
    asked = [(place, a, b) for place, own in enumerate(meeting) for a, b in own if a is not None and b is not None]
    logits = rewards.of_pairs([Pair(groups[place], a, b) for place, a, b in asked])
    won = {(place, a, b): _winner(a, b, logit, seed) for (place, a, b), logit in zip(asked, logits, strict=True)}
    winners = [
        [None if a is None or b is None else won[place, a, b] for a, b in own] for place, own in enumerate(meeting)
    ]
    return winners, len(asked), sum(logit is None for logit in logits)


def _winner(a: int, b: int, logit: Reward, seed: int) -> int | None:
    """An exact tie is drawn."""
    if logit == 0:
        return generator(seed, 0, f"{a} {b}", "tie").choice((a, b))
    return None if logit is None else a if logit > 0 else b
