"""Plots of accuracy against use, and of correlation against the size of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, GREY, MARKERS, save_figure, short_name, tidy_axes
from experiments.does_accuracy_predict.judges import FAMILIES


def label(use: str) -> str:
    """A use in words, with its unit."""
    if use.startswith("best_of_"):
        return f"gain of the best of {use.removeprefix('best_of_')} (nats)"
    return f"win rate after GRPO, {use.removeprefix('grpo_')} policy"


def scatter(path: Path, judges: pd.DataFrame, use: str, suite: str) -> Path:
    """A point a judge, a colour a family; judges without the use are left out."""
    shown = judges.dropna(subset=[use, suite])
    figure = Figure(figsize=(7.5, 5), layout="constrained")
    axes: Axes = figure.subplots()
    for place, family in enumerate(FAMILIES):
        own = shown[shown["family"] == family]
        if len(own):
            style: dict[str, Any] = {"color": COLOURS[place], "marker": MARKERS[place], "label": family}
            axes.scatter(own[suite], own[use], s=34, **style)
    for name, accuracy, value in shown[["judge", suite, use]].itertuples(index=False, name=None):
        axes.annotate(
            short_name(name), (accuracy, value), xytext=(4, 3), textcoords="offset points", fontsize=6, color=GREY
        )
    axes.axvline(0.5, color=GREY, linestyle="--", linewidth=0.8)
    axes.axhline(0.5 if use.startswith("grpo") else 0, color=GREY, linestyle="--", linewidth=0.8)
    axes.set(xlabel=f"accuracy, {suite} of the suites; n = {len(shown)} judges", ylabel=label(use))
    tidy_axes(axes, grid="both")
    axes.legend(frameon=False, fontsize=8)
    return save_figure(figure, path)


def by_size(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Mean correlation over draws of a suite's pairs, with a band for 95 % of them; a panel a group of judges."""
    frame = pd.DataFrame(rows)
    groups = list(dict.fromkeys(frame["judges"]))
    figure = Figure(figsize=(5.2 * len(groups), 4), layout="constrained")
    for axes, group in zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True):
        for place, (use, own) in enumerate(frame[frame["judges"] == group].groupby("use", sort=False)):
            style: dict[str, Any] = {"color": COLOURS[place % len(COLOURS)]}
            axes.plot(own["pairs"], own["mean"], marker=MARKERS[place % len(MARKERS)], label=label(str(use)), **style)
            axes.fill_between(own["pairs"], own["low"], own["high"], alpha=0.12, linewidth=0, **style)
        axes.set_xscale("log")
        sizes = sorted(set(frame["pairs"]))
        axes.set_xticks(sizes, [str(size) for size in sizes], fontsize=8)
        axes.minorticks_off()
        axes.set(title=group.replace("_", " "), xlabel="pairs of the suite", ylabel="Spearman's rho", ylim=(-0.6, 1.03))
        axes.axhline(0, color=GREY, linestyle="--", linewidth=0.8)
        tidy_axes(axes)
        axes.legend(frameon=False, fontsize=7, loc="lower right")
    return save_figure(figure, path)
