"""Answer requests of people who pick between answers; a request holds all picks so far."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from crm.data import table
from crm.data.recognise import recognise
from crm.io.rows import Intake
from crm.leaderboard.bank.bank import Bank
from crm.page.profile import Profile
from crm.page.ranker import Ranker, refusal
from crm.picking.criteria import LEAST_UNIT, Contrasts, PoolEntry, contrasts, joined
from crm.picking.posterior import WeightedCriterion, weighted_criteria
from crm.picking.session import Pair, Pick, Session
from crm.report.statistics import Floats
from crm.schema import Preference, query_of
from crm.web import Body

TYPED = 16
"""Sets of typed lines whose contrasts are held: 3 MB each of 30 models on 804 queries."""
MOST_VOTES = 2000
NEEDED = " (the file needs no columns but query, a, b and winner, which is a, b or tie)"
NOT = "Not: "
LARGEST = 2.0
"""What a line counts at most before picks: somebody who matters as much as any may (`crm.picking.posterior`)."""
Place = Annotated[int, Field(ge=0, lt=1_000_000)]


class Picked(Body):
    """A pair that was shown, and what came of it. Places are those that ``next`` named."""

    query: Place
    left: Place
    right: Place
    random: bool = False
    choice: Literal["left", "same", "right"]
    offered: list[Place] = Field([], max_length=64)
    """Places of the criteria that were offered as the reason."""
    reason: Place | None = None


class PicksRequest(Body):
    """All picks so far: the server keeps none."""

    profile: Profile
    """What was typed before, and which queries and models take part."""
    picks: list[Picked] = Field([], max_length=200)
    seed: int = Field(0, ge=0, lt=2**32)
    """Of what is drawn; the same for all picks of a person."""
    bank: str = ""
    """As the answer before gave it, so that picks are not read as those of another bank; empty at the first."""


class VotesRequest(Body):
    """Votes of one person."""

    file: str
    """Text of a file: CSV or JSON Lines with the columns ``query``, ``a``, ``b`` and ``winner``, or an arena's."""
    name: str = Field("", max_length=1000)
    """Of the file, for what is wrong with it."""


class Picking:
    """Of everybody who picks on the bank of ``ranker`` by the criteria of ``pool``.

    Places are those of the profile's part of the bank: queries in its order, models by name.
    """

    def __init__(self, ranker: Ranker, pool: Sequence[PoolEntry]) -> None:
        self.ranker, self.pool = ranker, tuple(pool)
        self._with_typed = lru_cache(TYPED)(self._join)
        self._rows = {query.id: row for row, query in enumerate(ranker.bank.queries)}

    def answer(self, asked: PicksRequest) -> dict[str, Any]:
        """What the picks say so far, and the next pair. Raises ``ValueError`` for a profile or a pick that does not fit
        the bank."""
        profile = asked.profile
        part, digest = self._part(asked)
        whole, entries = self._with_typed(profile.criteria, profile.dislikes)
        rows = [self._rows[query.id] for query in part.queries]
        seen = Contrasts(whole.values[rows], whole.units)
        sizes = profile.weights or (1.0,) * len(profile.lines)
        typed = (*(min(size, LARGEST) for size in sizes), *(0.0 for _ in entries[len(sizes) :]))
        picks = tuple(_pick(place, pick, seen) for place, pick in enumerate(asked.picks))
        baseline = part.authors.index(part.baseline)
        counts = _counts(seen, baseline)
        session = Session(seen, baseline, typed, picks, asked.seed)
        agreed, counted = session.agreement()
        first = session.ranking.maybe_first
        return {
            "bank": digest,
            "picked": len(picks),
            "ended": session.ended,
            "decided": session.decided,
            "next": None if session.ended else _next_pair(session, part, entries),
            "criteria": _criteria(weighted_criteria(session.posterior, entries), seen.units, entries, profile.lines),
            "agreement": {"agreed": agreed, "asked": counted},
            "undecided": [part.authors[place] for place in first] if len(first) > 1 else [],
            "leaderboard": _leaderboard(session, part),
        } | counts

    def votes(self, asked: PicksRequest) -> list[tuple[str, ...]]:
        """The picks as query, both texts, and ``a``, ``b`` or ``tie``. Raises ``ValueError`` for what is not there."""
        part, _ = self._part(asked)
        winners = {"left": "a", "right": "b", "same": "tie"}
        try:
            return [(*_shown(part, pick), winners[pick.choice]) for pick in asked.picks]
        except IndexError:
            raise ValueError("picks: one is of an answer that is not there; pick again") from None

    def proposals(self, asked: VotesRequest) -> dict[str, Any]:
        """Criteria that votes show, and how many of the votes they predict. Raises ``ValueError`` for a file."""
        from crm.picking.from_votes import conversations, shown_by  # torch comes with it

        rows = _read_votes(asked.file, asked.name)
        talks, score = conversations(rows), self.ranker.scorer.score_texts
        sides = ([getattr(entry, side) for entry in self.pool] for side in ("like", "opposite"))
        taste, units = shown_by(rows, self.pool, *(score(texts, talks) for texts in sides))
        return {"votes": taste.votes, "unread": taste.unread, "criteria": _criteria(taste.criteria, units, self.pool),
                "agreement": {"agreed": taste.agreed, "asked": taste.asked}, "more": taste.more}  # fmt: skip

    def _part(self, asked: PicksRequest) -> tuple[Bank, str]:
        """The part of the bank that is picked on, and the digest of all that places of picks stand for."""
        profile = asked.profile
        part = self.ranker.select(profile)
        ids, names = [query.id for query in part.queries], [entry.name for entry in self.pool]
        places = [ids, part.authors, part.baseline, profile.criteria, profile.dislikes, names]
        digest = hashlib.sha256(json.dumps(places).encode()).hexdigest()[:16]
        if asked.bank not in ("", digest):
            raise ValueError("bank: these picks were made on other answers or models; pick again")
        return part, digest

    @cached_property
    def _of_pool(self) -> Contrasts:
        sides = [[getattr(entry, side) for entry in self.pool] for side in ("like", "opposite")]
        return contrasts(*map(self.ranker.scorer.scores, sides))

    def _join(self, likes: tuple[str, ...], dislikes: tuple[str, ...]) -> tuple[Contrasts, tuple[PoolEntry, ...]]:
        """What was typed, then the pool without what is the same; with the words of every criterion."""
        pool = self._of_pool
        own = (*(_entry(text, True) for text in likes), *(_entry(text, False) for text in dislikes))
        if not own:
            return pool, self.pool
        scores = self.ranker.scorer.scores((*likes, *dislikes))
        if not np.isfinite(scores).any(axis=(1, 2)).all():
            raise ValueError("criteria: the judge cannot read one of your lines; remove it, or say it in other words")
        scores[len(likes) :] *= -1
        both, kept = joined(contrasts(scores, -scores), pool)
        return both, (*own, *(self.pool[place] for place in kept))


def _read_votes(text: str, name: str) -> list[Preference]:
    """Raises ``ValueError`` that names the row of the file ``name``, without settings of the command line."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"votes.{ {'{': 'jsonl', '[': 'json'}.get(text.lstrip()[:1], 'csv') }"
        file.write_text(text, encoding="utf-8", errors="replace")
        try:
            found = recognise(str(file))
            if found.name != "table":
                raise ValueError(f"read as {found.name}; give a table with the columns query, a, b and winner")
            reading = Intake(strict=True)
            rows = list(islice(table.read(file, reading, columns=found.columns, winners=found.winners), MOST_VOTES + 1))
        except ValueError as error:
            how = getattr(error, "how", "")  # what a command line can do
            why = str(error).removesuffix(how).replace(str(file), name or file.name)
            raise ValueError(f"file: {why}{NEEDED if how else ''}") from None
    if not 0 < len(rows) <= MOST_VOTES:
        raise ValueError(f"file: expected 1 to {MOST_VOTES:,} votes, with query, a, b and winner in each row")
    return rows


def _entry(text: str, liked: bool) -> PoolEntry:
    """A line that was typed; the opposite of a dislike is its text."""
    return PoolEntry(text, text, NOT + text) if liked else PoolEntry(NOT + text, NOT + text, text)


def _pick(place: int, given: Picked, seen: Contrasts) -> Pick:
    """Checked against what there is. Raises ``ValueError`` that names the pick."""
    queries, models, criteria = seen.values.shape
    there = given.query < queries and max(given.left, given.right) < models and given.left != given.right
    named = max(given.offered, default=0) < criteria and (given.reason is None or given.reason in given.offered)
    if not (there and named and np.isfinite(seen.difference(given.query, given.left, given.right)).all()):
        raise ValueError(f"picks: number {place + 1} is of an answer or a criterion that is not there; pick again")
    pair = Pair(given.query, given.left, given.right, given.random)
    return Pick(pair, given.choice, tuple(given.offered), given.reason)


def _counts(seen: Contrasts, baseline: int) -> dict[str, Any]:
    """As ``/api/v1/rank`` counts. Raises ``ValueError`` where no query is left."""
    unread = np.asarray(np.isnan(seen.values).all(axis=2))
    failed = int(np.delete(unread | unread[:, [baseline]], baseline, axis=1).sum())
    queries, left = len(unread), int(seen.ranked_on(baseline).sum())
    if not left:
        raise ValueError("criteria: no question has a score of every model; choose more questions, or take a line away")
    why = refusal(queries, left, failed, unread.size - queries)
    return {"queries": left, "left_out": queries - left, "failed": failed, "refusal": why}


def _shown(part: Bank, pair: Pair | Picked) -> tuple[str, str, str]:
    """The query and both texts."""
    query, left, right = part.queries[pair.query], part.authors[pair.left], part.authors[pair.right]
    return query_of(query.prompt), part.responses[left][query.id], part.responses[right][query.id]


def _next_pair(session: Session, part: Bank, entries: Sequence[PoolEntry]) -> dict[str, Any]:
    """The next pair, its texts without names of models, and what may be named as the reason on either side."""
    pair = session.next_pair()
    gap = session.contrasts.difference(pair.query, pair.left, pair.right)
    reasons = []
    for place in session.reasons(pair):
        sides = entries[place].like, entries[place].opposite
        left, right = sides if gap[place] > 0 else sides[::-1]
        reasons.append({"place": place, "left": left, "right": right})
    texts = zip(("text", "left_text", "right_text"), _shown(part, pair), strict=True)
    return asdict(pair) | dict(texts) | {"reasons": reasons}


def _criteria(
    weighted: Sequence[WeightedCriterion], sizes: Floats, entries: Sequence[PoolEntry], typed: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """As lines of a profile, weighted as these, without those in which no two responses differ.

    What speaks against a typed line is a dislike of its text.
    """
    against = {NOT + text: text for text in typed}
    units = {
        side: unit
        for entry, unit in zip(entries, sizes.tolist(), strict=True)
        for side in (entry.like, entry.opposite)
        if unit > LEAST_UNIT
    }
    found = []
    for one in (each for each in weighted if each.text in units):
        counts = {name: getattr(one, name) / units[one.text] for name in ("weight", "low", "high")}
        kind = "dislike" if one.text in against else "like"
        found.append({"text": against.get(one.text, one.text), "kind": kind, **counts})
    return found


def _leaderboard(session: Session, part: Bank) -> list[dict[str, Any]]:
    """A row a model, best first; ranks and win rates with 95 % limits over weights and queries."""
    found = session.ranking
    low, high = found.interval
    ranks = (-found.rates).argsort(axis=1, kind="stable").argsort(axis=1, kind="stable") + 1
    first, last = np.quantile(ranks, (0.025, 0.975), axis=0, method="nearest").astype(int)
    return [
        {
            "model": part.authors[place],
            "rank": rank,
            "rank_low": int(first[place]),
            "rank_high": int(last[place]),
            "win_rate": float(found.mean[place]),
            "low": float(low[place]),
            "high": float(high[place]),
            "may_be_first": place in found.maybe_first,
        }
        for rank, place in enumerate(np.argsort(-found.mean, kind="stable").tolist(), start=1)
    ]
