"""What is drawn equals what went in; equal input, equal file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report import plots
from crm.schema import Result

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


def test_equal_input_gives_equal_files_without_a_display(tmp_path: Path) -> None:
    one, two = (plots.suite_accuracy(tmp_path / name, results()) for name in ("a.png", "b.png"))
    assert one.read_bytes() == two.read_bytes()
    assert one.read_bytes().startswith(b"\x89PNG")
