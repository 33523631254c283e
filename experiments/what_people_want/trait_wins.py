"""How often the response with more of a countable trait won (`crm.criteria.traits`).

It says what went with winning, not why anybody voted: longer responses also have more lists, and may be better.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from crm.criteria.traits import differences
from crm.report.statistics import cluster_interval
from crm.schema import Preference, prompt_key

FEWEST = 30
"""Pairs below which a topic says nothing about a trait."""


def traits_by_topic(rows: Iterable[Preference]) -> pd.DataFrame:
    """`trait_wins` within each topic, where a trait tells at least `FEWEST` pairs apart.

    ``against`` is the smaller of the two shares: near one half, voters of one topic want opposite things; the most
    contradictory first.
    """
    topics: dict[str, list[Preference]] = {}
    for row in rows:
        if row.topic is not None:
            topics.setdefault(row.topic, []).append(row)
    frames = [trait_wins(members).assign(topic=name) for name, members in sorted(topics.items())]
    columns = ["topic", "trait", "pairs", "share", "low", "high", "against"]
    if not frames:
        return pd.DataFrame(columns=columns)
    frame = pd.concat(frames).query("pairs >= @FEWEST")
    frame = frame.assign(against=frame["share"].where(frame["share"] <= 0.5, 1 - frame["share"]))
    return frame.sort_values(["against", "pairs"], ascending=False, kind="stable", ignore_index=True)[columns]


def trait_wins(rows: Iterable[Preference]) -> pd.DataFrame:
    """For each trait: pairs whose responses clearly differ in it, and the share in which the one with more won.

    Ties count one half. Intervals are 95 %, clustered by prompt. The trait that decides most comes first.
    """
    won: dict[str, list[float]] = {}
    prompts: dict[str, list[str]] = {}
    for row in rows:
        texts = ["\n\n".join(turn.content for turn in side) for side in (row.response_a, row.response_b)]
        for name, sign in differences(*texts):
            more = "a" if sign > 0 else "b"
            won.setdefault(name, []).append(0.5 if row.winner == "tie" else float(row.winner == more))
            prompts.setdefault(name, []).append(prompt_key(row.prompt))
    found = []
    for name in sorted(won):
        interval = cluster_interval(won[name], prompts[name])
        found.append(
            {"trait": name, "pairs": interval.n, "share": interval.mean, "low": interval.low, "high": interval.high}
        )
    frame = pd.DataFrame(found, columns=["trait", "pairs", "share", "low", "high"])
    order = (frame["share"] - 0.5).abs().sort_values(ascending=False, kind="stable").index
    return frame.loc[order].reset_index(drop=True)
