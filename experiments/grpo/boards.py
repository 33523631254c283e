"""Leaderboards that include the policies, and the rank of each user's own policy.

The simulation's authors, the start and the policies answer the same queries; win rates are against the authors'
baseline, by the reward model as a leaderboard has them, and by the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from scipy.special import expit

from crm.leaderboard.bank.opening import simulate_bank
from crm.rewards.scoring import Rewards
from experiments.grpo.measure import PER_TOPIC, Ask, gold, proxies, won

START, CONDITIONED = "start", "conditioned on its criterion"


def boards(
    rewards: Rewards, courses: Mapping[str, Any], conditioned: Any | None, criteria: Sequence[str]
) -> pd.DataFrame:
    """Columns ``user``, ``model``, ``win_rate``, ``rank``, ``true_win_rate`` and ``true_rank``.

    ``courses`` are those of one seed by criterion, each of a policy that never saw it. ``conditioned`` is that of the
    one policy that reads the user's criterion in its prompt.
    """
    simulated = simulate_bank(seed=0, queries_per_topic=PER_TOPIC).bank
    asked = {query.id: query.prompt[0].content for query in simulated.queries}
    fixed = {name: [texts[key] for key in asked] for name, texts in simulated.responses.items()}
    fixed[START] = next(iter(courses.values()))["course"][0]["texts"]
    fixed |= {policy_name(criterion): course["selected"]["texts"] for criterion, course in courses.items()}
    frames = []
    for place, criterion in enumerate(criteria):
        own = conditioned["selected"]["texts"][place * len(asked) : (place + 1) * len(asked)] if conditioned else None
        texts = fixed | ({CONDITIONED: own} if own else {})
        frames.append(_board(rewards, criterion, list(asked.values()), texts, simulated.baseline))
    return pd.concat(frames, ignore_index=True)


def policy_name(criterion: str) -> str:
    """Its row in a leaderboard."""
    return f"policy: {criterion.removeprefix('Prefers ')}"


def _board(
    rewards: Rewards, criterion: str, queries: Sequence[str], texts: Mapping[str, Sequence[str]], baseline: str
) -> pd.DataFrame:
    asks = [Ask(query, criterion) for query in queries]
    scores = {name: proxies(rewards, asks, own) for name, own in texts.items()}
    golds = {name: [gold(criterion, text) for text in own] for name, own in texts.items()}
    rows = [
        {
            "user": criterion,
            "model": name,
            "win_rate": fmean(_chance(*pair) for pair in zip(scores[name], scores[baseline], strict=True)),
            "true_win_rate": fmean(won(*pair) for pair in zip(golds[name], golds[baseline], strict=True)),
        }
        for name in texts
        if name != baseline
    ]
    frame = pd.DataFrame(rows)
    for rate, rank in (("win_rate", "rank"), ("true_win_rate", "true_rank")):
        frame[rank] = frame[rate].rank(ascending=False, method="min").astype(int)
    return frame.sort_values("rank")


def _chance(own: float | None, other: float | None) -> float:
    """That the user prefers the first; who cannot be read loses."""
    if own is None or other is None:
        return 0.5 if own is other else float(own is not None)
    return float(expit(own - other))


def standing(board: pd.DataFrame, criteria: Sequence[str]) -> pd.DataFrame:
    """A user a row: ranks of the own policy, of the conditioned one, and the best of the others' policies."""
    rows = []
    for criterion in criteria:
        ranks = board[board["user"] == criterion].set_index("model")[["rank", "true_rank"]]
        others = [policy_name(other) for other in criteria if other != criterion and policy_name(other) in ranks.index]
        row: dict[str, Any] = {"user": criterion, "models": len(ranks)}
        for column in ("rank", "true_rank"):
            row[f"own_{column}"] = int(ranks[column][policy_name(criterion)])
            row[f"conditioned_{column}"] = int(ranks[column][CONDITIONED]) if CONDITIONED in ranks.index else None
            row[f"others_{column}"] = int(ranks[column][others].min()) if others else None
        rows.append(row)
    return pd.DataFrame(rows)
