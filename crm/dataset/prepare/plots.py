"""In: the rows of a finished dataset. Out: pictures of what is in it, for its card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from crm.io.words import count_words
from crm.report.plots import COLOURS, GREY, save_figure, short_name, tidy_axes
from crm.schema import Preference

SHOWN = {
    "train": "train",
    "validation": "validation",
    "test": "test (suites D, C)",
    "unseen_topics": "held-out topics (T)",
    "unseen_criteria": "held-out criteria only (C)",
}
MOST = 20
"""Bars of a chart; what is rarer is added up in a last one."""


@dataclass
class Survey:
    """What is counted of a dataset in one pass: topics by part, broad topics by side, words of the two responses."""

    topics: dict[str, Counter[str]] = field(default_factory=dict)
    wanted: Counter[str] = field(default_factory=Counter)
    unwanted: Counter[str] = field(default_factory=Counter)
    criteria: list[int] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)


def survey(rows: Iterable[tuple[Preference, str]]) -> Survey:
    """Count rows with their part; criteria and words are counted where somebody won."""
    found = Survey()
    for row, part in rows:
        found.topics.setdefault(row.topic or "none", Counter())[part] += 1
        if row.winner == "tie":
            continue
        winner, loser = ("a", "b") if row.winner == "a" else ("b", "a")
        found.wanted.update(set(getattr(row, f"criteria_topics_{winner}")))
        found.unwanted.update(set(getattr(row, f"criteria_topics_{loser}")))
        found.criteria.append(len(row.criteria_a) + len(row.criteria_b))
        found.words.append((_words(getattr(row, f"response_{winner}")), _words(getattr(row, f"response_{loser}"))))
    return found


def plot_files(folder: Path) -> list[Path]:
    """Every picture that `draw` can make."""
    return [folder / f"{name}.png" for name in ("topics", "criteria", "lengths")]


def draw(folder: Path, found: Survey) -> Iterator[Path]:
    """The topics, and where there is something to show, criteria and lengths; pictures of an earlier run go first."""
    topics, criteria, lengths = plot_files(folder)
    for path in (topics, criteria, lengths):
        path.unlink(missing_ok=True)
    yield _topics(topics, found)
    if found.wanted or found.unwanted:
        yield _criteria(criteria, found)
    if found.words:
        yield _lengths(lengths, found.words)


def _topics(path: Path, found: Survey) -> Path:
    order = sorted(found.topics, key=lambda name: (-found.topics[name].total(), name))
    rare = order[MOST:]
    counts = {name: found.topics[name] for name in order[:MOST]}
    if rare:
        counts[f"{len(rare)} more"] = sum((found.topics[name] for name in rare), Counter())
    figure, axes = _bars(len(counts))
    left = np.zeros(len(counts))
    for part, colour in zip(SHOWN, COLOURS, strict=False):
        sizes = np.array([topic[part] for topic in counts.values()])
        axes.barh(range(len(counts)), sizes, left=left, color=colour, label=SHOWN[part])
        left += sizes
    _name_bars(axes, list(counts), "preferences", "Topics of the queries, by part")
    return save_figure(figure, path)


def _criteria(path: Path, found: Survey) -> Path:
    both = found.wanted + found.unwanted
    order = sorted(both, key=lambda name: (-both[name], name))[:MOST]
    figure, axes = _bars(len(order))
    axes.barh(range(len(order)), [found.wanted[name] for name in order], color=COLOURS[0], label="for the winner")
    axes.barh(range(len(order)), [-found.unwanted[name] for name in order], color=COLOURS[1], label="for the loser")
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
    _name_bars(axes, order, "preferences with such a criterion", "Broad topics of the criteria, by side")
    return save_figure(figure, path)


def _lengths(path: Path, words: list[tuple[int, int]]) -> Path:
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes: Axes = figure.subplots()
    pairs = np.maximum(np.array(words), 1)
    spread = np.geomspace(pairs.min(), max(pairs.max() + 1, pairs.min() + 10), 31)
    edges = np.unique(np.round(spread))  # whole words: no bin that nothing can fall into
    for column, label, colour in ((0, "preferred", COLOURS[0]), (1, "not preferred", COLOURS[1])):
        axes.hist(pairs[:, column], edges.tolist(), histtype="step", linewidth=1.8, color=colour, label=label)
    unequal = pairs[pairs[:, 0] != pairs[:, 1]]
    longer = float(np.mean(unequal[:, 0] > unequal[:, 1])) if len(unequal) else float("nan")
    axes.set(xscale="log", xlabel="words in the response", ylabel="preferences")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.xaxis.set_minor_formatter("{x:,.0f}")
    axes.set_title(f"Length of the responses; the longer one won {longer:.0%} of {len(unequal):,}", fontsize=11)
    axes.legend(frameon=False)
    tidy_axes(axes)
    return save_figure(figure, path)


def _bars(count: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(8, max(2.4, 1.3 + 0.28 * count)), layout="constrained")
    return figure, figure.subplots()


def _name_bars(axes: Axes, names: list[str], unit: str, title: str) -> None:
    axes.set_yticks(range(len(names)), [short_name(name, 40) for name in names], fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel=unit)
    axes.set_title(title, fontsize=11)
    handles, labels = axes.get_legend_handles_labels()
    axes.figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    tidy_axes(axes, "x")


def _words(turns: tuple[Any, ...]) -> int:
    return sum(count_words(turn.content) for turn in turns)
