"""What a smaller study would have found: the same statistics on subsets.

Subsets of judges are drawn without replacement, and pairs of a suite too: from all suites in both directions together,
the same pairs for all judges of a draw. What judges are good for is that of all prompts. The judges drawn from are
those of this study: that is no interval for others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.progress import track

from crm.report.statistics import Floats, Indices
from experiments.does_accuracy_predict.analysis import LEAST, LIMITS, Drawn, measured
from experiments.does_accuracy_predict.judges import SUITES
from experiments.does_accuracy_predict.ranks import exact_p, permutation_p, spearman
from experiments.does_accuracy_predict.saved import Saved

JUDGES = (4, 6, 8, 12, 16, 24)
PAIRS = (50, 100, 200, 400, 1000)
SIZES = (25, 50, 100, 200, 400, 800, 1600)
SIX = 6
PUBLISHED = {"Best-of-N": 0.257, "PPO": 0.371}
"""Spearman's rho of Personalized RewardBench (arXiv 2604.07343), of six models."""
SIGNIFICANT = 0.05
PERMUTATIONS = 999
"""Of more judges than are exact; enough to say whether p is below `SIGNIFICANT`."""


def pooled(saved: Saved) -> Floats:
    """(J, N) of all suites, one after the other."""
    return np.concatenate([saved.right[suite] for suite in SUITES], axis=1)


def by_suite_size(
    saved: Saved, drawn: Drawn, groups: dict[str, Indices], *, seed: int, draws: int = 400
) -> list[dict[str, Any]]:
    """Spearman's rho of a suite of n pairs with every use: mean and limits over draws of the pairs."""
    everything = pooled(saved)
    total = everything.shape[1]
    rows = []
    for size in (*(size for size in SIZES if size < total), total):
        random = np.random.default_rng([seed, size])
        read = np.stack([_accuracy(everything, random, size) for _ in range(draws if size < total else 1)])
        for group, judges in groups.items():
            for use, values in drawn.uses.items():
                known = measured(drawn, use, judges)
                if len(known) >= LEAST:
                    found = spearman(read[:, known], np.broadcast_to(values[0, known], (len(read), len(known))))
                    rows.append({"judges": group, "use": use, "n": len(known), "pairs": size, **_spread(found)})
    return rows


def power(
    saved: Saved, drawn: Drawn, groups: dict[str, Indices], *, seed: int, draws: int = 200
) -> list[dict[str, Any]]:
    """Share of draws of m judges and n pairs in which p is below `SIGNIFICANT`, and rho positive."""
    everything = pooled(saved)
    asked = [
        (group, use, known, count, size)
        for group, judges in groups.items()
        for use in drawn.uses
        for known in [measured(drawn, use, judges)]
        for count in JUDGES
        for size in PAIRS
        if count <= len(known) and size <= everything.shape[1]
    ]
    rows = []
    for group, use, known, count, size in track(asked, "what smaller studies see", transient=True):
        random = np.random.default_rng([seed, count, size])
        hits = sum(_seen(everything, drawn.uses[use][0], known, count, size, random, seed) for _ in range(draws))
        rows.append({"judges": group, "use": use, "m": count, "pairs": size, "share": hits / draws, "draws": draws})
    return rows


def six_models(
    drawn: Drawn, suite: str, groups: dict[str, Indices], *, seed: int, draws: int = 2000
) -> list[dict[str, Any]]:
    """Spearman's rho of a whole suite over subsets of six: median, limits, shares with p < .05 and below zero."""
    rows = []
    for group, judges in groups.items():
        for place, use in enumerate(drawn.uses):
            known = measured(drawn, use, judges)
            if len(known) < SIX:
                continue
            random = np.random.default_rng([seed, place])
            subsets = np.stack([random.choice(known, SIX, replace=False) for _ in range(draws)])
            read, values = drawn.accuracies[suite][0, subsets], drawn.uses[use][0, subsets]
            found = spearman(read, values)
            seen = [permutation_p(*pair, seed) < SIGNIFICANT for pair in zip(read, values, strict=True)]
            shares = {"significant": float(np.mean(seen)), "below_zero": float(np.mean(found < 0))}
            rows.append({"judges": group, "use": use, "n": len(known), "suite": suite, **_spread(found), **shares})
    return rows


def published() -> list[dict[str, Any]]:
    """What was published of six models, with its exact p."""
    return [{"use": use, "models": SIX, "spearman": rho, "p": exact_p(rho, SIX)} for use, rho in PUBLISHED.items()]


def _seen(
    everything: Floats,
    values: Floats,
    known: Indices,
    count: int,
    size: int,
    random: np.random.Generator,
    seed: int,
) -> bool:
    subset = random.choice(known, count, replace=False)
    read = _accuracy(everything[subset], random, size)
    p = permutation_p(read, values[subset], seed, PERMUTATIONS)
    return p < SIGNIFICANT and bool(spearman(read, values[subset]) > 0)


def _accuracy(everything: Floats, random: np.random.Generator, size: int) -> Floats:
    """(J,) on ``size`` pairs, without those on which a judge has no verdict; NaN where it has none at all."""
    pairs = random.choice(everything.shape[1], size, replace=False)
    part = everything[:, pairs]
    there = ~np.isnan(part)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(there, part, 0).sum(axis=1) / there.sum(axis=1))


def _spread(found: Floats) -> dict[str, float]:
    """Mean, median and limits of what is defined, over the draws."""
    known = found[~np.isnan(found)]
    low, median, high = np.quantile(known, [LIMITS[0], 0.5, LIMITS[1]]).tolist() if len(known) else [float("nan")] * 3
    mean = float(known.mean()) if len(known) else float("nan")
    return {"mean": mean, "low": low, "median": median, "high": high, "draws": len(found)}
