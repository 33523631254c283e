"""The best of k by a judge that only compares: a knockout of at most n - 1 pairs a query.

The winner after j rounds is the best of a block of 2^j, and the blocks of a round do not overlap: their mean is
unbiased for k = 2^j; other k have no value. A pair that was not read in both orders has no winner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from crm.io.draws import generator
from crm.report.statistics import Floats
from crm.rewards.scoring import Group, Pair, Reward, Rewards

Blocks = list[int | None]


def knockout(
    rewards: Rewards, groups: Sequence[Group], known: Floats, ks: Sequence[int], *, names: Sequence[str], seed: int
) -> tuple[Floats, int]:
    """(Q, K, n) probability of the pick among responses whose ``known`` (Q, n) is a number, and the unread pairs.

    The order depends on ``seed`` and the query's name, so that all criteria meet the same blocks.
    """
    blocks: list[Blocks] = []
    for name, row in zip(names, known, strict=True):
        order: Blocks = [int(place) for place in np.flatnonzero(~np.isnan(row))]
        generator(seed, 0, name, "knockout").shuffle(order)
        blocks.append(order)
    picked = np.full((len(known), len(ks), known.shape[1]), np.nan)
    unread, size = 0, 1
    while any(blocks):
        if size in ks:
            for row, own in zip(picked[:, list(ks).index(size)], blocks, strict=True):
                if winners := [winner for winner in own if winner is not None]:
                    row[:] = np.bincount(winners, minlength=len(row)) / len(winners)
        meeting = [list(zip(own[::2], own[1::2], strict=False)) for own in blocks]
        asked = [(place, a, b) for place, own in enumerate(meeting) for a, b in own if a is not None and b is not None]
        logits = rewards.of_pairs([Pair(groups[place], a, b) for place, a, b in asked])
        won = {pair: _winner(*pair[1:], logit, seed) for pair, logit in zip(asked, logits, strict=True)}
        blocks = [[won.get((place, a, b)) for a, b in own] for place, own in enumerate(meeting)]  # type: ignore[arg-type]
        unread, size = unread + logits.count(None), 2 * size
    return picked, unread


def _winner(a: int, b: int, logit: Reward, seed: int) -> int | None:
    """An exact tie is drawn."""
    if logit == 0:
        return generator(seed, 0, f"{a} {b}", "tie").choice((a, b))
    return None if logit is None else a if logit > 0 else b
