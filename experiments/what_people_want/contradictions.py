"""How often the winner depends on the criterion, where, and between which criteria.

A pair **flips** where criteria speak for both sides: a user with the one prefers A, a user with the other prefers B.
No single winner is right for such a pair, so a judge that does not see the criteria is right in one direction only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pandas as pd

from crm.report.statistics import cluster_interval
from crm.schema import Preference, prompt_key
from experiments.sources.rated import flips


def flip_share(rows: Sequence[Preference]) -> dict[str, Any]:
    """Pairs, those that flip, their share in [0, 1] with a 95 % interval clustered by prompt, and prompts."""
    if not rows:
        raise ValueError("rows: no preferences to count; give at least one")
    interval = cluster_interval([float(flips(row)) for row in rows], [prompt_key(row.prompt) for row in rows])
    return {
        "pairs": len(rows),
        "flips": sum(map(flips, rows)),
        "share": interval.mean,
        "low": interval.low,
        "high": interval.high,
        "prompts": interval.clusters,
    }


def disagreements(rows: Iterable[Preference]) -> pd.DataFrame:
    """How often two broad criteria that both decide a pair decide it differently: ``share`` of ``pairs``.

    One row for each two criteria that meet in a pair, the most contradictory first. For rows whose sides name each
    broad criterion at most once, as rated sets do.
    """
    met: Counter[tuple[str, str]] = Counter()
    against: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for_a, for_b = set(row.criteria_topics_a), set(row.criteria_topics_b)
        met.update(combinations(sorted(for_a | for_b), 2))
        against.update({_ordered(one, other) for one, other in product(for_a - for_b, for_b - for_a)})
    found = [
        {"criterion": one, "other": other, "pairs": met[one, other], "differently": against[one, other]}
        for one, other in sorted(met)
    ]
    frame = pd.DataFrame(found, columns=["criterion", "other", "pairs", "differently"])
    frame["share"] = frame["differently"] / frame["pairs"]
    return frame.sort_values(["share", "pairs"], ascending=False, kind="stable", ignore_index=True)


def by_topic(rows: Iterable[Preference]) -> pd.DataFrame:
    """`flip_share` of every topic, and the two broad criteria that stand against each other most often there."""
    topics: dict[str, list[Preference]] = {}
    for row in rows:
        topics.setdefault(row.topic or "none", []).append(row)
    found = []
    for name, members in sorted(topics.items()):
        opposed = Counter(
            _ordered(one, other)
            for row in members
            for one, other in product(sorted(set(row.criteria_topics_a)), sorted(set(row.criteria_topics_b)))
        )
        most = max(sorted(opposed), key=opposed.__getitem__) if opposed else None
        found.append(
            {
                "topic": name,
                **flip_share(members),
                "most opposed": " / ".join(most) if most else "",
                "times": opposed[most] if most else 0,
            }
        )
    return pd.DataFrame(found).sort_values("share", ascending=False, kind="stable", ignore_index=True)


def _ordered(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
