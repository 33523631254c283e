"""DataFrames in; ``.md`` and ``.csv`` files out, with a caption line, written whole or not at all."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crm.evaluation.files import replace_file
from crm.schema import Result

_FORMULA = ("=", "+", "-", "@", "\t", "\n")


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 3) -> str:
    """``0.953 [0.941, 0.964]``, or without limits ``0.953``; a missing value is shown as a dash."""
    if value is None or pd.isna(value):
        return "–"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return f"{value:.{digits}f}"
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def caption(n: int | None = None, seeds: Sequence[int] = (), config: str = "", commit: str = "") -> str:
    """The line under which a table travels: ``n = 512; seeds 1, 2; config scalar; commit 52eb798``."""
    parts = [
        f"n = {n}" if n is not None else "",
        f"seeds {', '.join(map(str, seeds))}" if seeds else "",
        f"config {config}" if config else "",
        f"commit {commit}" if commit else "",
    ]
    return "; ".join(part for part in parts if part)


def suite_table(results: Mapping[str, Sequence[Result]], metric: str = "accuracy") -> pd.DataFrame:
    """Suites by rows, one column per key of ``results`` (a head, a configuration), cells ``value [low, high]``.

    A suite that one of them lacks shows a dash. The column ``n`` gives the largest number of samples of the row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, items in results.items():
        for item in items:
            if item.metric == metric:
                row = rows.setdefault(item.suite, {"suite": item.suite, "n": 0})
                row["n"] = max(row["n"], item.n)
                row[name] = number(item.value, item.low, item.high)
    return pd.DataFrame(list(rows.values()), columns=["suite", "n", *results]).fillna("–")


def markdown_text(frame: pd.DataFrame, caption: str = "") -> str:
    """A GitHub table with the caption in italics above it; ``|`` and line breaks in cells are kept inside the cell."""
    safe = frame.map(_markdown_cell).rename(columns=_markdown_cell)
    aligned = tuple("right" if pd.api.types.is_numeric_dtype(kind) else "left" for kind in frame.dtypes)
    # Numbers are formatted here already: tabulate would otherwise rewrite text such as 1e3 or 007.
    table = safe.to_markdown(index=False, disable_numparse=True, colalign=aligned if len(frame) else None)
    line = " ".join(caption.split())
    return (f"_{line}_\n\n" if line else "") + str(table) + "\n"


def csv_text(frame: pd.DataFrame, caption: str = "") -> str:
    """CSV with full-precision numbers; a caption is one ``#`` line before the header (``read_csv(skiprows=1)``).

    Text that a spreadsheet would run as a formula (it begins with = + - @, tab or line break) gets a leading
    apostrophe, and line breaks in text become line feeds; numbers are untouched.
    """
    buffer = io.StringIO()
    line = " ".join(caption.split())
    if line:
        csv.writer(buffer, lineterminator="\n").writerow([f"# {line}"])
    safe = frame.astype(object).map(_csv_cell).rename(columns=_csv_cell)
    safe.to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()


def write_table(folder: Path | str, name: str, frame: pd.DataFrame, caption: str = "") -> tuple[Path, Path]:
    """Write ``name.md`` and ``name.csv`` under ``folder``; returns both paths."""
    folder = Path(folder)
    return (
        replace_file(folder / f"{name}.md", markdown_text(frame, caption)),
        replace_file(folder / f"{name}.csv", csv_text(frame, caption)),
    )


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _markdown_cell(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return " ".join(str(value).replace("\\", "\\\\").replace("|", "\\|").split())
