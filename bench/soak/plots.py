"""The picture of a soak. In: rows of its stages. Out: one PNG file: memory, descriptors and waiting over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.report.plots import COLOURS, save_figure, tidy_axes

STYLES = {"p50": ("-", "o"), "p95": ("--", "^")}
SERVES = {"page": "page", "rewards": "reward server"}
"""Stages in which people wait for a server."""


def draw(path: Path, stages: dict[str, dict[str, Any]]) -> Path:
    """A panel each; the minutes are those of the stage in which a process ran."""
    figure = Figure(figsize=(12.5, 3.6), layout="constrained")
    memory, descriptors, waited = figure.subplots(1, 3)
    watched = {name: points for row in stages.values() for name, points in row["watched"].items() if points}
    colours = dict(zip(dict.fromkeys([*SERVES.values(), *watched]), COLOURS, strict=False))
    for name, points in watched.items():
        minutes = [point[0] / 60 for point in points]
        memory.plot(minutes, [point[1] for point in points], label=name, color=colours[name], linewidth=1.4)
        descriptors.plot(minutes, [point[2] for point in points], label=name, color=colours[name], linewidth=1.4)
    for stage, name in SERVES.items():
        _waited(waited, name, colours[name], stages.get(stage, {}).get("latency", []))
    memory.set(title="Memory (RSS)", ylabel="MB")
    descriptors.set(title="Descriptors", ylabel="open files and connections")
    waited.set(title="Waiting, of a request or rollout", ylabel="seconds", yscale="log")
    waited.yaxis.set_major_formatter("{x:g}")
    for axes in (memory, descriptors, waited):
        axes.set(xlabel="minutes of the stage", xlim=(0, None))
        tidy_axes(axes)
        if axes is not waited:
            axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, loc="upper right")
    return save_figure(figure, path)


def _waited(axes: Axes, name: str, colour: str, rows: list[dict[str, float]]) -> None:
    """Each minute at its middle; a mark, so that one minute alone can be seen."""
    for share, (style, marker) in STYLES.items():
        minutes, seconds = [row["minute"] + 0.5 for row in rows], [row[share] for row in rows]
        if minutes:
            line: dict[str, Any] = {"linestyle": style, "color": colour, "marker": marker, "markersize": 3}
            axes.plot(minutes, seconds, label=f"{name}, {share}", **line)
