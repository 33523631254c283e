"""Tables read back from their own files: numbers unchanged, hostile cells harmless, captions kept."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from crm.report.tables import (
    caption,
    csv_text,
    latex_text,
    markdown_text,
    number,
    remove_table,
    suite_table,
    write_table,
)
from crm.schema import Result


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((0.9531, 0.9412, 0.9638), "0.953 [0.941, 0.964]"),
        ((0.5,), "0.500"),
        ((0.5, math.nan, math.nan), "0.500"),
        ((math.nan, 0.1, 0.2), "–"),
        ((-1.0, -1.0, -0.95, 2), "-1.00 [-1.00, -0.95]"),
        ((-0.0001, -0.0004, 0.2), "0.000 [0.000, 0.200]"),
    ],
)
def test_numbers_are_written_one_way(arguments: tuple[float, ...], text: str) -> None:
    assert number(*arguments) == text  # type: ignore[arg-type]


def test_caption_names_what_is_known() -> None:
    assert caption(512, (1, 2), "head=scalar", "52eb798") == "n = 512; seeds 1, 2; config head=scalar; commit 52eb798"
    assert caption() == ""
    assert caption(0) == "n = 0"


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", "\n=1", " =1", " \t\v=1", "＝1", '=HYPERLINK("x","y")'],
)
def test_formulas_are_neutralised_and_numbers_are_not(tmp_path: Path, text: str) -> None:
    frame = pd.DataFrame({"model": [text], text: [text], "value": [-1.25], "count": [-3]})
    _, path, _ = write_table(tmp_path, "t", frame)
    with path.open(newline="", encoding="utf-8") as file:
        header, row = list(csv.reader(file))
    safe = "'" + text.replace("\r", "\n").replace("\t", " ")
    assert header == ["model", safe, "value", "count"]
    assert row == [safe, safe, "-1.25", "-3"]


BREAKS = ("\r", "\n", "\r\n", "\t", "\r\r", "\t\r", "\n\t")


def cells_of(text: str) -> list[str]:
    """Cells as the most eager spreadsheet finds them: outside quotes a tab or any line break ends one."""
    inside, cells = False, [""]
    for letter in text:
        inside ^= letter == '"'
        if letter in ",\t\r\n" and not inside:
            cells.append("")
        else:
            cells[-1] += letter
    return [cell.strip('"') for cell in cells]


@pytest.mark.parametrize("start", ["=", "+", "-", "@"])
def test_no_line_break_or_tab_in_a_text_begins_a_cell_with_a_formula(start: str) -> None:
    for broken in BREAKS:
        names = [f"gpt{broken}{start}1+1", f"{broken}{start}1+1", f'a"{broken}{start}1+1', f"x{broken}"]
        frame = pd.DataFrame({"model": names, f"topic{broken}{start}2": [1.0, -2.5, 3.0, 4.0]})
        cells = cells_of(csv_text(frame, "=c"))
        assert "-2.5" in cells
        assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "-", "@")) and cell != "-2.5"]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1, max_size=5))
def test_no_csv_cell_begins_like_a_formula_and_numbers_survive(rows: list[tuple[str, float]]) -> None:
    text = csv_text(pd.DataFrame(rows, columns=["name", "value"]), "=a\n=b")
    cells = list(csv.reader(io.StringIO(text, newline="")))
    assert cells[0] == ["# =a =b"]
    assert [float(row[1]) for row in cells[2:]] == [value for _, value in rows]
    assert not any(row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n")) for row in cells[1:])


def test_csv_with_a_caption_is_read_back_in_full_precision(tmp_path: Path) -> None:
    frame = pd.DataFrame({"suite": ["D+", "T-"], "value": [1 / 3, 2 / 3], "n": [7, 8]})
    _, path, _ = write_table(tmp_path / "new", "suites", frame, "n = 7, seeds 1")
    assert path.read_text().startswith('"# n = 7, seeds 1"\nsuite,value,n\n')
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(itertools.islice(file, 1, None)))
    assert [(row["suite"], float(row["value"]), int(row["n"])) for row in rows] == [("D+", 1 / 3, 7), ("T-", 2 / 3, 8)]
    pd.testing.assert_frame_equal(pd.read_csv(path, skiprows=1), frame)


def test_markdown_keeps_its_columns_whatever_the_cells_hold() -> None:
    frame = pd.DataFrame({"a|b": ["x|y\nz", "007"], "value": [0.12345, math.nan], "n": [3, 4]})
    text = markdown_text(frame, "n = 2")
    lines = text.splitlines()
    assert lines[0] == "_n = 2_"
    assert len(lines) == 6
    assert {line.replace("\\|", "").count("|") for line in lines[2:]} == {4}
    assert "x\\|y z" in lines[4]
    assert "0.123" in lines[4]
    assert "007" in lines[5]
    assert "–" in lines[5]
    assert markdown_text(frame.iloc[:0]).count("\n") == 2


WRITTEN = {
    **{rf"\{character}": character for character in "&%$#_{}"},
    **{r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\textbar{}": "|"},
    **{r"\textless{}": "<", r"\textgreater{}": ">", r"\textendash{}": "–", r"\textemdash{}": "—"},
    **{r"$\approx$": "≈", r"$\leq$": "≤", r"$\geq$": "≥", r"$\times$": "×", "$-$": "−", "-{}": "-"},
    **{"{[}": "[", "{*}": "*"},
}
SPECIAL = re.compile("|".join(map(re.escape, sorted(WRITTEN, key=len, reverse=True))))


def read_latex(text: str) -> str:
    """What LaTeX sets for ``text``, which may hold no command but those that we know."""
    plain = SPECIAL.sub("", text)
    assert not set(plain) & set("&%$#_{}\\~^<>|"), plain
    assert "--" not in text
    return SPECIAL.sub(lambda found: WRITTEN[found[0]], text)


@settings(derandomize=True, deadline=None)
@given(st.lists(st.text(st.sampled_from("&%$#_{}\\~^<>|[]*-–≈ aB3é漢"), max_size=9), min_size=2, max_size=5))
@example(["[x]", "*", "--- a", "\\[2"])
def test_latex_is_read_back_as_it_was(cells: list[str]) -> None:
    frame = pd.DataFrame({"x_%": cells, "n": range(len(cells))})
    lines = latex_text(frame).splitlines()
    assert lines[lines.index(r"\toprule") + 1] == r"x\_\% & n \\"
    rows = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    for row, cell, number_of_row in zip(rows, cells, range(len(cells)), strict=True):
        text, _, rest = row.rpartition(" & ")
        assert rest == f"{number_of_row} \\\\"
        assert read_latex(text).replace("−", "-") == " ".join(cell.split())
        assert not text.startswith(("[", "*")), "LaTeX would read it as an argument of the end of the row above"


def test_intervals_dashes_and_minus_signs_in_latex(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"difference": [number(-0.05, -0.1, 0.02), "–"], "day": ["2026-11-22", "a--b"], "v": [-1.5, 2]}
    )
    *_, path = write_table(tmp_path, "t", frame, "95 % of D_a")
    lines = path.read_text().splitlines()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["t.csv", "t.md", "t.tex"]
    assert r"\caption{95 \% of D\_a}" in lines
    assert r"\begin{tabular}{llr}" in lines
    assert r"$-$0.050 [$-$0.100, 0.020] & 2026-11-22 & $-$1.500 \\" in lines
    assert r"\textendash{} & a-{}-b & 2.000 \\" in lines
    remove_table(tmp_path, "t")
    assert not list(tmp_path.iterdir())


def test_what_is_shown_may_differ_from_what_programs_read(tmp_path: Path) -> None:
    markdown, table, latex = write_table(
        tmp_path, "t", pd.DataFrame({"p": [1e-9]}), "", pd.DataFrame({"p value": ["<0.001"]})
    )
    assert float(pd.read_csv(table)["p"].item()) == 1e-9
    assert "<0.001" in markdown.read_text()
    assert r"\textless{}0.001" in latex.read_text()


def test_suite_table_shows_a_missing_suite_as_a_dash() -> None:
    def result(suite: str, n: int) -> Result:
        return Result(suite, "accuracy", 0.9, n, 0.01, 0.88, 0.92)

    table = suite_table({"scalar": [result("D+", 10), result("T+", 5)], "span": [result("D+", 12)]})
    assert table.to_dict("records") == [
        {"suite": "D+", "n": 12, "scalar": "0.900 [0.880, 0.920]", "span": "0.900 [0.880, 0.920]"},
        {"suite": "T+", "n": 5, "scalar": "0.900 [0.880, 0.920]", "span": "–"},
    ]
