"""Write a ranking as a file to keep: CSV, JSON, PNG or a self-contained HTML page."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from crm.page.ranker import Ranking
from crm.report.plots import one_leaderboard
from crm.report.report import Section, render_report
from crm.report.tables import csv_text


def rows_of(ranking: Ranking) -> list[dict[str, Any]]:
    """`Leaderboard.records`; none where there is nothing to rank by."""
    return ranking.board.records() if ranking.board else []


def table_of(ranking: Ranking) -> pd.DataFrame:
    """`rows_of` as a table."""
    if ranking.board is None:
        return pd.DataFrame(columns=["rank", "model", "win_rate"])
    return pd.DataFrame(rows_of(ranking)).astype({"low": float, "high": float})


def facts(ranking: Ranking, judge: str, version: str) -> dict[str, Any]:
    """What a ranking rests on, for people and machines."""
    return {
        "bank": ranking.part.name,
        "judge": judge,
        "version": version,
        "baseline": ranking.part.baseline,
        "criteria": list(ranking.profile.told),
        "queries": len(ranking.part.queries),
        "models": len(ranking.part.authors),
        "comparisons_without_a_verdict": ranking.failed,
        "unread": ranking.board.explain_unread() if ranking.board else "",
    }


def as_csv(ranking: Ranking, told: Mapping[str, Any]) -> bytes:
    """The table as `csv_text` has it, in which a spreadsheet computes nothing. UTF-8 with a mark, for Excel."""
    return csv_text(table_of(ranking)).encode("utf-8-sig")


def as_json(ranking: Ranking, told: Mapping[str, Any]) -> bytes:
    """``{"facts": ..., "profile": ..., "leaderboard": [...]}``; numbers that are not known are null."""
    document = {"facts": dict(told), "profile": asdict(ranking.profile), "leaderboard": rows_of(ranking)}
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode()


def as_png(ranking: Ranking, told: Mapping[str, Any]) -> bytes:
    """The plot of `leaderboard.py`. Raises ``ValueError`` where there is no ranking."""
    with tempfile.TemporaryDirectory() as folder:
        return _picture(ranking, Path(folder)).read_bytes()


def as_html(ranking: Ranking, told: Mapping[str, Any]) -> bytes:
    """A page that opens from disk and loads nothing. Raises ``ValueError`` where there is no ranking."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        section = Section(
            "Leaderboard",
            "Win rate against the baseline under the criteria, with 95 % intervals over queries. rank_low is 1 plus "
            "the number of models that are significantly better; tied_with are neither better nor worse.",
            {"Models": table_of(ranking)},
            {"Win rates": _picture(ranking, folder)},
        )
        title = "My leaderboard"
        summary = "Criteria: " + " · ".join(ranking.profile.told)
        page = render_report(folder / "page.html", title=title, sections=[section], facts=told, summary=summary)
        return page.read_bytes()


FORMATS: Mapping[str, tuple[str, Callable[[Ranking, Mapping[str, Any]], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "json": ("application/json", as_json),
    "png": ("image/png", as_png),
    "html": ("text/html; charset=utf-8", as_html),
}
"""Media type and function, by the ending of the file."""


def _picture(ranking: Ranking, folder: Path) -> Path:
    if ranking.board is None:
        raise ValueError("leaderboard: the judge has no ranking for this profile")
    title = " · ".join(ranking.profile.told)
    return one_leaderboard(folder / "leaderboard.png", ranking.board.frame(), title, ranking.board.baseline)
