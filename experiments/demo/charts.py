"""Charts of the demo alone: learning curves, and two leaderboards against each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, GREY, MARKERS, chance_line, save_figure, short_name, tidy_axes


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
    chance_line(accuracy)
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


def _curve(axes: Axes, frame: pd.DataFrame, column: str, **style: Any) -> None:
    if column in frame:
        rows = frame[["step", column]].dropna()
        axes.plot(rows["step"], rows[column], **style)
