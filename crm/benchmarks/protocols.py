"""What benchmarks ask, and how they count: from scores of items to the points that their metrics are means of.

An item with a response that could not be read counts as wrong, as the benchmarks have it; the share of those stands
beside every number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean

import numpy as np

from crm.report.statistics import Floats
from crm.rewards.scoring import Group, Turns
from crm.schema import prompt_key

Scores = Sequence[Sequence[float | None]]
"""Of each item, a score for each of its responses; None where it could not be read."""
STYLES = ("concise", "detailed", "markdown")
"""Of RM-Bench's three chosen and three rejected responses, in their order."""
TIES, MAIN_SPLIT = "Ties", "gpt-4o"


@dataclass(frozen=True)
class Item:
    """Responses to one prompt, of which those at the places ``right`` are correct.

    ``category`` goes from the widest to the narrowest: means are taken level by level. ``values`` grade every response
    where a benchmark does. A ``user`` is fitted on the items whose ``split`` is not ``test``, and asked on the others.
    ``posts`` are what the user asked before, the nearest to the prompt first.
    """

    id: str
    prompt: Turns
    responses: tuple[Turns, ...]
    right: tuple[int, ...] = (0,)
    criteria: tuple[str, ...] = ()
    posts: tuple[str, ...] = ()
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


def judge_bench(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """``accuracy`` of the GPT-4o split (of all, without one), as its owners count; ``category_mean`` of its categories.

    ``other_split`` is the accuracy of the rest, pairs of Claude.
    """
    splits = {item.category[0] for item in items}
    for item, point in zip(items, pairwise(items, scores), strict=True):
        if MAIN_SPLIT in splits and item.category[0] != MAIN_SPLIT:
            yield replace(point, metric="other_split")
            continue
        yield point
        yield replace(point, metric="category_mean", category=item.category[1:])


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
    tied: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    clusters: dict[str, str] = {}
    for item, own in zip(items, scores, strict=True):
        known = _known(own)
        if item.category == (TIES,):
            kind, _, number = item.id.partition(":")
            tied[number][kind] = _margins(known, len(item.right))
            clusters[number] = item.cluster
            continue
        best = max(known)
        won = 1 / known.count(best) if None not in own and known[0] == best else 0.0
        yield Point("accuracy", item.id, item.cluster, won, item.category)
    for number, value in zip(tied, ties(list(tied.values())).tolist(), strict=True):
        yield Point("accuracy", f"{TIES}:{number}", clusters[number], value, (TIES,))


def _margins(scores: Sequence[float], right: int) -> tuple[float, float]:
    """The gap of the worst right over the best wrong response, and the spread of the right ones, NaN for a single one.

    The first ``right`` of the scores are those of right responses.
    """
    good, bad = scores[:right], scores[right:]
    if not (good and bad):
        return 0.0, math.nan
    if -math.inf in scores:  # not read: wrong in every share
        return -math.inf, math.inf if right > 1 else math.nan
    return min(good) - max(bad), max(good) - min(good) if right > 1 else math.nan


def ties(margins: Sequence[Mapping[str, tuple[float, float]]]) -> Floats:
    """(N,) by the `_margins` of each prompt's ``ref`` and ``tied``, its share of the Ties score, which is their mean.

    The score is .3 of the accuracy on tied prompts, .3 of that on their references, .2 each of the shares in which the
    gap (of the tied prompt; the smaller one of both) is larger than the spread of the right responses, and .01 of the
    mean tanh of that gap over the spread less 1 (1 or -1 at spread 0; 0 where both are 0 or not read). Means are over
    the prompts that have what they need, as in RewardBench's code (`process_single_model`), so that a share is weighted
    by the number of prompts in its mean.
    """
    unknown = (math.nan, math.nan)
    ref = np.array([own.get("ref", unknown)[0] for own in margins])
    tied, spread = np.array([own.get("tied", unknown) for own in margins]).reshape(-1, 2).T
    gap = np.minimum(ref, tied)
    known = ~(np.isnan(gap) | np.isnan(spread))
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.nan_to_num(np.tanh(gap / spread - 1))
    found = np.zeros(len(margins))
    for weight, values, among in (
        (0.3, tied > 0, ~np.isnan(tied)),
        (0.3, ref > 0, ~np.isnan(ref)),
        (0.2, tied > spread, known),
        (0.2, gap > spread, known),
        (0.01, wider, known),
    ):
        found[among] += weight * values[among] * len(margins) / max(among.sum(), 1)
    return found


def best_of_k(items: Sequence[Item], scores: Scores) -> Iterator[Point]:
    """PPE's correctness (arXiv 2410.14872, section 5): the grade of the response with the highest score of all.

    ``accuracy``: of the pairs of a right and a wrong response, the share in which the right one has the higher score.
    """
    for item, own in zip(items, scores, strict=True):
        known = _known(own)
        best = max(range(len(known)), key=lambda place: known[place])
        yield Point("best_of_k", item.id, item.cluster, 0.0 if None in own else item.values[best], item.category)
        pairs = [
            float(known[good] > known[bad] > -math.inf)
            for good, bad in product(range(len(known)), repeat=2)
            if item.values[good] > item.values[bad]
        ]
        if pairs:
            yield Point("accuracy", item.id, item.cluster, fmean(pairs), item.category)
