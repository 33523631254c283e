"""DataFrames as Markdown, CSV and LaTeX tables under a caption."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crm.io.files import replace_file
from crm.schema import Result

_LATEX = {"≈": r"$\approx$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "−": "$-$", "<": "$<$", ">": "$>$"}
"""Signs that the customary fonts lack."""


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 3) -> str:
    """``0.953 [0.941, 0.964]``, or without limits ``0.953``; tiny ones ``<0.001``, missing ones a dash."""
    if value is None or pd.isna(value):
        return "–"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        least = 10.0**-digits
        return f"<{least:.{digits}f}" if 0 < value < least / 2 else f"{value:z.{digits}f}"
    return f"{value:z.{digits}f} [{low:z.{digits}f}, {high:z.{digits}f}]"


def caption(n: int | None = None, seeds: Sequence[int] = (), config: str = "", commit: str = "") -> str:
    """The line under which a table travels: ``n = 512; seeds 1, 2; config scalar; commit 52eb798``."""
    parts = [
        f"n = {n}" if n is not None else "",
        f"seeds {', '.join(map(str, seeds))}" if seeds else "",
        f"config {config}" if config else "",
        f"commit {commit}" if commit else "",
    ]
    return "; ".join(part for part in parts if part)


def distinct(name: str, prefix: str, taken: Collection[str]) -> str:
    """A column's ``name``, with ``prefix`` before it where it is one of ``taken``; different names stay different."""
    bare = name
    while bare.startswith(prefix):
        bare = bare.removeprefix(prefix)
    return prefix + name if bare in taken else name


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

    White space in text becomes one space, and text that a spreadsheet would run as a formula gets an apostrophe.
    """
    buffer = io.StringIO()
    if line := " ".join(caption.split()):
        csv.writer(buffer, lineterminator="\n").writerow([f"# {line}"])
    frame.map(_csv_cell).rename(columns=_csv_cell).to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()


def latex_text(frame: pd.DataFrame, caption: str = "") -> str:
    """A ``table`` with rules of booktabs, the caption above it; numbers are written as in Markdown.

    Letters that LaTeX lacks in its standard fonts (other scripts) are kept, for LuaLaTeX or XeLaTeX.
    """
    aligned = "".join("r" if pd.api.types.is_numeric_dtype(kind) else "l" for kind in frame.dtypes)
    shown = frame.map(lambda value: number(value) if isinstance(value, float) or value is pd.NA else str(value))
    line = re.sub(r"([&%$#_{}])", r"\\\1", " ".join(caption.split())) or None
    table = str(shown.to_latex(index=False, escape=True, column_format=aligned, caption=line, position="htbp"))
    for sign, command in _LATEX.items():
        table = table.replace(sign, command)
    return "% \\usepackage{booktabs}\n" + table


def write_table(
    folder: Path | str, name: str, frame: pd.DataFrame, caption: str = "", shown: pd.DataFrame | None = None
) -> tuple[Path, Path, Path]:
    """Write ``name.md``, ``name.csv`` and ``name.tex`` under ``folder``; returns the paths in this order.

    ``shown``, where given, is the same for people: it goes into Markdown and LaTeX in place of ``frame``.
    """
    folder = Path(folder)
    shown = frame if shown is None else shown
    return (
        replace_file(folder / f"{name}.md", markdown_text(shown, caption)),
        replace_file(folder / f"{name}.csv", csv_text(frame, caption)),
        replace_file(folder / f"{name}.tex", latex_text(shown, caption)),
    )


def remove_table(folder: Path, name: str) -> None:
    """Remove what `write_table` wrote at an earlier time and would be wrong now."""
    for ending in ("md", "csv", "tex"):
        (folder / f"{name}.{ending}").unlink(missing_ok=True)


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = " ".join(value.split())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _markdown_cell(value: Any) -> str:
    if isinstance(value, float) or value is pd.NA:
        return number(value)
    return " ".join(str(value).replace("\\", "\\\\").replace("|", "\\|").split())
