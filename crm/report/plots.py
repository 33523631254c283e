"""PNG charts of frames and results, drawn with matplotlib's objects on Agg: no display, no shared state."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from crm.io.files import replace_file
from crm.schema import Result

# Okabe and Ito's colours, which stay apart for all common kinds of colour blindness; markers repeat the distinction.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
MARKERS = ("o", "s", "^", "D", "v", "P")
GREY, LIGHT = "#555555", "#EAEAEA"
DPI = 150
NAME_LENGTH = 26


def suite_accuracy(path: Path | str, results: Mapping[str, Sequence[Result]]) -> Path:
    """Accuracy on every suite with its 95 % interval, one colour per head; dashed line at 0.5."""
    rates = {head: {row.suite: row for row in rows if row.metric == "accuracy"} for head, rows in results.items()}
    suites = list(dict.fromkeys(suite for rows in rates.values() for suite in rows))
    figure = Figure(figsize=(max(5.0, 1.6 + 0.75 * len(suites)), 4.0), layout="constrained")
    axes: Axes = figure.subplots()
    shift = 0.5 / max(len(results), 1)
    for index, (head, chosen) in enumerate(rates.items()):
        places = [i + shift * (index - (len(results) - 1) / 2) for i, suite in enumerate(suites) if suite in chosen]
        shown = [chosen[suite] for suite in suites if suite in chosen]
        spread = [[row.value - row.low for row in shown], [row.high - row.value for row in shown]]
        style: dict[str, Any] = {"fmt": MARKERS[index % len(MARKERS)], "color": COLOURS[index % len(COLOURS)]}
        axes.errorbar(places, [row.value for row in shown], spread, label=head, markersize=5, capsize=2, **style)
    for edge in range(0, len(suites), 2):
        axes.axvspan(edge - 0.5, edge + 0.5, color=LIGHT, alpha=0.5, zorder=0, linewidth=0)
    long = any(len(suite) > 6 for suite in suites)
    axes.set_xticks(
        range(len(suites)), suites, rotation=35 if long else 0, ha="right" if long else "center", rotation_mode="anchor"
    )
    axes.set(xlim=(-0.5, len(suites) - 0.5), xlabel="suite", ylabel="accuracy")
    axes.set_title("Accuracy by suite, 95 % intervals clustered by prompt", fontsize=11)
    chance_line(axes)
    axes.set_ylim(min(0.45, axes.get_ylim()[0]), 1.02)
    tidy_axes(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return save_figure(figure, path)


def one_leaderboard(path: Path | str, frame: pd.DataFrame, title: str, baseline: str) -> Path:
    """Win rates with 95 % intervals, best on top; bands, shaded by turns, join neighbours of equal ``rank_low``.

    ``frame`` is ``Leaderboard.frame()``.
    """
    figure = Figure(figsize=(7.5, max(2.4, 1.3 + 0.3 * len(frame))), layout="constrained")
    axes: Axes = figure.subplots()
    spread = np.nan_to_num([frame["win_rate"] - frame["low"], frame["high"] - frame["win_rate"]])
    places = np.arange(len(frame))
    bands = frame["rank_low"].ne(frame["rank_low"].shift()).cumsum().reset_index(drop=True)
    for _, rows in list(bands.groupby(bands))[::2]:
        axes.axhspan(rows.index[0] - 0.5, rows.index[-1] + 0.5, color=LIGHT, zorder=0, linewidth=0)
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=1)
    axes.errorbar(frame["win_rate"], places, xerr=spread, fmt="o", color=COLOURS[0], markersize=5, capsize=2)
    labels = [
        f"{short_name(model)}{f' ({lost} unread)' if lost else ''}  {rank}"
        for model, rank, lost in zip(frame["model"], frame["rank_low"], frame["unread"], strict=True)
    ]
    axes.set_yticks(places, labels, fontsize=9)
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(len(frame) - 0.5, -0.5),
        xlabel=f"win rate against {short_name(baseline)} (one band: as many models significantly better)",
    )
    axes.set_title(_literal(title), fontsize=11, wrap=True)
    tidy_axes(axes, grid="x")
    return save_figure(figure, path)


def chance_line(axes: Axes) -> None:
    """A dashed line at 0.5."""
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=1, label="chance (0.5)")


def tidy_axes(axes: Axes, grid: str = "y") -> None:
    """The look of every chart: two spines, a light grid behind the marks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def short_name(text: str, length: int = NAME_LENGTH) -> str:
    """A name from data, cut and fit to be drawn."""
    return _literal(text if len(text) <= length else text[: length - 1] + "…")


def _literal(text: str) -> str:
    """Names come from data: a dollar sign must not start a formula, and a line break must not break the layout."""
    return " ".join(text.split()).replace("$", r"\$")


def save_figure(figure: Figure, path: Path | str) -> Path:
    """Draw to a PNG file, written whole; equal figures are equal files."""
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    # Without the software's version in it.
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    return replace_file(path, buffer.getvalue())
