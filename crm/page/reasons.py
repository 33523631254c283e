"""Explain a place in a ranking: the queries that a model wins and loses, and what another person changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from pydantic import ConfigDict
from scipy.special import expit

from crm.leaderboard.agreement import compare
from crm.leaderboard.ranking import Leaderboard
from crm.page.profile import ProfileError
from crm.page.ranker import Ranking
from crm.report.statistics import Interval

SEED = 1
"""Of bootstrap intervals."""


@dataclass(frozen=True)
class Duel:
    """A model against the baseline on one query. Probabilities are that the model's response is preferred."""

    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True, extra="forbid")

    query_id: str
    """As ``/api/sentences`` takes it."""
    topic: str
    query: str
    response: str
    baseline_response: str
    probability: float
    """From 0 to 1."""


def duels(ranking: Ranking, model: str) -> list[Duel]:
    """Every query on which ``model`` was read, the most clearly won first. Raises `ProfileError` for another model."""
    part = ranking.part
    if model not in part.responses or model == part.baseline:
        others = ", ".join(name for name in part.authors if name != part.baseline)
        raise ProfileError(
            f"model: {model!r} is not a model that is compared with {part.baseline!r}; there are {others}"
        )
    logits, baseline = ranking.logits(model), part.responses[part.baseline]
    found = [
        Duel(
            query.id,
            query.topic,
            "\n\n".join(turn.content for turn in query.prompt),
            part.responses[model][query.id],
            baseline[query.id],
            float(expit(logits[query.id])),
        )
        for query in part.queries
        if query.id in logits
    ]
    return sorted(found, key=lambda duel: (-duel.probability, duel.query_id))


def typical(found: Sequence[Duel]) -> list[Duel]:
    """Of `duels`, the win and the loss in the middle; a tie where there is neither."""
    wins = [duel for duel in found if duel.probability > 0.5]
    losses = [duel for duel in found if duel.probability < 0.5]
    return [group[len(group) // 2] for group in (wins, losses) if group] or list(found[:1])


@dataclass(frozen=True)
class Change:
    """Two rankings side by side: Kendall's ``tau`` with a bootstrap interval over shared queries, and a row a model.

    ``table`` has model, rank_first, rank_second, win_rate_first, win_rate_second and change (of the win rate), the
    greatest gain first.
    """

    tau: Interval
    table: pd.DataFrame


def change(first: Leaderboard, second: Leaderboard) -> Change:
    """Raises ``ValueError`` for rankings of other models or without a query in common."""
    tau = compare(first, second, SEED)
    frames = [board.frame()[["model", "rank", "win_rate"]].set_index("model") for board in (first, second)]
    table = frames[0].add_suffix("_first").join(frames[1].add_suffix("_second"))
    table["change"] = table["win_rate_second"] - table["win_rate_first"]
    order = ["rank_first", "rank_second", "win_rate_first", "win_rate_second", "change"]
    return Change(tau, table[order].sort_values("change", ascending=False, kind="stable").reset_index())
