"""A plot with one dot for each share, a colour for each set."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, GREY, MARKERS, save_figure, short_name, tidy_axes

FEWEST = 20
TITLES = {
    "flips": "Pairs whose winner depends on the criterion",
    "traits": "Who wins: the response with more of a trait",
}


def dots(path: Path, frame: pd.DataFrame, kind: str) -> Path:
    """Shares of ``flips`` (a row a set) or ``traits`` (a row a trait, a colour a set), with their 95 % intervals.

    ``frame`` has the columns set, pairs, share, low and high, and for traits also trait; rows of fewer than `FEWEST`
    pairs are not drawn.
    """
    by = "trait" if kind == "traits" else "set"
    frame = frame[frame["pairs"] >= FEWEST]
    order = frame.groupby(by)["share"].mean().sort_values().index.tolist()
    sets = frame["set"].drop_duplicates().tolist()
    figure = Figure(figsize=(8, 1.6 + 0.42 * len(order)), layout="constrained")
    axes: Axes = figure.subplots()
    for index, name in enumerate(sets):
        rows = frame[frame["set"] == name]
        shift = 0 if by == "set" else 0.6 * (index / max(len(sets) - 1, 1) - 0.5)
        places = [order.index(value) - shift for value in rows[by]]
        spread = [rows["share"] - rows["low"], rows["high"] - rows["share"]]
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        axes.errorbar(rows["share"], places, xerr=spread, fmt=marker, color=colour, markersize=4, capsize=2, label=name)
    axes.set_yticks(range(len(order)), [short_name(name, 40) for name in order], fontsize=8)
    axes.set(xlabel="share of pairs, 95 % interval by prompt", xlim=(0, 1 if kind == "traits" else None))
    axes.set_ylim(-0.6, len(order) - 0.4)
    axes.set_title(TITLES[kind], fontsize=11)
    if kind == "traits":
        axes.axvline(0.5, color=GREY, linestyle="--", linewidth=0.8)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    tidy_axes(axes, "x")
    return save_figure(figure, path)
