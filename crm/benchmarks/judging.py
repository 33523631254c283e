"""Scores of a benchmark's items by a judge and by rules that read nothing, and what they come to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
from rich.progress import track

from crm.benchmarks.catalogue import Benchmark
from crm.benchmarks.protocols import Item, Scores
from crm.benchmarks.report import Outcome
from crm.io.draws import generator, grouped
from crm.io.files import joined_lines, part_of
from crm.io.processes import Processes
from crm.judges.open import OpenedJudge
from crm.picking.criteria import read_pool
from crm.picking.from_votes import taste_of
from crm.rewards.scoring import Pair, Rewards
from crm.schema import Preference

log = logging.getLogger(__name__)
PORTION = 256
"""Items that are scored together and then written."""
COINS = 20
"""Draws of which the row of the coin is the mean."""
SHOWN = {
    "own": "those of each row",
    "other": "another row's",
    "none": "none",
    "posts": "what the user asked before",
    "fitted": "proposed from the user's other votes",
}


def sampled(items: list[Item], size: int) -> list[Item]:
    """``size`` items (0: all) in their order, drawn by id, so that every judge has the same; of users, all of some."""
    if not size:
        return items
    keys = {_sampling_key(item) for item in items}
    drawn = sorted(keys, key=lambda key: (generator(0, 0, key, "benchmark").random(), key))
    taken = set(drawn[:size])
    return [item for item in items if _sampling_key(item) in taken]


def _sampling_key(item: Item) -> str:
    """A user, or what `ref:1` and `tied:1` have in common, or the id."""
    return item.user or item.id.rpartition(":")[2]


def fit_users(opened: OpenedJudge, items: Sequence[Item], progress: bool) -> list[Item]:
    """The test items of each user, with the criteria that their other votes show (`crm.picking`).

    Empty for a judge that `crm.picking` cannot ask: it needs head=late.
    """
    reader = getattr(opened.judge, "late_reader", None)
    if reader is None:
        log.warning("%s: criteria of users are proposed by a model with head=late alone; left out", opened.name)
        return []
    votes = grouped(items, lambda item: item.user)
    found: list[Item] = []
    for own in track(votes.values(), "users", disable=not progress, transient=True):
        fit = [_vote(item) for item in own if item.split != "test"]
        criteria = tuple(each.text for each in taste_of(fit, reader, read_pool()).criteria) if fit else ()
        tested = (item for item in own if item.split == "test")
        found += [replace(item, criteria=criteria, category=(item.user,)) for item in tested]
    return found


def _vote(item: Item) -> Preference:
    first, second = item.responses
    winner = "b" if item.right == (1,) else "a"
    return Preference(item.id, item.prompt, first, second, winner, source="benchmark")


def outcome(
    benchmark: Benchmark, judge: str, criteria: str, items: Sequence[Item], scores: Scores, blind: bool = False
) -> Outcome:
    """What ``scores`` of ``items`` come to."""
    known = [[score for score in own if score is not None] for own in scores]
    spreads = [pstdev(own) for own in known if len(own) > 1]
    unread = sum(None in own for own in scores) / len(scores)
    points = tuple(benchmark.count(items, scores))
    return Outcome(judge, criteria, points, blind, fmean(spreads) if spreads and not blind else float("nan"), unread)


def judged(
    benchmark: Benchmark, opened: OpenedJudge, items: Sequence[Item], kind: str, progress: bool, processes: Processes
) -> list[tuple[Item, list[float | None]]]:
    """Every item with its scores; what an earlier run has scored is read from its file beside the predictions.

    An item for which an endpoint gave no reply is left out, and asked again by the next run. Raises ``ValueError``
    where all are.
    """
    asked = json.dumps([[item.id, item.criteria, str(item.prompt), str(item.responses)] for item in items])
    key = hashlib.sha256(f"{opened.judge.digest} {asked}".encode()).hexdigest()[:16]
    path = opened.predictions / key / f"{benchmark.name}.jsonl"
    done = processes.from_first(lambda: _scores(path))
    missing = processes.share([item for item in items if item.id not in done])
    rewards = Rewards(opened.judge)
    starts, hidden = range(0, len(missing), PORTION), not (progress and processes.first)
    with part_of(path, processes.rank).open("a", encoding="utf-8") as file:
        for at in track(starts, f"{benchmark.name} ({SHOWN[kind]})", disable=hidden, transient=True):
            portion = missing[at : at + PORTION]
            for item, own in zip(portion, _scored(benchmark, rewards, portion), strict=True):
                if item.group() not in rewards.unanswered:
                    file.write(json.dumps([item.id, own]) + "\n")
            file.flush()
    processes.wait()
    done = processes.from_first(lambda: _scores(path))
    if not done:
        raise ValueError(f"{benchmark.title}: {opened.name}: none of {len(items)} items got a reply; the log says why")
    return [(item, done[item.id]) for item in items if item.id in done]


def _scores(path: Path) -> dict[str, list[float | None]]:
    return dict(map(json.loads, joined_lines(path)))


def _scored(benchmark: Benchmark, rewards: Rewards, items: Sequence[Item]) -> Scores:
    """A score for each response; where a judge has to say the same in both orders, the sum of its two verdicts."""
    if rewards.pointwise or not benchmark.both_orders:
        return rewards.of_groups([item.group() for item in items])
    both = rewards.in_both_orders([Pair(item.group(), 0, 1) for item in items])
    sums = [None if ab is None or ba is None else float(np.sign(ab) + np.sign(ba)) for ab, ba in both]
    return [[value, None if value is None else -value] for value in sums]


def blind_outcomes(benchmark: Benchmark, items: Sequence[Item]) -> list[Outcome]:
    """A coin, the longest and the shortest response (characters) and, where rows have an order, the first one."""
    lengths = [[sum(len(turn.content) for turn in text) for text in item.responses] for item in items]
    rules: dict[str, Scores] = {"longest": lengths, "shortest": [[-length for length in own] for own in lengths]}
    if benchmark.shown_order:
        rules["first"] = [[-place for place in range(len(item.responses))] for item in items]
    found = [outcome(benchmark, name, "", items, scores, blind=True) for name, scores in rules.items()]
    coins = []
    for seed in range(COINS):
        draws = [generator(seed, 0, item.id, "coin") for item in items]
        scores = [[draw.random() for _ in item.responses] for draw, item in zip(draws, items, strict=True)]
        coins.append(outcome(benchmark, "coin", "", items, scores, blind=True).points)
    mean = tuple(
        replace(points[0], value=fmean(point.value for point in points)) for points in zip(*coins, strict=True)
    )
    return [Outcome("coin", "", mean, True), *found]
