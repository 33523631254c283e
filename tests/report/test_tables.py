"""Tables read back from their own files: numbers unchanged, hostile cells harmless; no name cut in a terminal."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from crm.report.tables import (
    caption,
    markdown_text,
    number,
    print_table,
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
        ((1e-9,), "<0.001"),
        ((0.0,), "0.000"),
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


def test_formulas_are_text_and_numbers_stay_numbers(tmp_path: Path) -> None:
    write_table(tmp_path, "t", pd.DataFrame({"model": ["=1+1", " @x", "plain"], "+v": [-1.25, 2.0, 3.0]}))
    rows = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ["model,'+v", "'=1+1,-1.25", "'@x,2.0", "plain,3.0"]


def test_csv_with_a_caption_is_read_back_in_full_precision(tmp_path: Path) -> None:
    frame = pd.DataFrame({"suite": ["D+", "T-"], "value": [1 / 3, 2 / 3], "n": [7, 8]})
    write_table(tmp_path / "new", "suites", frame, "n = 7, seeds 1")
    path = tmp_path / "new/suites.csv"
    assert path.read_text().startswith('"# n = 7, seeds 1"\nsuite,value,n\n')
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


def test_latex_escapes_what_it_would_read_as_commands(tmp_path: Path) -> None:
    frame = pd.DataFrame({"d_%": [number(0.05, -0.1, 0.02), "a&b ≈ <c>"], "v": [-1.5, 2]})
    write_table(tmp_path, "t", frame, "95 % of D_a")
    lines = (tmp_path / "t.tex").read_text().splitlines()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["t.csv", "t.md", "t.tex"]
    assert r"\caption{95 \% of D\_a}" in lines and r"\begin{tabular}{lr}" in lines
    assert r"d\_\% & v \\" in lines
    assert r"0.050 [-0.100, 0.020] & -1.500 \\" in lines
    assert r"a\&b ≈ <c> & 2.000 \\" in lines


def test_suite_table_shows_a_missing_suite_as_a_dash() -> None:
    def result(suite: str, n: int) -> Result:
        return Result(suite, "accuracy", 0.9, n, 0.01, 0.88, 0.92)

    table = suite_table({"scalar": [result("D+", 10), result("T+", 5)], "span": [result("D+", 12)]})
    assert table.to_dict("records") == [
        {"suite": "D+", "n": 12, "scalar": "0.900 [0.880, 0.920]", "span": "0.900 [0.880, 0.920]"},
        {"suite": "T+", "n": 5, "scalar": "0.900 [0.880, 0.920]", "span": "–"},
    ]


NAMES = ["linden-preview-2026-11-23-instruct", "someone/a-very-long-name-of-a-reward-model-with-8B", "[bold]odd[/bold]"]
FRAME = pd.DataFrame(
    {"rank": [1, 2, 3], "model": NAMES, "win_rate": [0.75, 0.5, 0.25], "why [x]": ["0.5 [0.4, 0.6]", "–", ""]}
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 200])
def test_a_terminal_folds_names_and_keeps_numbers_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    out = Terminal()
    print_table(FRAME, "Accuracy (some/folder)", out)
    text = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert max(map(len, text.splitlines())) <= columns and "…" not in text
    folded = "".join(line.split("│")[2].strip() for line in text.splitlines() if "│" in line)
    assert folded == "".join(NAMES)
    assert [number in text for number in ("0.750", "0.500", "0.250")] == [True] * 3
