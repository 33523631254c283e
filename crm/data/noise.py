"""Perturbed criteria, and the name of what was really done to them.

The label is never touched. For a user with n criteria:

=========  ===========================================================================================
none       the criteria as they are
add        max(1, floor(n/2)) more, from a pool, of broad topics that the loser does not have; shuffled
remove     ceil(n/2) of them stay, in their order
replace    ceil(n/2) - 1 of them give way to the loser's; shuffled. For n = 2 one of the loser's joins
random     one of the four above, uniformly, per sample and epoch
=========  ===========================================================================================

So the result is never empty, ``remove`` keeps at least half and ``replace`` a strict majority. Where an operation is
impossible (``remove`` or ``replace`` with n = 1, nothing fitting in the pool, no criteria on the other side), the
criteria come back as they were and ``applied`` says ``none``. "The loser" is the side that is *not* conditioned on.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Collection, Iterable
from itertools import accumulate

from crm.io.draws import generator, grouped
from crm.schema import MAX_CRITERIA, Preference, folded

OPERATIONS = ("none", "add", "remove", "replace")
NOISES = (*OPERATIONS, "random")
WITHOUT_EFFECT = "changes nothing here: it takes criteria of other votes, or a side with several"


class CriteriaPool:
    """Distinct criteria grouped by broad topic, to draw from without the topics of a loser.

    A text that occurs under several topics carries all of them. Criteria without a topic cannot be separated from the
    loser's, so they stay out. The pool depends on the set of entries, not their order.
    """

    def __init__(self, entries: Iterable[tuple[str, Collection[str]]]) -> None:
        topics_of: dict[str, set[str]] = {}
        text_of: dict[str, str] = {}
        for text, topics in entries:
            if topics:
                topics_of.setdefault(folded(text), set()).update(topics)
                text_of[folded(text)] = min(text, text_of.get(folded(text), text))
        groups = grouped(sorted(topics_of), lambda key: frozenset(topics_of[key]))
        self._groups = [(topics, [text_of[key] for key in keys]) for topics, keys in groups.items()]
        """In order of their smallest text."""

    @classmethod
    def from_preferences(cls, preferences: Iterable[Preference]) -> CriteriaPool:
        """Pool the criteria of both sides. Topics that do not pair up with the criteria are given to all of them."""
        entries: list[tuple[str, Collection[str]]] = []
        for preference in preferences:
            for criteria, topics in (
                (preference.criteria_a, preference.criteria_topics_a),
                (preference.criteria_b, preference.criteria_topics_b),
            ):
                paired = len(criteria) == len(topics)
                entries += [(text, (topics[i],) if paired else topics) for i, text in enumerate(criteria)]
        return cls(entries)

    def draw(
        self, count: int, *, without_topics: Collection[str], without: Collection[str], rng: random.Random
    ) -> list[str]:
        """Up to ``count`` distinct criteria, uniformly from those that share no topic and no text with the given.

        Costs O(groups + count + len(without)), whatever the size of the pool. Fewer come back when fewer exist.
        """
        allowed = [texts for topics, texts in self._groups if topics.isdisjoint(without_topics)]
        ends = list(accumulate(map(len, allowed)))
        unwanted = {folded(text) for text in without}
        total = ends[-1] if ends else 0
        # At most len(unwanted) of the sampled places are refused, so this many are enough and nothing is redrawn.
        places = rng.sample(range(total), min(total, count + len(unwanted)))
        texts = (_at(allowed, ends, place) for place in places)
        return [text for text in texts if folded(text) not in unwanted][:count]


def add_noise(
    preference: Preference, side: str, *, kind: str, pool: CriteriaPool | None, seed: int, epoch: int
) -> tuple[tuple[str, ...], str]:
    """The criteria of a side that has some, perturbed as the table above says, and which of `OPERATIONS` was applied.

    Pure: a function of its arguments alone. ``kind`` is one of `NOISES`; ``add`` and ``random`` need a ``pool``.
    """
    own, other = preference.criteria_a, preference.criteria_b
    other_topics = preference.criteria_topics_b
    if side == "b":
        own, other, other_topics = other, own, preference.criteria_topics_a
    rng = generator(seed, epoch, preference.id, "noise")
    operation = rng.choice(OPERATIONS) if kind == "random" else kind
    changed = None
    if operation == "add" and pool is not None:
        changed = _add(own, pool, other, other_topics, rng)
    elif operation == "remove" and len(own) > 1:
        changed = tuple(own[place] for place in sorted(rng.sample(range(len(own)), (len(own) + 1) // 2)))
    elif operation == "replace" and len(own) > 1:
        changed = _replace(own, other, rng)
    return (changed, operation) if changed else (own, "none")


def _add(
    own: tuple[str, ...], pool: CriteriaPool, other: tuple[str, ...], other_topics: Collection[str], rng: random.Random
) -> tuple[str, ...] | None:
    count = max(0, min(max(1, len(own) // 2), MAX_CRITERIA - len(own)))
    gained = pool.draw(count, without_topics=other_topics, without=[*own, *other], rng=rng)
    return _shuffled([*own, *gained], rng) if gained else None


def _replace(own: tuple[str, ...], other: tuple[str, ...], rng: random.Random) -> tuple[str, ...] | None:
    known = {folded(text) for text in own}
    foreign = list({folded(text): text for text in other if folded(text) not in known}.values())
    if not foreign:
        return None
    gained = rng.sample(foreign, min(len(foreign), max(1, (len(own) + 1) // 2 - 1)))
    # Exchanging one of two would leave a draw, so with n = 2 both stay and the stranger joins them.
    lost = 0 if len(own) == 2 else len(gained)
    return _shuffled([*rng.sample(own, len(own) - lost), *gained], rng)


def _shuffled(criteria: list[str], rng: random.Random) -> tuple[str, ...]:
    return tuple(rng.sample(criteria, len(criteria)))


def _at(groups: list[list[str]], ends: list[int], place: int) -> str:
    group = bisect_right(ends, place)
    return groups[group][place - (ends[group - 1] if group else 0)]
