"""Files of the tables: each in its own, all with the claims in ``tables.md``, and as a page with pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from crm.io.files import replace_file
from crm.report.plots import COLOURS, GREY, MARKERS, chance_line, save_figure, tidy_axes
from crm.report.tables import caption, csv_text, markdown_text, print_table, write_table
from experiments.jobs import commits
from experiments.paper_tables import paper
from experiments.paper_tables.cells import INTERVALS, Cell, Grid
from experiments.paper_tables.claims import MATTERS, Claim, claims_of, claims_table, paired_difference
from experiments.paper_tables.plan import Plan
from experiments.paper_tables.scales import Scale
from experiments.report import Section, render_report

CLAIMS = (
    "A row is a claim of the paper. The difference is between two rows on the same comparisons with the same seeds, so "
    "that what they have in common cancels out; its 95 % interval covers other prompts and other seeds. A claim holds "
    f"where the interval is above 0, and does not hold where it is below {MATTERS}. Where rows differ in more than the "
    "claim is about, it is undecided either way."
)


def write_tables(out: Path, name: str, plan: Plan, grids: Mapping[str, Grid], seeds: Sequence[int]) -> list[str]:
    """Write and print tables, each in its own files; their keys."""
    for key, grid in grids.items():
        frame, line = grid.frame(), _caption(name, plan, key, grid, seeds)
        write_table(out, key, frame, line)
        # The table's own CSV would repeat the text of the cells; numbers by seed are of more use there.
        replace_file(out / f"{key}.csv", csv_text(grid.long(), line))
        print_table(frame, f"{line} ({out / key}.md)")
    return list(grids)


def _caption(name: str, plan: Plan, key: str, grid: Grid, seeds: Sequence[int]) -> str:
    line = caption(None, seeds, f"scale={name}", _commits(plan, key))
    return f"{paper.TITLES[key]}: {grid.measure}; {line}"


def _commits(plan: Plan, key: str = "") -> str:
    """Of the models behind a table; of all without a ``key``."""
    names = {name for place, name in plan.made_by.items() if place[0].startswith(key)}
    return commits(job.folder for job in plan.jobs if job.name in names and job.overrides is not None)


def write_all(out: Path, name: str, scale: Scale, plan: Plan, grids: Mapping[str, Grid], seeds: Sequence[int]) -> None:
    """Every table, ``claims``, ``tables.md`` and ``report.html``."""
    write_tables(out, name, plan, grids, seeds)
    found = {claim: paired_difference(claim, plan, seeds) for claim in claims_of(scale)}
    table = claims_table(found, grids)
    line = f"Claims at scale={name}; {caption(None, seeds, '', _commits(plan))}"
    write_table(out, "claims", table, line)
    parts = [f"# The paper's five tables, scale={name}", "## Which claims hold", markdown_text(table, line), CLAIMS]
    pictures = {"claims": claims_plot(out / "claims.png", found)} if found else {}
    sections = [Section("Which claims hold", CLAIMS, {line: table}, pictures)]
    for key, grid in grids.items():
        title, notes = paper.TITLES[key], paper.notes(key, scale.ours, scale.joint_after_scalar)
        frame, line = grid.frame(), _caption(name, plan, key, grid, seeds)
        parts += [f"## {title}", markdown_text(frame, line).rstrip(), *notes]
        picture = {title: grid_plot(out / f"{key}.png", grid)}
        sections.append(Section(title, "\n\n".join(notes), {line: frame}, picture))
    replace_file(out / "tables.md", "\n\n".join([*parts, INTERVALS]) + "\n")
    facts = {"scale": name, "seeds": ", ".join(map(str, seeds)), "commit": _commits(plan), "measured on": scale.ours}
    page = render_report(
        out / "report.html",
        title=f"The paper's tables, scale={name}",
        sections=sections,
        facts=facts,
        summary=INTERVALS,
    )
    print_table(table, f"Which claims hold ({out / 'claims.md'})")
    print(f"All of them: {out / 'tables.md'}, with pictures: {page}")


def claims_plot(path: Path, found: Mapping[Claim, Cell]) -> Path:
    """The paired differences with their intervals, a row a claim."""
    figure = Figure(figsize=(7.5, 1.2 + 0.45 * len(found)), layout="constrained")
    axes = figure.subplots()
    cells, places = list(found.values()), range(len(found))
    reach = [[cell.mean - cell.low for cell in cells], [cell.high - cell.mean for cell in cells]]
    axes.axvline(0, color=GREY, linestyle="--", linewidth=1)
    axes.errorbar([cell.mean for cell in cells], list(places), xerr=reach, fmt="o", color=COLOURS[0], capsize=2)
    axes.set_yticks(list(places), [claim.name for claim in found])
    axes.set(ylim=(len(found) - 0.5, -0.5), xlabel="difference in accuracy, paired, 95 % interval")
    tidy_axes(axes, grid="x")
    return save_figure(figure, path)


def grid_plot(path: Path, grid: Grid) -> Path:
    """The cells of a table, a column of it a place, a row of it a colour."""
    figure = Figure(figsize=(max(6.0, 2 + 0.9 * len(grid.columns)), 4.2), layout="constrained")
    axes = figure.subplots()
    shift = 0.7 / max(len(grid.rows), 1)
    for number, row in enumerate(grid.rows):
        cells = [
            (place, grid.cells[row, column]) for place, column in enumerate(grid.columns) if (row, column) in grid.cells
        ]
        where = [place + shift * (number - (len(grid.rows) - 1) / 2) for place, _ in cells]
        frame = pd.DataFrame({"mean": cell.mean, "low": cell.low, "high": cell.high} for _, cell in cells)
        reach = [(frame["mean"] - frame["low"]).fillna(0), (frame["high"] - frame["mean"]).fillna(0)]
        style: dict[str, Any] = {"fmt": MARKERS[number % len(MARKERS)], "color": COLOURS[number % len(COLOURS)]}
        axes.errorbar(where, frame["mean"], reach, label=row, markersize=4, capsize=2, **style)
    axes.set_xticks(range(len(grid.columns)), grid.columns, fontsize=8)
    axes.set_ylabel(grid.measure.partition(" [")[0])
    if "tau" not in grid.measure:
        chance_line(axes)
    tidy_axes(axes)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return save_figure(figure, path)
