"""A ranking as a file to keep. In: a `PartialRanking`. Out: CSV, JSON, PNG or a self-contained HTML page, as bytes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from crm.page.ranker import PartialRanking
from crm.report.plots import one_leaderboard
from crm.report.report import Section, render_report
from crm.report.tables import csv_text


def rows_of(progress: PartialRanking) -> list[dict[str, Any]]:
    """`Leaderboard.records`; none before the first query."""
    return progress.board.records() if progress.board else []


def table_of(progress: PartialRanking) -> pd.DataFrame:
    """`rows_of` as a table."""
    if progress.board is None:
        return pd.DataFrame(columns=["rank", "model", "win_rate"])
    return pd.DataFrame(rows_of(progress)).astype({"low": float, "high": float})


def facts(progress: PartialRanking, judge: str, version: str) -> dict[str, Any]:
    """What a ranking rests on, for people and machines."""
    return {
        "bank": progress.part.name,
        "judge": judge,
        "version": version,
        "baseline": progress.part.baseline,
        "criteria": list(progress.profile.told),
        "queries": progress.done,
        "queries_asked_for": progress.total,
        "models": len(progress.part.authors),
        "comparisons_without_a_verdict": progress.failed,
        "unread": progress.board.explain_unread() if progress.board else "",
    }


def as_csv(progress: PartialRanking, told: Mapping[str, Any]) -> bytes:
    """The table as `csv_text` has it, in which a spreadsheet computes nothing. UTF-8 with a mark, for Excel."""
    return csv_text(table_of(progress)).encode("utf-8-sig")


def as_json(progress: PartialRanking, told: Mapping[str, Any]) -> bytes:
    """``{"facts": ..., "profile": ..., "leaderboard": [...]}``; numbers that are not known are null."""
    document = {"facts": dict(told), "profile": asdict(progress.profile), "leaderboard": rows_of(progress)}
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode()


def as_png(progress: PartialRanking, told: Mapping[str, Any]) -> bytes:
    """The plot of `leaderboard.py`. Raises ``ValueError`` before the first query."""
    with tempfile.TemporaryDirectory() as folder:
        return _picture(progress, Path(folder)).read_bytes()


def as_html(progress: PartialRanking, told: Mapping[str, Any]) -> bytes:
    """A page that opens from disk and loads nothing. Raises ``ValueError`` before the first query."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        section = Section(
            "Leaderboard",
            "Win rate against the baseline under the criteria, with 95 % intervals over queries. rank_low is 1 plus "
            "the number of models that are significantly better; tied_with are neither better nor worse.",
            {"Models": table_of(progress)},
            {"Win rates": _picture(progress, folder)},
        )
        title = "My leaderboard"
        summary = "Criteria: " + " · ".join(progress.profile.told)
        page = render_report(folder / "page.html", title=title, sections=[section], facts=told, summary=summary)
        return page.read_bytes()


FORMATS: Mapping[str, tuple[str, Callable[[PartialRanking, Mapping[str, Any]], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "json": ("application/json", as_json),
    "png": ("image/png", as_png),
    "html": ("text/html; charset=utf-8", as_html),
}
"""Media type and function, by the ending of the file."""


def _picture(progress: PartialRanking, folder: Path) -> Path:
    if progress.board is None:
        raise ValueError("leaderboard: nothing has been scored for this profile yet; rank it first")
    title = " · ".join(progress.profile.told)
    return one_leaderboard(folder / "leaderboard.png", progress.board.frame(), title, progress.board.baseline)
