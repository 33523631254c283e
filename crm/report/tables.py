"""DataFrames in; ``.md``, ``.csv`` and ``.tex`` files out, under a caption, written whole or not at all."""

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

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # East Asian spreadsheets take these too
_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}"}
    # Signs that the customary fonts lack or show as others.
    | {"<": r"\textless{}", ">": r"\textgreater{}", "–": r"\textendash{}", "—": r"\textemdash{}"}
    | {"≈": r"$\approx$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "−": "$-$"}
)


def number(value: float, low: float | None = None, high: float | None = None, digits: int = 3) -> str:
    """``0.953 [0.941, 0.964]``, or without limits ``0.953``; a missing value is shown as a dash."""
    if value is None or pd.isna(value):
        return "–"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return f"{value:z.{digits}f}"
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

    Text that a spreadsheet would run as a formula (it begins with = + - @, or with white space before one of them, or
    with a line break) gets a leading apostrophe. Line breaks in text become line feeds and tabs become spaces: a lone
    carriage return or a tab would end the cell for some, and the next could begin with =. Numbers are untouched.
    """
    buffer = io.StringIO()
    line = " ".join(caption.split())
    if line:
        csv.writer(buffer, lineterminator="\n").writerow([f"# {line}"])
    safe = frame.astype(object).map(_csv_cell).rename(columns=_csv_cell)
    safe.to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()


def latex_text(frame: pd.DataFrame, caption: str = "") -> str:
    """A ``table`` with rules of booktabs, the caption above it; every special character in cells and names is escaped.

    Numbers are written as in Markdown, with a true minus sign, numeric columns to the right. Letters that LaTeX lacks
    in its standard fonts (other scripts) are kept, for LuaLaTeX or XeLaTeX.
    """
    safe = frame.map(_latex_cell).rename(columns=_latex_cell)
    aligned = "".join("r" if pd.api.types.is_numeric_dtype(kind) else "l" for kind in frame.dtypes)
    line = _latex_cell(caption) or None
    table = safe.to_latex(index=False, escape=False, column_format=aligned, caption=line, position="htbp")
    return "% \\usepackage{booktabs}\n" + str(table)


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
    text = value.replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ")
    return f"'{text}" if text.startswith("\n") or text.lstrip().startswith(_FORMULA) else text


def _markdown_cell(value: Any) -> str:
    if isinstance(value, float) or value is pd.NA:
        return number(value)
    return " ".join(str(value).replace("\\", "\\\\").replace("|", "\\|").split())


def _latex_cell(value: Any) -> str:
    text = number(value) if isinstance(value, float) or value is pd.NA else " ".join(str(value).split())
    # A minus sign before a number; elsewhere two hyphens stay two and do not become a dash.
    text = re.sub("-(?=-)", "-{}", re.sub(r"(?<![\w-])-(?=\d)", "−", text).translate(_LATEX))
    # After the end of a row LaTeX would take these for an argument of the line break.
    return f"{{{text[0]}}}{text[1:]}" if text.startswith(("[", "*")) else text
