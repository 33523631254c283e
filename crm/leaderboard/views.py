"""A leaderboard in; its tables out: win rates, topics, Bradley-Terry strengths, length-controlled rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from crm.leaderboard.ratings import LengthControl, bound, bradley_terry, elo
from crm.report.tables import distinct, number

if TYPE_CHECKING:
    from crm.leaderboard.ranking import Leaderboard, Row


def view_of(board: Leaderboard, view: str, sort: str, ascending: bool | None) -> pd.DataFrame:
    """What `Leaderboard.frame` says."""
    if view not in VIEWS:
        raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
    table: pd.DataFrame = _VIEWS[view](board)
    if sort not in table.columns:
        raise ValueError(f"sort: {sort!r} is not a column of {view}, choose one of {', '.join(table.columns)}")
    rising = sort in ("rank", "rank_low", "model") if ascending is None else ascending
    return table.sort_values(sort, ascending=rising, kind="stable").reset_index(drop=True)


def records_of(board: Leaderboard) -> list[dict[str, Any]]:
    """What `Leaderboard.records` says."""
    controlled = board.length_control
    found = []
    for row in board.rows:
        record = _plain(row)
        record["rank_high"] = row.rank_low + len(row.tied_with)  # models that are not worse come before it
        record |= {name: _or_none(values.get(row.model)) for name, values in _length_columns(controlled).items()}
        record["length_controlled"] = 0.5 if row.model == board.baseline else record["length_controlled"]
        found.append(record | _topic_rates(row, board, tuple(record)))
    return found


def _plain(row: Row) -> dict[str, Any]:
    """Numbers of a model; its interval is None where there is none."""
    low, high = (row.interval.low, row.interval.high) if row.interval else (None, None)
    return {
        "rank": row.rank,
        "rank_low": row.rank_low,
        "model": row.model,
        "win_rate": row.win_rate,
        "low": low,
        "high": high,
        "n": row.n,
        "unread": row.unread,
        "mean_words": row.mean_words,
        "tied_with": ", ".join(row.tied_with),
    }


def _topic_rates(row: Row, board: Leaderboard, taken: Sequence[str]) -> dict[str, float | None]:
    """Win rates by topic; None on one that a model was not asked about.

    A topic that is called like a column in ``taken`` gets the name "topic ..." (and so does that name itself).
    """
    known = {topic: interval.mean for topic, interval in row.topics.items()}
    rates = dict.fromkeys(board.topics, 0.5) if row.model == board.baseline else known
    return {distinct(topic, "topic ", taken): rates.get(topic) for topic in board.topics}


def _length_columns(control: LengthControl) -> dict[str, dict[str, float]]:
    return {
        "length_controlled": control.rates,
        "length_controlled_low": control.low,
        "length_controlled_high": control.high,
    }


def _or_none(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _win_rate(board: Leaderboard) -> pd.DataFrame:
    return pd.DataFrame(_plain(row) for row in board.rows).astype({"low": float, "high": float})


def _topics(board: Leaderboard) -> pd.DataFrame:
    first = ("rank", "model", "overall")
    return pd.DataFrame(
        dict(zip(first, (row.rank, row.model, row.win_rate), strict=True)) | _topic_rates(row, board, first)
        for row in board.rows
    )


def _bradley_terry(board: Leaderboard) -> pd.DataFrame:
    strengths, pairs = bradley_terry(board.outcomes)
    columns = {"elo": {name: elo(value) for name, value in strengths.items()}}
    table = _fitted(board, columns).assign(pairs=pairs)
    table.insert(2, "bound", [bound(strengths[model]) for model in table["model"]])
    return table


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """For people: ``at least 4474`` where a rating has no finite value."""
    if "bound" not in frame:
        return frame
    if not any(frame["bound"]):
        return frame.drop(columns="bound")
    both = zip(frame["bound"], frame["elo"], strict=True)
    elos = [f"{limit} {value:.0f}" if limit else number(value) for limit, value in both]
    return frame.assign(elo=elos).drop(columns="bound")


def _length_controlled(board: Leaderboard) -> pd.DataFrame:
    found = board.length_control
    columns = {"length_controlled": {**found.rates, board.baseline: 0.5}, "low": found.low, "high": found.high}
    return _fitted(board, columns).assign(length_coefficient=found.coefficient)


def _fitted(board: Leaderboard, columns: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Ranked by the first of ``columns``, with the raw win rate and the length beside it; last and without a rank are
    models that have no number there."""
    score = next(iter(columns.values()))
    known = {row.model for row in board.rows if not math.isnan(score[row.model])}
    ranks = len(known) > 1  # the baseline alone is no ranking
    rows = sorted(
        board.rows,
        key=lambda row: (row.model not in known, -score[row.model] if row.model in known else -row.win_rate, row.model),
    )
    table: list[dict[str, Any]] = [
        {
            "rank": place if ranks and row.model in known else None,
            "model": row.model,
            **{name: values.get(row.model, math.nan) for name, values in columns.items()},
            "win_rate": row.win_rate,
            "unread": row.unread,
            "mean_words": row.mean_words,
        }
        for place, row in enumerate(rows, start=1)
    ]
    return pd.DataFrame(table).astype({"rank": "int64" if len(known) == len(board.rows) else "Int64"})


_VIEWS: dict[str, Callable[[Leaderboard], pd.DataFrame]] = {
    "win_rate": _win_rate,
    "topics": _topics,
    "bradley_terry": _bradley_terry,
    "length_controlled": _length_controlled,
}
VIEWS = tuple(_VIEWS)
"""Names of the tables; the first is the leaderboard itself."""
