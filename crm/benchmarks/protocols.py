"""What benchmarks ask, and how they count: from scores of items to the points that their metrics are means of.

A response without a score is never the best, and an item without a verdict counts as wrong, as the benchmarks have it;
the share of those stands beside every number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from crm.rewards.scoring import Group, Turns
from crm.schema import prompt_key

Scores = Sequence[Sequence[float | None]]
"""Of each item, a score for each of its responses; None where it could not be read."""
STYLES = ("concise", "detailed", "markdown")
"""Of RM-Bench's three chosen and three rejected responses, in their order."""
TIES = "Ties"


@dataclass(frozen=True)
class Item:
    """Responses to one prompt, of which those at the places ``right`` are correct.

    ``category`` goes from the widest to the narrowest: a mean is taken level by level. ``values`` grade every response
    where a benchmark does. A ``user`` is fitted on the items whose ``split`` is not ``test``, and asked on the others.
    """

    id: str
    prompt: Turns
    responses: tuple[Turns, ...]
    right: tuple[int, ...] = (0,)
    criteria: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    user: str = ""
    split: str = ""

    @property
    def cluster(self) -> str:
        """What is resampled together: a user, or else the prompt's key."""
        return self.user or prompt_key(self.prompt)

    def group(self) -> Group:
        """What a judge reads."""
        return Group(self.criteria, self.prompt, self.responses)


@dataclass(frozen=True)
class Point:
    """One number in [0, 1] of one item, that a metric is a mean of."""

    metric: str
    item: str
    cluster: str
    value: float
    category: tuple[str, ...] = ()


def _known(scores: Sequence[float | None]) -> list[float]:
    """A response that could not be read is worse than any other."""
    return [-math.inf if score is None else score for score in scores]


def pairwise(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """``accuracy``: 1 where the right one of two responses has the higher score; equal scores are wrong."""
    for item, own in zip(items, scores, strict=True):
        right = item.right[0]
        won = None not in own and own[right] > own[1 - right]  # type: ignore[operator]
        yield Point("accuracy", item.id, item.cluster, float(won), item.category)


def rm_bench(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """RM-Bench (arXiv 2410.16184, section 3.3): every chosen style against every rejected one, with ``>``.

    ``hard``: the chosen response has less style than the rejected one, ``normal``: the same, ``easy``: more;
    ``average`` is over all nine.
    """
    for item, own in zip(items, scores, strict=True):
        wins: dict[str, list[float]] = defaultdict(list)
        for chosen, rejected in product(range(3), range(3)):
            a, b = own[chosen], own[3 + rejected]
            won = float(a is not None and b is not None and a > b)
            level = "normal" if chosen == rejected else "hard" if chosen < rejected else "easy"
            wins[level].append(won)
            wins["average"].append(won)
        for metric in ("average", "easy", "normal", "hard"):
            yield Point(metric, item.id, item.cluster, fmean(wins[metric]), item.category)


def reward_bench_2(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """RewardBench 2 (arXiv 2506.01937): best of four, and for the subset Ties the composite of `ties`.

    The right response counts 1 over the number of responses that share the highest score, if it is one of them.
    """
    tied: dict[str, dict[str, Sequence[float]]] = defaultdict(dict)
    numbers: dict[str, int] = {}
    clusters: dict[str, str] = {}
    for item, own in zip(items, scores, strict=True):
        if item.category == (TIES,):
            kind, _, number = item.id.partition(":")
            tied[number][kind] = _known(own)
            numbers[item.id] = len(item.right)
            clusters[number] = item.cluster
            continue
        known = _known(own)
        best = max(known)
        won = 1 / known.count(best) if known[0] == best > -math.inf else 0.0
        yield Point("accuracy", item.id, item.cluster, won, item.category)
    margins = {
        number: {kind: Margins.of(own, numbers[f"{kind}:{number}"]) for kind, own in kinds.items()}
        for number, kinds in tied.items()
    }
    for number, value in ties(margins).items():
        yield Point("accuracy", f"{TIES}:{number}", clusters[number], value, (TIES,))


@dataclass(frozen=True)
class Margins:
    """Of a prompt with several right responses: the ``gap`` of the worst right over the best wrong response, and the
    ``spread`` of the right ones, None for a single one."""

    gap: float
    spread: float | None

    @classmethod
    def of(cls, scores: Sequence[float], right: int) -> Margins:
        """The first ``right`` of the scores are those of right responses."""
        good, bad = scores[:right], scores[right:]
        if not (good and bad):
            return cls(0.0, None)
        if -math.inf in scores:  # not read: wrong in every share
            return cls(-math.inf, math.inf if len(good) > 1 else None)
        return cls(min(good) - max(bad), max(good) - min(good) if len(good) > 1 else None)


def ties(margins: dict[str, dict[str, Margins]]) -> dict[str, float]:
    """By number of a prompt, its share of the Ties score, whose mean over prompts is the score.

    The score is .3 of the accuracy on tied prompts, .3 of that on their references, .2 each of the shares in which the
    gap (of the tied prompt; the smaller one of both) is larger than the spread of the right responses, and .01 of the
    mean tanh of that gap over the spread less 1. Means are over the prompts that have what they need, as in
    RewardBench's code (`process_single_model`), so that a share is weighted by the number of prompts in its mean.
    """
    both = {number: (own["ref"], own["tied"]) for number, own in margins.items() if {"ref", "tied"} <= own.keys()}
    spreads = {number: (ref, tied) for number, (ref, tied) in both.items() if tied.spread is not None}
    ratios = {number: pair for number, pair in spreads.items() if 0 < _spread(pair[1]) < math.inf}
    counted: dict[str, float] = dict.fromkeys(margins, 0.0)

    def add(weight: float, values: dict[str, float]) -> None:
        for number, value in values.items():
            counted[number] += weight * value * len(margins) / len(values)

    for kind in ("tied", "ref"):
        add(0.3, {number: float(own[kind].gap > 0) for number, own in margins.items() if kind in own})
    add(0.2, {number: float(tied.gap > _spread(tied)) for number, (_, tied) in spreads.items()})
    add(0.2, {number: float(min(ref.gap, tied.gap) > _spread(tied)) for number, (ref, tied) in spreads.items()})
    add(0.01, {n: math.tanh(min(ref.gap, tied.gap) / _spread(tied) - 1) for n, (ref, tied) in ratios.items()})
    return counted


def _spread(margins: Margins) -> float:
    assert margins.spread is not None
    return margins.spread


def best_of_k(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """PPE's correctness (arXiv 2410.14872, section 5): the grade of the response with the highest score of all.

    ``accuracy``: of the pairs of a right and a wrong response, the share in which the right one has the higher score.
    """
    for item, own in zip(items, scores, strict=True):
        known = _known(own)
        best = max(range(len(known)), key=lambda place: known[place])
        yield Point(
            "best_of_k", item.id, item.cluster, item.values[best] if known[best] > -math.inf else 0.0, item.category
        )
        pairs = [
            float(known[good] > known[bad])
            for good, bad in product(range(len(known)), repeat=2)
            if item.values[good] > item.values[bad]
        ]
        if pairs:
            yield Point("accuracy", item.id, item.cluster, fmean(pairs), item.category)
