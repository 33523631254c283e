"""The picture of growth. In: what `bench.growth` measured. Out: one PNG file of three columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from crm.report.plots import COLOURS, MARKERS, save_figure, tidy_axes

LABELS = {
    "ours": "ours: shared prefixes",
    "authors": "the authors' loop",
    "authors_no_checkpointing": "the same without checkpointing",
    "dynamic_cache": "DynamicCache prefix",
    "arrival_b4": "batches of 4, arrival order",
}
SIDES = {"lengths": ("length", "tokens a response"), "models": ("models", "models, the baseline one of them")}


def draw_growth(path: Path, found: dict[str, Any]) -> Path:
    """Tokens above, seconds below; columns: response length (training), models (scoring), comparisons (start-up)."""
    figure = Figure(figsize=(12.5, 6.6), layout="constrained")
    cells = figure.subplots(2, 3, sharex="col")
    for column, (sweep, (key, label)) in enumerate(SIDES.items()):
        part = "pair" if sweep == "lengths" else "query"
        for row, measure in enumerate(("tokens", "seconds")):
            _lines(cells[row, column], found[sweep], key, measure)
            unit = "tokens computed" if measure == "tokens" else "CPU seconds"
            cells[row, column].set(ylabel=f"{unit} a {part}")
        cells[1, column].set(xlabel=label)
        cells[0, column].legend(frameon=False, fontsize=8, loc="upper left")
    cells[0, 0].set_title("Training step, pointwise", fontsize=11)
    cells[0, 1].set_title("Scoring, pairwise", fontsize=11)
    _startup(cells[:, 2], found["comparisons"])
    return save_figure(figure, path)


def _lines(axes: Axes, rows: Sequence[dict[str, Any]], key: str, measure: str) -> None:
    places = [row[key] for row in rows]
    for index, name in enumerate(rows[0][measure]):
        style: dict[str, Any] = {"marker": MARKERS[index], "color": COLOURS[index], "markersize": 5}
        # Two peers that compute the same tokens lie on one another; the dashes let both be seen.
        style["linestyle"] = "--" if index == 2 else "-"
        axes.plot(places, [row[measure][name] for row in rows], label=LABELS[name], **style)
    _finish(axes, places)


def _startup(cells: Sequence[Axes], rows: Sequence[dict[str, Any]]) -> None:
    places = [row["comparisons"] for row in rows]
    for axes, measure, label in zip(
        cells, ("megabytes", "seconds"), ("peak memory (MB)", "seconds to the first step"), strict=True
    ):
        axes.plot(places, [row[measure] for row in rows], marker=MARKERS[0], color=COLOURS[0], markersize=5)
        axes.set(ylabel=label, xscale="log")
        _finish(axes, places)
    cells[0].set_title("Start, from raw records", fontsize=11)
    cells[1].set(xlabel="comparisons")


def _finish(axes: Axes, places: Sequence[int]) -> None:
    axes.set_ylim(0, None)
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.xaxis.set_minor_locator(NullLocator())
    top = axes.get_ylim()[1]
    axes.set_ylim(0, top * 1.25)
    tidy_axes(axes)


def draw_lines(path: Path, found: dict[str, Sequence[tuple[float, float]]]) -> Path:
    """Seconds against what grows, a cell each: ``found`` names them, as pairs of how many and seconds."""
    figure = Figure(figsize=(3.2 * len(found), 3.3), layout="constrained")
    for axes, (label, points) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        places, seconds = zip(*points, strict=True)
        axes.plot(places, seconds, marker=MARKERS[0], color=COLOURS[0], markersize=5)
        axes.set(xlabel=label, ylabel="seconds", ylim=(0, 1.15 * max(seconds)), xlim=(0, 1.05 * max(places)))
        tidy_axes(axes)
    return save_figure(figure, path)
