"""The curves of one wish as a picture. In: the rows of `curves`. Out: a PNG file: gold above, the judge's reward below.

Both over k on a logarithmic axis, with bands; the axis on top says what k costs in KL, at most.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, GREY, MARKERS, save_figure, short_name, tidy_axes
from crm.rewards.best_of_n.estimator import kl_bound

STYLES: dict[str, dict[str, Any]] = {
    "judge": {"color": COLOURS[0], "marker": MARKERS[0]},
    "judge, soft": {"color": COLOURS[4], "marker": MARKERS[4]},
    "judge, first k": {"color": COLOURS[5], "marker": MARKERS[5]},
    "blind": {"color": COLOURS[3], "marker": MARKERS[3]},
    "opposite": {"color": COLOURS[1], "marker": MARKERS[1]},
    "length": {"color": COLOURS[2], "marker": MARKERS[2]},
    "random": {"color": GREY, "linestyle": ":"},
    "oracle": {"color": "#000000", "linestyle": "--"},
}


def best_of_n_picture(path: Path | str, frame: pd.DataFrame, title: str, unit: str) -> Path:
    """``unit`` is that of gold. Where nobody knows gold, or the judge gave no scores, that panel is left out."""
    told = set(frame["measure"])
    panels = [("gold", f"gold of the pick\n({unit})"), ("reward", "reward of the pick\n(the judge's own)")]
    shown = [panel for panel in panels if panel[0] in told]
    figure = Figure(figsize=(7.5, 1.4 + 2.9 * len(shown)), layout="constrained")
    figure.suptitle(short_name(title, 90), fontsize=11)
    drawn: list[Axes] = list(np.atleast_1d(figure.subplots(len(shown), 1, sharex=True)))
    ks = sorted(frame["k"].unique())
    for axes, (measure, label) in zip(drawn, shown, strict=True):
        _draw(axes, frame[frame["measure"] == measure], measure)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ks, [str(k) for k in ks])
        axes.minorticks_off()
        axes.set_ylabel(label)
        tidy_axes(axes)
    drawn[-1].set_xlabel("k: responses that the pick is the best of (95 % bands, clustered by prompt)")
    _kl_axis(drawn[0], ks)
    figure.legend(*drawn[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return save_figure(figure, path)


def _draw(axes: Axes, rows: pd.DataFrame, measure: str) -> None:
    """A line and a band for each picker; of rewards only the judge's, since no other is in its unit."""
    for name, style in STYLES.items():
        own = rows[rows["picked_by"] == name].sort_values("k")
        if not len(own) or (measure == "reward" and not name.startswith("judge")):
            continue
        axes.plot(own["k"], own["mean"], label=name, markersize=4, linewidth=1.4, **style)
        axes.fill_between(own["k"], own["low"], own["high"], color=style["color"], alpha=0.13, linewidth=0)


def _kl_axis(axes: Axes, ks: list[int]) -> None:
    top = axes.secondary_xaxis("top")
    top.set_xticks(ks, [f"{kl_bound(k):.2f}" for k in ks])
    top.minorticks_off()
    top.set_xlabel("KL to a single response, at most (nats)", fontsize=9)
    top.tick_params(labelsize=8)
    top.spines[:].set_visible(False)
