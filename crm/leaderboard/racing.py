"""Win probabilities, portion by portion, in; out: which models are surely in or surely out of the top k, and when.

Letters: T queries read so far of N, M models. All models answer the same queries, so pairs are compared query by query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from crm.io.draws import generator
from crm.report.statistics import Floats

Flags = npt.NDArray[np.bool_]
Membership = Literal["in", "out", "open"]

LOOKS = 20
"""Portions of a large bank: a model is read on up to one twentieth of the queries more than it takes to settle it."""
SMALLEST_PORTION = 8
"""Queries; smaller portions fill no batch."""
_STAKE = 0.75
"""Largest share of the capital that one query may cost. Any value below 1 is valid; this one decides early."""


@dataclass(frozen=True)
class Standing:
    """How a race ended: the top ``top`` models over ``queries`` queries, right with probability ``confidence``.

    ``verdicts`` names every model; ``open`` is one that all queries could not tell from another at the edge: a tie.
    The claim is about the order that reading all ``queries`` would give, not about queries beyond the bank.
    """

    top: int
    confidence: float
    queries: int
    verdicts: Mapping[str, Membership]

    def models(self, verdict: Membership) -> list[str]:
        """The models of one verdict, sorted."""
        return sorted(name for name, given in self.verdicts.items() if given == verdict)


def race(
    models: Sequence[str],
    queries: Sequence[str],
    read: Callable[[Sequence[str], Sequence[str]], Floats],
    *,
    top: int,
    confidence: float,
    seed: int,
) -> Standing:
    """Read queries in an order drawn from ``seed``, in portions, until the top ``top`` of the models is known.

    ``read(open models, portion of queries)`` gives their win probabilities, (queries, models), all in [0, 1]; it is
    not asked about a model again once that is settled. Raises ``ValueError`` unless 1 <= top < M and
    0 < confidence < 1.
    """
    if not 1 <= top < len(models):
        raise ValueError(f"top={top}: {len(models)} models take part, expected 1 to {len(models) - 1}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence}: expected a probability between 0 and 1, such as 0.95")
    order = sorted(queries, key=lambda name: (generator(seed, 0, name, "race").random(), name))
    # A wrong set needs an error between a model of the true top k and one below it: k (M - k) pairs, not all.
    level = (1 - confidence) / (top * (len(models) - top))
    table = np.empty((len(order), len(models)))
    verdicts: list[Membership] = ["open"] * len(models)
    portion = max(SMALLEST_PORTION, -(-len(order) // LOOKS))
    for start in range(0, len(order), portion):
        left = [index for index, verdict in enumerate(verdicts) if verdict == "open"]
        if not left:
            break
        part = order[start : start + portion]
        table[start : start + len(part), left] = read([models[index] for index in left], part)
        better = surely_better(table[: start + len(part), left], len(order), level)
        found = settle(better, top - verdicts.count("in"))
        for index, verdict in zip(left, found, strict=True):
            verdicts[index] = verdict
    return Standing(top, confidence, len(order), dict(zip(models, verdicts, strict=True)))


def surely_better(wins: Floats, total: int, level: float) -> Flags:
    """Pairs (M, M): does the row's model have the higher mean over all ``total`` queries than the column's?

    ``wins`` (T, M) in [0, 1] are the queries read so far, in a random order without replacement. A pair whose true
    means are equal or the other way round is called with probability ``level`` at most over **all** T together.
    At T = ``total`` the means themselves answer.
    """
    difference = wins[:, :, None] - wins[:, None, :]
    lead = difference.sum(axis=0)
    # What is left cannot turn this lead; at the end, any lead. The margin is for rounding: equal means are no lead.
    beyond_doubt = lead > total - len(wins) + 1e-9 * total
    if len(wins) == total:
        return np.asarray(beyond_doubt)
    called = beyond_doubt | (log_capital(difference, total).max(axis=0) >= -np.log(level))
    return np.asarray(called & ~called.T)


def log_capital(difference: Floats, total: int) -> Floats:
    """Logarithm of what a bet on "the mean over all ``total`` queries is above 0" has made of 1, after each query.

    ``difference`` (T, ...) in [-1, 1] are the first T of ``total`` values in a random order; same shape out. If the
    mean is 0 or less, the capital is a nonnegative supermartingale, and ever reaches 1 / level with probability level
    at most (Ville's inequality): the values that such bets do not reject are a confidence sequence of the mean.

    Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting, J. R. Stat. Soc. B 86:1,
    section 5, sampling without replacement: prod over t of 1 + l_t (d_t - m_t), where
    m_t = -(d_1 + ... + d_(t-1)) / (N - t + 1) is the mean of what is left if the mean of all is 0, and the stake
    l_t in [0, 1 / (1 + m_t)) knows the earlier values only. Stakes are approximate GRAPA: expected gain over second
    moment. A null that has become impossible (m_t < -1) keeps its last capital, up to a loss.
    """
    index = np.arange(len(difference)).reshape(-1, *(1,) * (difference.ndim - 1))
    before = np.cumsum(difference, axis=0) - difference
    null = -before / (total - index)
    mean = before / (index + 1)
    # One made-up query of variance 1, the largest there is, stands in while nothing is known.
    spread = (np.cumsum(difference**2, axis=0) - difference**2 + 1) / (index + 1) - mean**2
    excess = mean - null
    stake = np.clip(excess / (spread + excess**2), 0, _STAKE / np.maximum(1 + null, 1e-9))
    return np.asarray(np.cumsum(np.log1p(np.maximum(stake * (difference - null), -_STAKE)), axis=0))


def settle(better: Flags, slots: int) -> list[Membership]:
    """Verdicts of M models of which ``slots`` are in the top, from the pairs (M, M) that are told apart.

    In: better than all but the slots; out: ``slots`` models are better. What is settled leaves, and the rest is asked
    again with the slots that remain.
    """
    verdicts: list[Membership] = ["open"] * len(better)
    left = np.arange(len(better))
    while len(left):
        pairs = better[np.ix_(left, left)]
        inside = pairs.sum(axis=1) >= len(left) - slots
        outside = pairs.sum(axis=0) >= slots
        # Pairs that contradict one another could name too many; more queries will tell.
        if not (inside | outside).any() or inside.sum() > slots or (inside & outside).any():
            break
        for index in left[inside]:
            verdicts[index] = "in"
        for index in left[outside]:
            verdicts[index] = "out"
        slots -= int(inside.sum())
        left = left[~(inside | outside)]
    return verdicts
