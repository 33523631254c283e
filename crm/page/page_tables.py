"""What the page shows of a ranking. In: a `PartialRanking`. Out: frames with rounded numbers, lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from crm.page.export import table_of
from crm.page.ranker import PartialRanking
from crm.page.reasons import Change, Duel

HEADINGS: Mapping[str, str] = {
    "rank": "Rank",
    "model": "Model",
    "win_rate": "Win rate %",
    "low": "Low",
    "high": "High",
    "rank_low": "Possible rank",
    "length_controlled": "Length-controlled %",
    "n": "Queries",
    "unread": "Unread (lost)",
    "mean_words": "Mean words",
    "tied_with": "Not distinguishable from",
}
"""Of the columns that can be chosen; a topic is its own heading."""
PERCENT = ("win_rate", "low", "high", "length_controlled")
ALWAYS = ("Rank", "Model", "Win rate %")
TOPICS = ("Rank", "Model", "Overall")
"""Headings that a table by topic begins with."""
CHANGES = ("Model", "Rank, first", "Rank, second", "Win rate %, first", "Win rate %, second", "Change")
DUELS = ("Query", "Topic", "Preferred %", "Shown first", "Shown second")
USUAL = ("Low", "High", "Possible rank", "Length-controlled %", "Queries", "Mean words")
ABOUT_COLUMNS = (
    "Win rate: how often, on average, this person would prefer the model's response to the baseline's, with a 95 % "
    "interval over queries. Possible rank: 1 plus the number of models that are significantly better. Not "
    "distinguishable from: the models that are neither significantly better nor worse. Length-controlled: the win rate "
    "if all responses were as long as the baseline's. Unread: queries on which the judge could not read the model's "
    "response, for it is too long; they count as lost."
)


def overall(progress: PartialRanking, columns: Sequence[str]) -> pd.DataFrame:
    """A row a model, with `ALWAYS` and the chosen ``columns``; percentages with one decimal."""
    table = table_of(progress)
    for name in PERCENT:
        if name in table:
            table[name] = (100 * table[name]).round(1)
    if "mean_words" in table:
        table["mean_words"] = table["mean_words"].round(0).astype(int)
    shown = table.rename(columns=dict(HEADINGS))
    always = ALWAYS if progress.board is None or not progress.board.unread else (*ALWAYS, HEADINGS["unread"])
    wanted = [name for name in HEADINGS.values() if name in shown and (name in always or name in columns)]
    return _with_blanks(shown[wanted])


def by_topic(progress: PartialRanking) -> pd.DataFrame:
    """Win rates in percent, overall and a column a topic."""
    if progress.board is None:
        return pd.DataFrame(columns=list(TOPICS))
    table = progress.board.frame("topics").rename(columns=dict(zip(("rank", "model", "overall"), TOPICS, strict=True)))
    numbers = table.columns.difference(["Rank", "Model"])
    table[numbers] = (100 * table[numbers]).round(1)
    return _with_blanks(table)


def status(progress: PartialRanking, in_line: int) -> str:
    """How far it is, in one line."""
    if progress.board is None and not progress.complete:
        return f"Waiting for the judge, {in_line} in line ..." if in_line > 1 else "Reading the first queries ..."
    if progress.board is None:
        return "The judge gave no verdict on any comparison: what it was given is too long, or means nothing to it."
    state = "Complete" if progress.complete else "So far"
    lost = f"; {told}" if (told := progress.board.explain_unread()) else ""
    return (
        f"{state}: {progress.done} of {progress.total} queries, {len(progress.part.authors)} models against "
        f"{progress.part.baseline}, {progress.seconds:.1f} s{lost}"
    )


def changes(change: Change) -> pd.DataFrame:
    """A row a model: ranks and win rates (percent) in both rankings, the greatest gain first."""
    table = change.table.copy()
    numbers = ["win_rate_first", "win_rate_second", "change"]
    table[numbers] = (100 * table[numbers]).round(1)
    return table.set_axis(list(CHANGES), axis="columns")


def duel_rows(found: Sequence[Duel]) -> pd.DataFrame:
    """A row a query: the judge's probability in percent, and those of the two orders."""
    rows = [
        (
            duel.query if len(duel.query) <= 120 else duel.query[:117] + "...",
            duel.topic,
            *(round(100 * share, 1) for share in (duel.probability, duel.shown_first, duel.shown_second)),
        )
        for duel in found
    ]
    return pd.DataFrame(rows, columns=list(DUELS))


def _with_blanks(table: pd.DataFrame) -> pd.DataFrame:
    """Missing numbers (the baseline has no interval) as empty cells."""
    return table.astype(object).where(table.notna(), "")
