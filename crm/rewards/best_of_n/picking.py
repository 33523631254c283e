"""Who picks. In: a judge's rewards, candidates, gold. Out: `Picks` of the judge and of the controls beside it.

Controls: the judge *blind* (it is told the generic criterion), the judge told the *opposite* criteria, the longest
response, and gold itself (*oracle*). A random pick needs no drawing: it is what the best of 1 is, at every k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from rich.progress import track

from crm.io.words import count_words
from crm.rewards.best_of_n.candidates import Candidates, table
from crm.rewards.best_of_n.estimator import Floats, best_of_k, first_k, soft_best_of_k
from crm.rewards.best_of_n.gold import width
from crm.rewards.best_of_n.selection import ROUND_ROBIN, cycle_rate, knockout, round_robin
from crm.rewards.scoring import Reward, Rewards

PORTION = 1024
"""Responses that are read between two steps of the bar: all that is asked about a query stands in one portion."""
ToldTo = tuple[str, Sequence[tuple[str, ...] | None]]
"""A name, and the criteria told about each query: None where there are none to tell."""


@dataclass(frozen=True)
class Picks:
    """``picked`` (Q, K, n) are probabilities, NaN where nothing is known of a query.

    They rest on ``scores`` (Q, n), None where responses were only compared: ``cycles`` (Q,) are then the shares of
    triples that beat each other in a circle, NaN where not all pairs were read.
    """

    picked: Floats
    scores: Floats | None = None
    cycles: Floats | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def of_queries(self, places: slice) -> Picks:
        """Those of some queries; counts are of all."""
        scores, cycles = (None if one is None else one[places] for one in (self.scores, self.cycles))
        return Picks(self.picked[places], scores, cycles, self.counts)


def judges(
    rewards: Rewards,
    candidates: Sequence[Candidates],
    gold: Floats,
    ks: Sequence[int],
    *,
    seed: int,
    temperature: float = 0.0,
    in_order: bool = False,
    progress: bool = False,
) -> dict[str, Picks]:
    """Picks of the ``judge``, ``blind`` and told the ``opposite`` where some query has one.

    Of a judge that scores also ``judge, soft`` with a ``temperature`` above 0 (`soft_best_of_k`), and, where that is
    asked for (``in_order``), ``judge, first k``. Responses whose gold is NaN are not picked from.
    """
    told: list[ToldTo] = [("judge", [own.criteria for own in candidates])]
    if any(own.criteria for own in candidates):
        told.append(("blind", [() for _ in candidates]))
    if any(own.opposite for own in candidates):
        told.append(("opposite", [own.opposite or None for own in candidates]))
    if not rewards.pointwise:
        return {name: _by_pairs(rewards, candidates, asked, gold, ks, seed, progress) for name, asked in told}
    scores = _scores(rewards, candidates, told, progress)
    found = {name: _by_scores(own, gold, ks) for name, own in scores.items()}
    known = np.where(np.isnan(gold), np.nan, scores["judge"])
    if temperature:
        found["judge, soft"] = Picks(soft_best_of_k(known, ks, temperature=temperature, seed=seed), scores["judge"])
    if in_order:
        found["judge, first k"] = Picks(first_k(known, ks), scores["judge"])
    return found


def controls(candidates: Sequence[Candidates], gold: Floats, ks: Sequence[int]) -> dict[str, Picks]:
    """Picks of ``length`` (the most words), ``random`` and ``oracle`` (gold itself)."""
    found = {"length": words_of(candidates), "random": np.zeros_like(gold), "oracle": gold}
    return {name: _by_scores(scores, gold, ks) for name, scores in found.items()}


def words_of(candidates: Sequence[Candidates]) -> Floats:
    """(Q, n) words of each response."""
    return table([[float(count_words(text)) for text in own.responses] for own in candidates], width(candidates))


def _by_scores(scores: Floats, gold: Floats, ks: Sequence[int]) -> Picks:
    return Picks(best_of_k(np.where(np.isnan(gold), np.nan, scores), ks), scores)


def _scores(
    rewards: Rewards, candidates: Sequence[Candidates], told: Sequence[ToldTo], progress: bool
) -> dict[str, Floats]:
    """(Q, n) for each of ``told``; all that is asked about one query is read together, so that it is read once."""
    found: dict[str, list[Sequence[Reward]]] = {name: [()] * len(candidates) for name, _ in told}
    for places in track(_portions(candidates), "candidates, in portions", disable=not progress):
        asked = [
            (name, place, criteria)
            for name, of_queries in told
            for place in places
            if (criteria := of_queries[place]) is not None
        ]
        groups = [candidates[place].group(criteria) for _, place, criteria in asked]
        for (name, place, _), row in zip(asked, rewards.of_groups(groups), strict=True):
            found[name][place] = row
    return {name: table(rows, width(candidates)) for name, rows in found.items()}


def _portions(candidates: Sequence[Candidates]) -> list[list[int]]:
    """Places of queries; those with the same responses, for several users, stand in one portion."""
    by_text: dict[tuple[object, ...], list[int]] = {}
    for place, own in enumerate(candidates):
        by_text.setdefault((own.prompt, own.responses), []).append(place)
    portions: list[list[int]] = []
    filled = PORTION
    for (_, responses), places in by_text.items():
        assert isinstance(responses, tuple)
        if filled + len(responses) > PORTION:
            portions.append([])
            filled = 0
        portions[-1] += places
        filled += len(responses)
    return portions


def _by_pairs(
    rewards: Rewards,
    candidates: Sequence[Candidates],
    told: Sequence[tuple[str, ...] | None],
    known: Floats,
    ks: Sequence[int],
    seed: int,
    progress: bool,
) -> Picks:
    few = bool((~np.isnan(known)).sum(axis=1).max() <= ROUND_ROBIN)
    cycles = np.full(len(known), np.nan)
    found = Picks(np.full((len(known), len(ks), known.shape[1]), np.nan), cycles=cycles if few else None)
    for places in track(_portions(candidates), "pairs, in portions", disable=not progress):
        own = [place for place in places if told[place] is not None]
        groups = [candidates[place].group(told[place] or ()) for place in own]
        if few:
            duels, chosen = round_robin(rewards, groups, known[own], ks)
            cycles[own] = cycle_rate(duels)
        else:
            names = [candidates[place].cluster for place in own]
            chosen = knockout(rewards, groups, known[own], ks, names=names, seed=seed)
        found.picked[own] = chosen.picked
        found.counts.update(pairs=chosen.pairs, unread_pairs=chosen.unread_pairs)
    return found
