"""Tables as Markdown, CSV and LaTeX files and in the terminal; numbers, captions and cells as they all show them."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crm.io.files import replace_file
from crm.schema import Result


def number(value: float | None, low: float | None = None, high: float | None = None, digits: int = 3) -> str:
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


def suite_table(results: Mapping[str, Sequence[Result]]) -> pd.DataFrame:
    """Accuracy: suites by rows, one column per key of ``results`` (a head, a run), cells ``value [low, high]``.

    A suite that one of them lacks shows a dash. The column ``n`` gives the largest number of samples of the row.
    """
    rows: dict[str, dict[str, Any]] = {}
    for name, items in results.items():
        for item in items:
            if item.metric == "accuracy":
                row = rows.setdefault(item.suite, {"suite": item.suite, "n": 0})
                row["n"] = max(row["n"], item.n)
                row[name] = number(item.value, item.low, item.high)
    return pd.DataFrame(list(rows.values()), columns=["suite", "n", *results]).fillna("–")


def markdown_text(frame: pd.DataFrame, caption: str = "") -> str:
    """A GitHub table with the caption in italics above it; ``|`` and line breaks in cells are kept inside the cell."""
    safe = frame.map(_markdown_cell).rename(columns=_markdown_cell)
    # Numbers are formatted here already: tabulate would otherwise rewrite text such as 1e3 or 007.
    aligned = ["right" if pd.api.types.is_numeric_dtype(kind) else "left" for kind in frame.dtypes]
    table = safe.to_markdown(index=False, disable_numparse=True, colalign=aligned if len(frame) else None)
    line = " ".join(caption.split())
    return (f"_{line}_\n\n" if line else "") + str(table) + "\n"


def csv_text(frame: pd.DataFrame, caption: str = "") -> str:
    """CSV with full-precision numbers; a caption is one ``#`` line before the header (``read_csv(comment="#")``).

    White space in text becomes one space, and text that a spreadsheet would run as a formula gets an apostrophe. If
    any has a ``#``, all are quoted, so that it starts no comment.
    """
    line, cells = _csv_cell(caption).replace('"', "'"), frame.map(_csv_cell).rename(columns=_csv_cell)
    quoting = csv.QUOTE_NONNUMERIC if "#" in cells.to_csv(index=False) else csv.QUOTE_MINIMAL
    table = cells.to_csv(index=False, lineterminator="\n", quoting=quoting)
    return (f'#,"{line}"\n' if line else "") + str(table)


def latex_text(frame: pd.DataFrame, caption: str = "") -> str:
    """A ``table`` with rules of booktabs, for LuaLaTeX or XeLaTeX; numbers are written as in Markdown."""
    line = re.sub(r"([&%$#_{}])", r"\\\1", " ".join(caption.split())) or None
    table = frame.map(cell_text).to_latex(index=False, escape=True, caption=line, position="htbp")
    return f"% \\usepackage{{booktabs}}\n{table}"


def write_table(
    folder: Path | str, name: str, frame: pd.DataFrame, caption: str = "", shown: pd.DataFrame | None = None
) -> None:
    """Write ``name.md``, ``name.csv`` and ``name.tex`` under ``folder``; Markdown and LaTeX of ``shown``, if given."""
    people = frame if shown is None else shown
    replace_file(Path(folder) / f"{name}.md", markdown_text(people, caption))
    replace_file(Path(folder) / f"{name}.csv", csv_text(frame, caption))
    replace_file(Path(folder) / f"{name}.tex", latex_text(people, caption))


def print_table(frame: pd.DataFrame, title: str, file: TextIO | None = None) -> None:
    """Print ``frame`` under ``title``, to standard output unless a ``file`` is given; no name is cut."""
    console = Console(file=file or sys.stdout)
    if not console.is_terminal:
        console.width = 100_000
    table = Table()
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        table.add_column(Text(str(name)), overflow="fold", no_wrap=pd.api.types.is_numeric_dtype(kind))
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(cell_text(value)) for value in row))  # Text: brackets in a name would be read as markup
    console.print(Text(title, style="italic"))
    console.print(table)


def cell_text(value: Any) -> str:
    """A cell for people."""
    return number(value) if isinstance(value, float) or value is pd.NA or value is None else str(value)


def _csv_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = " ".join(value.split())
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


def _markdown_cell(value: Any) -> str:
    return " ".join(cell_text(value).replace("\\", "\\\\").replace("|", "\\|").split())
