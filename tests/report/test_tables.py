"""Tables read back from their files, hostile cells harmless, no name cut in a terminal; plots show what went in."""

import csv
import io
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report import plots
from crm.report.tables import markdown_text, number, print_table, suite_table, write_table
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


def test_formulas_are_text_and_numbers_stay_numbers(tmp_path: Path) -> None:
    write_table(tmp_path, "t", pd.DataFrame({"model": ["=1+1", " @x", "plain"], "+v": [-1.25, 2.0, 3.0]}))
    rows = (tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()
    assert rows == ["model,'+v", "'=1+1,-1.25", "'@x,2.0", "plain,3.0"]


def test_a_hash_in_a_csv_is_no_comment(tmp_path: Path) -> None:
    """In its first cell, in a later one, in a column's name; numbers stay numbers, and missing ones missing."""
    frame = pd.DataFrame(
        {"model": ["#1 bot", "C# coder, 'v2'", "plain"], "v": [1 / 3, math.nan, 2.0], "in #": [1, 2, 3]}
    )
    frame["by"] = ["x # y", None, "#"]
    write_table(tmp_path, "t", frame, "asked for #1, =1+1")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "t.csv", comment="#"), frame)
    caption, *rows = csv.reader(io.StringIO((tmp_path / "t.csv").read_text(encoding="utf-8")))
    assert caption == ["#", "asked for #1, =1+1"] and [len(row) for row in rows] == [4] * 4, "no cell is a formula"


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
    assert r"\caption{95 \% of D\_a}" in lines and r"d\_\% & v \\" in lines
    assert r"0.050 [-0.100, 0.020] & -1.500 \\" in lines and r"a\&b ≈ <c> & 2.000 \\" in lines


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


MODELS = ["terse-1", "a-very-long-model-name-indeed-2025-preview", "cost$ave$", "Quill 7B", "x\ny", "base", *"fghijk"]


def frame(seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    rates = np.sort(generator.random(len(MODELS)))[::-1]
    table = pd.DataFrame({"model": generator.permutation(MODELS), "win_rate": rates, "rank_low": [1, 2, 2, 4] * 3})
    return table.assign(unread=0, low=rates - 0.05, high=rates + 0.02)


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    kept: list[Figure] = []
    save = plots.save_figure

    def keep(figure: Figure, path: Path | str) -> Path:
        kept.append(figure)
        return save(figure, path)

    monkeypatch.setattr(plots, "save_figure", keep)
    return kept


def results() -> dict[str, list[Result]]:
    suites = ["D+", "D-", "T+", "T-", "C+", "C-", "D-_add", "D-_remove", "D-_replace", "C_axes+"]
    return {
        head: [Result(s, "accuracy", 0.9 - 0.04 * k, 100, 0.01, 0.85 - 0.04 * k, 0.93, (1,)) for s in suites[k:]]
        for k, head in enumerate(["scalar", "pairwise_span"])
    }


def points(axes: Axes) -> list[tuple[float, float]]:
    return [
        (float(x), float(y))
        for line in axes.lines
        if line.get_marker() in plots.MARKERS
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)  # type: ignore[arg-type]
    ]


def test_suite_accuracy_draws_every_value_and_chance(tmp_path: Path, figures: list[Figure]) -> None:
    plots.suite_accuracy(tmp_path / "s.png", results())
    axes = figures[0].axes[0]
    assert sorted(y for _, y in points(axes)) == pytest.approx([0.86] * 9 + [0.9] * 10)
    bars = [segment for collection in axes.collections for segment in collection.get_segments()]  # type: ignore[attr-defined]
    assert {(round(bar[0][1], 6), round(bar[1][1], 6)) for bar in bars} == {(0.85, 0.93), (0.81, 0.93)}
    assert any(list(line.get_ydata()) == [0.5, 0.5] and line.get_linestyle() == "--" for line in axes.lines)
    assert axes.get_xlabel() and axes.get_ylabel()


def test_one_leaderboard_shades_runs_of_equal_rank(tmp_path: Path, figures: list[Figure]) -> None:
    table = frame().assign(rank_low=[1, 2, 2, 4, 4, 4, 7, 8, 8, 10, 11, 11])
    table.loc[3, ["low", "high"]] = np.nan
    plots.one_leaderboard(tmp_path / "o.png", table, "prefers $5 answers", "base")
    axes = figures[0].axes[0]
    bands = sorted((p.get_y(), p.get_y() + p.get_height()) for p in axes.patches)  # type: ignore[attr-defined]
    # Runs of equal rank: 0 | 1-2 | 3-5 | 6 | 7-8 | 9 | 10-11; every second one is shaded, from the first.
    assert bands == [(-0.5, 0.5), (2.5, 5.5), (6.5, 8.5), (9.5, 11.5)]
    assert [x for x, _ in points(axes)] == list(table["win_rate"])
