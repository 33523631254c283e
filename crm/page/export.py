"""Write a ranking as a file to keep: CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from crm.leaderboard.ranking import Leaderboard
from crm.page.ranker import Ranking
from crm.page.schemas import About
from crm.report.tables import csv_text


def as_csv(ranking: Ranking, board: Leaderboard, about: About) -> bytes:
    """`Leaderboard.records`, in which a spreadsheet computes nothing. UTF-8 with a mark, for Excel."""
    table = pd.DataFrame(board.records()).astype({"low": float, "high": float})
    return csv_text(table).encode("utf-8-sig")


def as_json(ranking: Ranking, board: Leaderboard, about: About) -> bytes:
    """``{"facts": ..., "profile": ..., "leaderboard": [...]}``; numbers that are not known are null."""
    facts = {
        "bank": ranking.part.name,
        "judge": about.judge,
        "version": about.version,
        "baseline": ranking.part.baseline,
        "criteria": ranking.profile.judge_criteria,
        "queries": len(ranking.part.queries),
        "models": len(ranking.part.authors),
        "comparisons_without_a_verdict": ranking.failed,
        "unread": board.explain_unread(),
    }
    document = {"facts": facts, "profile": ranking.profile.model_dump(), "leaderboard": board.records()}
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False).encode()


FORMATS: Mapping[str, tuple[str, Callable[[Ranking, Leaderboard, Any], bytes]]] = {
    "csv": ("text/csv; charset=utf-8", as_csv),
    "json": ("application/json", as_json),
}
"""Media type and function, by the ending of the file."""
