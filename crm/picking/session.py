"""Somebody picks between answers until their ranking is known.

Nothing is kept between two calls: picks and a seed determine everything, so that a page, a server or a file can hold
them. The next pair has the largest expected information about the weights (BALD; Houlsby et al. 2011): how unsure the
answer is, less how unsure it would be if the weights were known. Letters: C pairs, S draws, K criteria.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import special

from crm.picking.criteria import Contrasts
from crm.picking.posterior import (
    CHOICES,
    SHARPNESS,
    Evidence,
    PersonalRanking,
    Posterior,
    expected_tau,
    fit,
    personal_ranking,
    probabilities,
)
from crm.report.statistics import Floats, Indices

CANDIDATES = 512
"""Pairs that the next one is chosen from."""
RANDOM_SHARE = 0.1
"""Of pairs that are drawn at random, so that how often the judge agrees is measured without bias."""
ENOUGH = 0.8
"""Expected Kendall's tau between two rankings that the person may have, from which no more is asked."""
LEAST_PICKS = 8
"""Fewer settle nothing, however sure what was typed before makes the ranking."""
MOST_PICKS = 25
FOLDS = 10
DRAWS = 64
REASONS = 5
"""Criteria that are offered as the reason of a pick."""
TYPED = 1.5
"""Prior mean of the weight of a criterion that the person typed and that counts 1, in log-odds for one standard
deviation."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two responses of a bank to one query; places in its queries and models. ``random``: nobody chose it."""

    query: int
    left: int
    right: int
    random: bool = False


@dataclass(frozen=True, slots=True)
class Pick:
    """What somebody answered: ``choice`` of `CHOICES`; ``offered`` are criteria shown as reasons, ``reason`` the one
    that was taken, or None.
    """

    pair: Pair
    choice: str
    offered: tuple[int, ...] = ()
    reason: int | None = None


@dataclass(frozen=True)
class Session:
    """A person, their picks, and a bank. ``typed`` (K,): how much each criterion counts that they typed before; else 0.

    ``adaptive=False`` draws every pair at random; ``reasons_offered``: whether people are asked why.
    """

    contrasts: Contrasts
    baseline: int
    typed: Sequence[float]
    picks: tuple[Pick, ...] = ()
    seed: int = 0
    adaptive: bool = True
    reasons_offered: bool = True

    @cached_property
    def evidence(self) -> Evidence:
        """The picks as arrays."""
        size = len(self.typed)
        gaps = [self.contrasts.difference(pick.pair.query, pick.pair.left, pick.pair.right) for pick in self.picks]
        shown = np.zeros((len(self.picks), size))
        for row, pick in enumerate(self.picks):
            shown[row, list(pick.offered)] = 1.0
        return Evidence(
            np.array(gaps).reshape(len(self.picks), size),
            np.array([CHOICES.index(pick.choice) for pick in self.picks], dtype=np.int64),
            shown,
            np.array([-1 if pick.reason is None else pick.reason for pick in self.picks], dtype=np.int64),
        )

    @cached_property
    def posterior(self) -> Posterior:
        """Of the weights (K,)."""
        return fit(self.evidence, self._prior)

    @property
    def _prior(self) -> Floats:
        return TYPED * np.array(self.typed, dtype=np.float64)

    @cached_property
    def ranking(self) -> PersonalRanking:
        """Of all models, over what the weights may be."""
        return personal_ranking(self.contrasts, self.posterior, self.baseline, self._random("ranking"))

    @cached_property
    def settled(self) -> float:
        """Expected tau of two rankings that this person may have, in [-1, 1]."""
        return expected_tau(self.ranking.by_weights)

    @property
    def decided(self) -> bool:
        """Whether what was picked settles the ranking."""
        return len(self.picks) >= LEAST_PICKS and self.settled >= ENOUGH

    @cached_property
    def ended(self) -> bool:
        """Nothing more is asked: decided, or undecided between `PersonalRanking.maybe_first` after `MOST_PICKS` or all
        pairs."""
        if self.decided or len(self.picks) >= MOST_PICKS:
            return True
        return bool(self.picks) and not len(self._fresh(self._random("pair")))

    def _fresh(self, rng: np.random.Generator) -> Indices:
        """(C, 3) pairs that differ and were not shown."""
        shown = {(pick.pair.query, frozenset((pick.pair.left, pick.pair.right))) for pick in self.picks}
        drawn = self.contrasts.pairs(CANDIDATES, rng)
        fresh = [(query, frozenset(sides)) not in shown for query, *sides in drawn.tolist()]
        return np.asarray(drawn[np.array(fresh, dtype=np.bool_)])

    def next_pair(self) -> Pair:
        """What to show next; sides are random. Raises ``ValueError`` where no two responses differ."""
        rng = self._random("pair")
        pairs = self._fresh(rng)
        if not len(pairs):
            raise ValueError("pool: no two responses of this bank differ in any of its criteria; name others")
        at_random = not self.adaptive or bool(rng.random() < RANDOM_SHARE)
        place = 0
        if not at_random:
            gaps, weights = self.contrasts.difference(*pairs.T), self.posterior.draw_far(DRAWS, rng)
            expected = expected_information(gaps, weights)
            if self.reasons_offered:
                expected = expected + information_of_reasons(gaps, weights, offered(gaps, self.posterior))
            place = int(np.argmax(expected))
        query, left, right = pairs[place].tolist()
        return Pair(query, left, right, at_random)

    def reasons(self, pair: Pair) -> tuple[int, ...]:
        """Criteria to offer once a side of ``pair`` was picked; none where people are not asked why."""
        if not self.reasons_offered:
            return ()
        gap = self.contrasts.difference(pair.query, pair.left, pair.right)
        places = offered(gap[None], self.posterior)[0]
        return tuple(places[gap[places] != 0].tolist())

    def agreement(self) -> tuple[int, int]:
        """`foreseen` of pairs drawn at random: an unbiased estimate, as others were chosen because they are hard."""
        random = np.array([pick.pair.random for pick in self.picks], dtype=np.bool_)
        return foreseen(self.evidence, lambda others: fit(others, self._prior).mean, random)

    def _random(self, what: str) -> np.random.Generator:
        """Draws that depend on the seed, the number of picks and what they are for."""
        return np.random.default_rng([self.seed, len(self.picks), sum(map(ord, what))])


def foreseen(
    evidence: Evidence, learn: Callable[[Evidence], Floats], counted: npt.NDArray[np.bool_]
) -> tuple[int, int]:
    """Of how many ``counted`` (N,) picks of a side the side is predicted, and their number.

    Each is predicted by the weights that ``learn`` finds in `FOLDS` - 1 of as many parts, its own left out.
    """
    sides, predicted, every = 1 - evidence.choices, np.zeros(len(evidence)), np.arange(len(evidence))
    for fold in range(min(FOLDS, len(evidence))):
        own = every[fold::FOLDS]
        predicted[own] = np.sign(evidence.differences[own] @ learn(evidence.rows(np.delete(every, own))))
    asked = counted & (sides != 0)
    return int((predicted == sides)[asked].sum()), int(asked.sum())  # 0, no side, agrees with none


def expected_information(differences: Floats, weights: Floats) -> Floats:
    """(C,) nats that the answer to each pair (C, K) tells about the weights (S, K), with the usual band: that of the
    person, learned from few picks, chooses no better pairs.
    """
    chances = probabilities(differences @ weights.T)
    return np.asarray(special.entr(chances.mean(axis=1)).sum(axis=-1) - special.entr(chances).sum(axis=-1).mean(axis=1))


def information_of_reasons(differences: Floats, weights: Floats, places: Indices) -> Floats:
    """(C,) nats that the reason tells besides, where ``places`` (C, R) are offered once a side was picked."""
    gaps = np.take_along_axis(differences, places, axis=1)[:, None, :] * weights[:, places].transpose(1, 0, 2)
    sides = probabilities(differences @ weights.T)[..., (0, 2)]
    nats = np.zeros(len(differences))
    for side, sign in enumerate((1.0, -1.0)):
        spoken = SHARPNESS * sign * gaps
        chances = special.softmax(np.concatenate((spoken, np.zeros((*spoken.shape[:2], 1))), axis=2), axis=2)
        picked = sides[..., side]
        share = picked / picked.sum(axis=1, keepdims=True)
        mixed = special.entr((share[..., None] * chances).sum(axis=1)).sum(axis=1)
        nats += picked.mean(axis=1) * (mixed - (share * special.entr(chances).sum(axis=2)).sum(axis=1))
    return nats


def offered(differences: Floats, posterior: Posterior) -> Indices:
    """(C, R) places of at most `REASONS` criteria that may matter most in each pair (C, K), the likeliest first."""
    likely = np.abs(differences) * np.sqrt(posterior.mean**2 + np.diag(posterior.covariance))
    return np.asarray(np.argsort(-likely, axis=1, kind="stable")[:, :REASONS])
