"""In: rows with criteria and topics. Out: the part each goes to: train, validation, D, T, C.

Groups of prompts go to train, validation or test by a hash; a held-out topic's prompts are suite ``T``. Criteria of
held-out broad topics are taken out of every row and asked for in suite ``C`` only: on the prompts of the test share,
and on prompts about which no other criterion speaks. So nothing in ``C`` was trained on, neither prompts nor criteria.
``D`` is the test share with the other criteria.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from crm.criteria.topics.frame import UNTOPICAL
from crm.schema import Preference

PARTS = ("train", "validation", "D", "T", "C")
LARGEST_SHARE = 0.2
"""A topic with more of the rows than this is never held out by draw: too little would be left to learn from."""


def draw_topics(counts: Counter[str], number: int, seed: int) -> tuple[str, ...]:
    """``number`` of the topics, the first in an order of the seed's own that are not too large; fewer if there are few.

    At least three topics are left to train on. A topic's place in the order depends on its name and the seed only.
    """
    total = sum(counts.values())
    order = sorted(counts, key=lambda name: hashlib.sha256(f"{seed}|{name}".encode("utf-8", "surrogatepass")).digest())
    fitting = [name for name in order if counts[name] <= LARGEST_SHARE * total and name not in UNTOPICAL]
    return tuple(sorted(fitting[: max(0, min(number, len(counts) - 3))]))


def check_topics(field: str, wanted: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The wanted topics; ``ValueError`` naming one that no row has."""
    for name in wanted:
        if name not in known:
            raise ValueError(f"{field}: no row has {name!r}; there are {'; '.join(sorted(known)) or 'none'}")
    return tuple(wanted)


def only_criteria(row: Preference, wanted: Callable[[str], bool]) -> Preference:
    """The row with those criteria whose broad topic is wanted.

    Where topics do not pair up with the criteria of a side, all of them stand for each criterion, and each must be
    wanted.
    """
    sides: dict[str, Any] = {}
    for side in "ab":
        criteria, topics = getattr(row, f"criteria_{side}"), getattr(row, f"criteria_topics_{side}")
        paired = len(criteria) == len(topics)
        kept = [
            index
            for index in range(len(criteria))
            if (wanted(topics[index]) if paired else all(wanted(topic) for topic in topics))
        ]
        sides[f"criteria_{side}"] = tuple(criteria[index] for index in kept)
        sides[f"criteria_topics_{side}"] = tuple(topics[index] for index in kept) if paired else topics
    return replace(row, **sides)


def who_speaks(row: Preference, unseen_criteria: Collection[str]) -> str:
    """``seen`` where a criterion speaks that is not held out, ``unseen`` where only held-out ones do, else ``none``."""
    seen = only_criteria(row, lambda topic: topic not in unseen_criteria)
    if seen.criteria_a or seen.criteria_b:
        return "seen"
    return "unseen" if row.criteria_a or row.criteria_b else "none"


def parts_of(row: Preference, part: str, unseen_criteria: Collection[str]) -> list[tuple[str, Preference]]:
    """Where a row goes, and as what: a test row may be in ``D`` and in ``C``, with other criteria in each.

    ``part`` is one of `votes.splits.PARTS`, or ``unseen_criteria``. Elsewhere a row all of whose criteria are held
    out stays without any, counted by whoever makes comparisons of it.
    """
    if part == "left_out":
        return []
    if part == "unseen_criteria":
        return [("C", only_criteria(row, lambda topic: topic in unseen_criteria))]
    seen = only_criteria(row, lambda topic: topic not in unseen_criteria) if unseen_criteria else row
    if part != "test":
        return [({"unseen_topics": "T"}.get(part, part), seen)]
    placed = [("D", seen)]
    if unseen_criteria:
        unseen = only_criteria(row, lambda topic: topic in unseen_criteria)
        if unseen.criteria_a or unseen.criteria_b:
            placed.append(("C", unseen))
    return placed


def topic_counts(rows: Iterable[Preference]) -> tuple[Counter[str], Counter[str]]:
    """Rows of each query topic, and rows with each broad topic of criteria."""
    queries: Counter[str] = Counter()
    criteria: Counter[str] = Counter()
    for row in rows:
        if row.topic is not None:
            queries[row.topic] += 1
        criteria.update({*row.criteria_topics_a, *row.criteria_topics_b})
    return queries, criteria
