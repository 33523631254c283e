"""A leaderboard in; its tables out: win rates, topics, Bradley-Terry strengths, length-controlled rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from crm.leaderboard.ratings import bradley_terry, elo, length_controlled

if TYPE_CHECKING:
    from crm.leaderboard.ranking import Leaderboard, Row


def view_of(board: Leaderboard, view: str, sort: str, ascending: bool | None) -> pd.DataFrame:
    """What `Leaderboard.frame` says."""
    if view not in VIEWS:
        raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
    if board.standing is not None and view != "win_rate":
        return view_of(board.shared(), view, sort, ascending)
    table: pd.DataFrame = _VIEWS[view](board)
    if sort not in table.columns:
        raise ValueError(f"sort: {sort!r} is not a column of {view}, choose one of {', '.join(table.columns)}")
    rising = sort in ("rank", "rank_low", "model") if ascending is None else ascending
    return table.sort_values(sort, ascending=rising, kind="stable").reset_index(drop=True)


def records_of(board: Leaderboard) -> list[dict[str, Any]]:
    """What `Leaderboard.records` says."""
    controlled: dict[str, float] = {}
    if len(board.outcomes.queries) > 1:
        controlled = {**length_controlled(board.outcomes)[0], board.baseline: 0.5}
    return [_record(row, board, controlled) for row in board.rows]


def _record(row: Row, board: Leaderboard, controlled: Mapping[str, float]) -> dict[str, Any]:
    low, high = (row.interval.low, row.interval.high) if row.interval else (None, None)
    numbers: dict[str, Any] = {
        "rank": row.rank,
        "rank_low": row.rank_low,
        "rank_high": row.rank_low + len(row.tied_with),  # models that are not worse come before it
        "model": row.model,
        "win_rate": row.win_rate,
        "low": low,
        "high": high,
        "n": row.n,
        "unread": row.unread,
        "mean_words": row.mean_words,
        "tied_with": ", ".join(row.tied_with),
        **({"length_controlled": controlled[row.model]} if controlled else {}),
    }
    for topic in board.topics:
        rate = 0.5 if row.model == board.baseline else row.topics[topic].mean if topic in row.topics else None
        numbers[f"topic {topic}" if topic in numbers else topic] = rate
    return numbers


def _win_rate(board: Leaderboard) -> pd.DataFrame:
    table = _numbers(board)
    if board.standing is None:
        return table
    verdicts = [row.verdict for row in board.rows]
    return table.drop(columns="tied_with").assign(**{f"top_{board.standing.top}": verdicts})


def _numbers(board: Leaderboard) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "rank": row.rank,
            "rank_low": row.rank_low,
            "model": row.model,
            "win_rate": row.win_rate,
            "low": row.interval.low if row.interval else np.nan,
            "high": row.interval.high if row.interval else np.nan,
            "n": row.n,
            "unread": row.unread,
            "mean_words": row.mean_words,
            "tied_with": ", ".join(row.tied_with),
        }
        for row in board.rows
    )


def _topics(board: Leaderboard) -> pd.DataFrame:
    table = []
    for row in board.rows:
        own = {topic: row.topics[topic].mean if topic in row.topics else np.nan for topic in board.topics}
        if row.model == board.baseline:
            own = dict.fromkeys(board.topics, 0.5)
        table.append({"rank": row.rank, "model": row.model, "overall": row.win_rate, **own})
    return pd.DataFrame(table)


def _bradley_terry(board: Leaderboard) -> pd.DataFrame:
    strengths, pairs = bradley_terry(board.outcomes)
    columns = {"elo": {name: elo(value) for name, value in strengths.items()}}
    return _fitted(board, columns).assign(pairs=pairs)


def _length_controlled(board: Leaderboard) -> pd.DataFrame:
    rates, beta = length_controlled(board.outcomes)
    columns = {"length_controlled": {**rates, board.baseline: 0.5}}
    return _fitted(board, columns).assign(length_coefficient=beta)


def _fitted(board: Leaderboard, columns: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Ranked by the first of ``columns``, with the raw win rate and the length beside it."""
    score = next(iter(columns.values()))
    rows = sorted(board.rows, key=lambda row: (-score[row.model], row.model))
    table: list[dict[str, Any]] = [
        {
            "rank": place,
            "model": row.model,
            **{name: values[row.model] for name, values in columns.items()},
            "win_rate": row.win_rate,
            "unread": row.unread,
            "mean_words": row.mean_words,
        }
        for place, row in enumerate(rows, start=1)
    ]
    return pd.DataFrame(table)


_VIEWS: dict[str, Callable[[Leaderboard], pd.DataFrame]] = {
    "win_rate": _win_rate,
    "topics": _topics,
    "bradley_terry": _bradley_terry,
    "length_controlled": _length_controlled,
}
VIEWS = tuple(_VIEWS)
"""Names of the tables; the first is the leaderboard itself."""
