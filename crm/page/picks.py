"""Answer requests of people who pick between answers.

Nothing is kept here: a request holds all picks so far (`crm.picking.session`). Places are those of the profile's part
of the bank: queries in reading order, models by name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from crm.leaderboard.bank.bank import Bank
from crm.page.pick_bodies import Picked, PicksRequest
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import Ranker
from crm.picking.contrasts import Contrasts, contrasts, joined
from crm.picking.in_words import wishes
from crm.picking.pool import PoolEntry
from crm.picking.session import Pair, Pick, Session
from crm.schema import query_of

TYPED = 16
"""Sets of typed lines whose contrasts are held: 3 MB each of 30 models on 804 queries."""
NOT = "Not: "
LARGEST = 2.0
"""What a line counts at most before picks: somebody who matters as much as any may (`crm.picking.posterior`)."""


class Picking:
    """Of everybody who picks on the bank of ``ranker`` by the criteria of ``pool``."""

    def __init__(self, ranker: Ranker, pool: Sequence[PoolEntry]) -> None:
        self.ranker, self.pool = ranker, tuple(pool)
        self._with_typed = lru_cache(TYPED)(self._join)

    def answer(self, asked: PicksRequest, profile: Profile) -> dict[str, Any]:
        """What the picks say so far, as the fields of `crm.page.pick_bodies.PicksResponse`.

        Raises `ProfileError` for a profile or a pick that does not fit the bank.
        """
        part = self.ranker.selector.select(profile)
        digest = self._digest(part, profile)
        if asked.bank not in ("", digest):
            raise ProfileError("bank: these picks were made on other answers or models; pick again")
        likes, dislikes = profile.criteria, profile.dislikes
        whole, entries = self._with_typed(likes, dislikes)
        seen = _of_part(whole, self.ranker.bank, part)
        sizes = profile.weights or (1.0,) * (len(likes) + len(dislikes))
        typed = (*(min(size, LARGEST) for size in sizes), *(0.0 for _ in entries[len(sizes) :]))
        picks = tuple(_pick(place, pick, seen) for place, pick in enumerate(asked.picks))
        session = Session(seen, part.authors.index(part.baseline), typed, picks, asked.seed)
        agreed, counted = session.agreement()
        first = session.ranking.maybe_first
        return {
            "bank": digest,
            "picked": len(picks),
            "ended": session.ended,
            "decided": session.decided,
            "settled": session.settled,
            "next": None if session.ended else _shown(session, part, entries),
            "wishes": _wishes(session, entries, (*likes, *dislikes)),
            "agreement": {"agreed": agreed, "asked": counted},
            "undecided": [part.authors[place] for place in first] if len(first) > 1 else [],
            "leaderboard": _rows(session, part),
        }

    def _digest(self, part: Bank, profile: Profile) -> str:
        """Of all that places of picks stand for."""
        ids = [query.id for query in part.queries]
        told = [ids, part.authors, part.baseline, profile.criteria, profile.dislikes, [e.name for e in self.pool]]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]

    @cached_property
    def _of_pool(self) -> Contrasts:
        sides = [
            self.ranker.scorer.scores([getattr(entry, side) for entry in self.pool]) for side in ("like", "opposite")
        ]
        return contrasts(*sides)

    def _join(self, likes: tuple[str, ...], dislikes: tuple[str, ...]) -> tuple[Contrasts, tuple[PoolEntry, ...]]:
        """What was typed, then the pool without what is the same; with the words of every criterion."""
        pool = self._of_pool
        own = (*(_entry(text, True) for text in likes), *(_entry(text, False) for text in dislikes))
        if not own:
            return pool, self.pool
        scores = self.ranker.scorer.scores((*likes, *dislikes))
        if not np.isfinite(scores).any(axis=(1, 2)).all():
            raise ProfileError("criteria: the judge cannot read one of your lines; remove it, or say it in other words")
        signs = np.array([1] * len(likes) + [-1] * len(dislikes), dtype=np.float32)[:, None, None]
        both, kept = joined(contrasts(scores * signs, np.zeros_like(scores)), pool)
        return both, (*own, *(self.pool[place] for place in kept))


def _entry(text: str, liked: bool) -> PoolEntry:
    """A line that was typed; the opposite of a dislike is its text."""
    return PoolEntry(text, text, NOT + text) if liked else PoolEntry(NOT + text, NOT + text, text)


def _of_part(whole: Contrasts, bank: Bank, part: Bank) -> Contrasts:
    """The same of some queries and models, in the order of the part."""
    row = {query.id: place for place, query in enumerate(bank.queries)}
    column = {model: place for place, model in enumerate(bank.authors)}
    rows, columns = [row[query.id] for query in part.queries], [column[model] for model in part.authors]
    return Contrasts(whole.values[np.ix_(rows, columns)], whole.units)


def _pick(place: int, given: Picked, seen: Contrasts) -> Pick:
    """Checked against what there is. Raises `ProfileError` that names the pick."""
    queries, models, criteria = seen.values.shape
    inside = given.query < queries and max(given.left, given.right) < models and given.left != given.right
    if not inside or any(offered >= criteria for offered in given.offered):
        raise ProfileError(f"picks: number {place + 1} is of an answer or a criterion that is not there; pick again")
    pair = Pair(given.query, given.left, given.right, given.random)
    if not np.isfinite(seen.difference(*_sides(pair))).all():
        raise ProfileError(f"picks: number {place + 1} has an answer that the judge could not read; pick again")
    try:
        return Pick(pair, given.choice, tuple(given.offered), given.reason)
    except ValueError as error:
        raise ProfileError(f"picks: number {place + 1}: {error}") from None


def _sides(pair: Pair) -> tuple[int, int, int]:
    return pair.query, pair.left, pair.right


def _shown(session: Session, part: Bank, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """The next pair, its texts, and what may be named as the reason on either side."""
    try:
        pair = session.next_pair()
    except ValueError as error:
        raise ProfileError(str(error)) from None
    query = part.queries[pair.query]
    left, right = (part.responses[part.authors[side]][query.id] for side in (pair.left, pair.right))
    gap = session.contrasts.difference(*_sides(pair))
    reasons = [
        {
            "place": place,
            "left": entries[place].like if gap[place] > 0 else entries[place].opposite,
            "right": entries[place].opposite if gap[place] > 0 else entries[place].like,
        }
        for place in session.reasons(pair)
    ]
    told = {"query": pair.query, "left": pair.left, "right": pair.right, "random": pair.random, "topic": query.topic}
    texts = {"text": query_of(query.prompt), "left_text": left, "right_text": right}
    return {**told, **texts, "reasons": reasons}


def _wishes(session: Session, entries: Sequence[PoolEntry], typed: Sequence[str]) -> list[dict[str, Any]]:
    """As lines of a profile: what speaks against a typed line is a dislike of its text."""
    against = {NOT + text: text for text in typed}
    return [
        {
            "text": against.get(wish.text, wish.text),
            "kind": "dislike" if wish.text in against else "like",
            "typed": against.get(wish.text, wish.text) in typed,
            "weight": wish.weight,
            "low": wish.low,
            "high": wish.high,
            "sure": wish.sure,
        }
        for wish in wishes(session.posterior, entries)
    ]


def _rows(session: Session, part: Bank) -> list[dict[str, Any]]:
    """A row a model, best first; ranks and win rates with 95 % limits over weights and queries."""
    found = session.ranking
    low, high = found.interval
    ranks = (-found.rates).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") + 1
    first, last = np.quantile(ranks, (0.025, 0.975), axis=0, method="nearest").astype(int)
    order = np.argsort(-found.mean, kind="stable").tolist()
    return [
        {
            "model": part.authors[place],
            "rank": rank,
            "rank_low": int(first[place]),
            "rank_high": int(last[place]),
            "win_rate": float(found.mean[place]),
            "low": float(low[place]),
            "high": float(high[place]),
        }
        for rank, place in enumerate(order, start=1)
    ]
