"""Plots of proxy and gold over steps and over KL, a column for each criterion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, save_figure, tidy_axes
from experiments.grpo.stages import CLEAN, NOISED
from experiments.grpo.tune import BUDGET, Policy

STYLES = {CLEAN: (COLOURS[0], "reward model without noise"), NOISED: (COLOURS[1], "with noise in its training")}


def curves(path: Path, criteria: Sequence[str], courses: Mapping[Policy, Any]) -> Path:
    """A line a seed; the dashed line is the KL that a selected policy may have."""
    figure = Figure(figsize=(2.9 * len(criteria), 7.2), layout="constrained")
    grid = figure.subplots(3, len(criteria), squeeze=False)
    for column, criterion in enumerate(criteria):
        for policy, course in courses.items():
            if policy.criteria == (criterion,):
                _course([axes[column] for axes in grid], policy, course["course"])
        _dress([axes[column] for axes in grid], criterion, first=column == 0)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(
        *zip(*dict(zip(labels, zip(handles, labels, strict=True), strict=True)).values(), strict=True),
        loc="outside lower center",
        ncols=2,
        frameon=False,
    )
    return save_figure(figure, path)


def _course(axes: Sequence[Axes], policy: Policy, points: Sequence[dict[str, Any]]) -> None:
    colour, label = STYLES[NOISED if f"_{NOISED}_" in policy.name else CLEAN]
    style: dict[str, Any] = {"color": colour, "label": label, "marker": "o", "markersize": 2.5, "linewidth": 1}
    steps = [point["step"] for point in points]
    rates = [fmean(point["won"]) for point in points]
    axes[0].plot(steps, [point["proxy"] - points[0]["proxy"] for point in points], **style)
    axes[1].plot(steps, rates, **style)
    axes[2].plot([max(point["kl"], 0.0) ** 0.5 for point in points], rates, **style)


def _dress(axes: Sequence[Axes], criterion: str, first: bool) -> None:
    for one in axes:
        tidy_axes(one)
    axes[0].set(title=criterion, xlabel="GRPO step", ylabel="proxy over the start (nats)" if first else "")
    axes[1].set(xlabel="GRPO step", ylabel="gold: win rate over the start" if first else "", ylim=(0, 1.02))
    axes[2].set(xlabel="root of KL to the start (nats)", ylabel="gold: win rate" if first else "", ylim=(0, 1.02))
    axes[2].axvline(BUDGET**0.5, color="#555555", linestyle="--", linewidth=0.8)
