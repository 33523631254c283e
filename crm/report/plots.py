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
_NAME_LENGTH = 26


def learning_curves(path: Path | str, metrics: Mapping[str, pd.DataFrame]) -> Path:
    """Loss and validation accuracy over optimizer steps, one colour per head.

    Frames have the columns step, train/loss, validation/loss and validation/accuracy, empty where not logged in that
    row, as a CSV logger leaves them. Columns that are absent are left out. The training loss of single batches is
    drawn as a running mean over a fiftieth of the run, so that its course can be seen.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    loss, accuracy = figure.subplots(1, 2)
    for index, (head, frame) in enumerate(metrics.items()):
        colour = COLOURS[index % len(COLOURS)]
        smooth = _smoothed(frame, "train/loss")
        _curve(loss, smooth, "train/loss", label=f"{head}, train", color=colour, alpha=0.45, linewidth=1)
        style = {"color": colour, "marker": MARKERS[index % len(MARKERS)], "markersize": 3.5}
        _curve(loss, frame, "validation/loss", label=f"{head}, validation", **style)
        _curve(accuracy, frame, "validation/accuracy", label=head, **style)
    loss.set(xlabel="optimizer step", ylabel="loss (nats)", title="Loss", ylim=(0, None))
    accuracy.set(xlabel="optimizer step", ylabel="validation accuracy", title="Accuracy")
    _chance_line(accuracy)
    accuracy.set_ylim(min(0.45, accuracy.get_ylim()[0]), 1.02)
    for axes in (loss, accuracy):
        tidy_axes(axes)
        axes.legend(framealpha=0.9, edgecolor="none", fontsize=8, loc="upper right" if axes is loss else "lower right")
    return save_figure(figure, path)


def _smoothed(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    if column not in frame:
        return frame
    logged = frame.dropna(subset=[column])
    window = max(1, len(logged) // 50)
    return logged.assign(**{column: logged[column].rolling(window, min_periods=1, center=True).mean()})


def suite_accuracy(path: Path | str, results: Mapping[str, Sequence[Result]], metric: str = "accuracy") -> Path:
    """A metric of every suite with its 95 % interval, grouped by suite, one colour per head; dashed line at 0.5."""
    suites = list(dict.fromkeys(r.suite for rows in results.values() for r in rows if r.metric == metric))
    figure = Figure(figsize=(max(5.0, 1.6 + 0.75 * len(suites)), 4.0), layout="constrained")
    axes: Axes = figure.subplots()
    shift = 0.5 / max(len(results), 1)
    for index, (head, rows) in enumerate(results.items()):
        chosen = {row.suite: row for row in rows if row.metric == metric}
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
    axes.set(xlim=(-0.5, len(suites) - 0.5), xlabel="suite", ylabel=metric.replace("_", " "))
    axes.set_title(f"{metric.replace('_', ' ').capitalize()} by suite, 95 % intervals clustered by prompt", fontsize=11)
    _chance_line(axes)
    axes.set_ylim(min(0.45, axes.get_ylim()[0]), 1.02)
    tidy_axes(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return save_figure(figure, path)


def two_leaderboards(
    path: Path | str, left: pd.DataFrame, right: pd.DataFrame, names: tuple[str, str], tau: float
) -> Path:
    """Two leaderboards of the same models against each other: ranks joined by lines, and their win rates.

    ``left`` and ``right`` are ``Leaderboard.frame()``; ``names`` say whose they are; ``tau`` goes into the title.
    """
    models = list(left["model"])
    figure = Figure(figsize=(10, max(3.4, 1.5 + 0.32 * len(models))), layout="constrained")
    slope, scatter = figure.subplots(1, 2, width_ratios=(1.25, 1))
    figure.suptitle(f"Two users, two leaderboards: Kendall's tau = {tau:.2f}".replace("-", "−"), fontsize=12)
    ranks = [frame.set_index("model")["rank"] for frame in (left, right)]
    for model in models:
        ends = [int(rank[model]) for rank in ranks]
        colour = COLOURS[0] if ends[1] < ends[0] else COLOURS[1] if ends[1] > ends[0] else GREY
        slope.plot([0, 1], ends, color=colour, marker="o", markersize=5, linewidth=1.6)
        slope.text(-0.05, ends[0], f"{short_name(model)}  {ends[0]}", ha="right", va="center", fontsize=8)
        slope.text(1.05, ends[1], f"{ends[1]}  {short_name(model)}", ha="left", va="center", fontsize=8)
    heads = [(-0.05, "right", names[0]), (1.05, "left", names[1])]
    for place, side, name in heads:
        slope.text(place, 0.25, short_name(name, 34), ha=side, va="bottom", fontsize=9, fontweight="bold")
    slope.set(xlim=(-1.15, 2.15), ylim=(len(models) + 0.6, -0.3), xticks=[], yticks=[])
    slope.set_xlabel("rank, 1 is best; blue rises, orange falls from left to right", fontsize=9)
    slope.spines[:].set_visible(False)
    _win_rates_against_each_other(scatter, left, right, names)
    return save_figure(figure, path)


def _win_rates_against_each_other(axes: Axes, left: pd.DataFrame, right: pd.DataFrame, names: tuple[str, str]) -> None:
    one, two = (frame.set_index("model") for frame in (left, right.set_index("model").loc[left["model"]].reset_index()))
    spreads = [
        np.nan_to_num([table["win_rate"] - table["low"], table["high"] - table["win_rate"]]) for table in (one, two)
    ]
    axes.errorbar(
        one["win_rate"], two["win_rate"], spreads[1], spreads[0], fmt="o", color="#333333", markersize=4, elinewidth=1
    )
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlabel=f"win rate, {short_name(names[0], 30)}", ylabel=f"win rate, {short_name(names[1], 30)}")
    axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title="Win rate against the baseline")
    axes.set_box_aspect(1)
    tidy_axes(axes)


def one_leaderboard(path: Path | str, frame: pd.DataFrame, title: str = "", baseline: str = "") -> Path:
    """Win rates with 95 % intervals, best on top; bands, shaded by turns, join neighbours of equal ``rank_low``.

    ``frame`` is ``Leaderboard.frame()``.
    """
    figure = Figure(figsize=(7.5, max(2.4, 1.3 + 0.3 * len(frame))), layout="constrained")
    axes: Axes = figure.subplots()
    spread = np.nan_to_num([frame["win_rate"] - frame["low"], frame["high"] - frame["win_rate"]])
    places = np.arange(len(frame))
    for first, last, shaded in _runs(list(frame["rank_low"])):
        if shaded:
            axes.axhspan(first - 0.5, last + 0.5, color=LIGHT, zorder=0, linewidth=0)
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=1)
    axes.errorbar(frame["win_rate"], places, xerr=spread, fmt="o", color=COLOURS[0], markersize=5, capsize=2)
    unread = frame["unread"] if "unread" in frame else [0] * len(frame)
    labels = [
        f"{short_name(model)}{f' ({lost} unread)' if lost else ''}  {rank}"
        for model, rank, lost in zip(frame["model"], frame["rank_low"], unread, strict=True)
    ]
    axes.set_yticks(places, labels, fontsize=9)
    against = f" against {short_name(baseline)}" if baseline else " against the baseline"
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(len(frame) - 0.5, -0.5),
        xlabel=f"win rate{against} (one band: as many models significantly better)",
    )
    axes.set_title(_literal(title), fontsize=11, wrap=True)
    tidy_axes(axes, grid="x")
    return save_figure(figure, path)


def _runs(keys: Sequence[int]) -> list[tuple[int, int, bool]]:
    """First and last place of every run of equal keys, every second run marked."""
    starts = [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]
    ends = [*(start - 1 for start in starts[1:]), len(keys) - 1]
    return [(start, end, turn % 2 == 0) for turn, (start, end) in enumerate(zip(starts, ends, strict=True))]


def _curve(axes: Axes, frame: pd.DataFrame, column: str, **style: Any) -> None:
    if column in frame:
        rows = frame[["step", column]].dropna()
        axes.plot(rows["step"], rows[column], **style)


def _chance_line(axes: Axes) -> None:
    axes.axhline(0.5, color=GREY, linestyle="--", linewidth=1, label="chance (0.5)")


def tidy_axes(axes: Axes, grid: str = "y") -> None:
    """The look of every chart: two spines, a light grid behind the marks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color="#DDDDDD", linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def short_name(text: str, length: int = _NAME_LENGTH) -> str:
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
