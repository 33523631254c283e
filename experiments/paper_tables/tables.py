"""From the results of finished runs to a `Grid` for each table, cells put together over seeds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from crm.config import compose
from crm.data.comparisons import suite_names
from crm.leaderboard.bank.opening import SimulatedBank, simulate_bank
from crm.leaderboard.config import BankConfig
from crm.leaderboard.ranking import Leaderboard, compare
from crm.report.statistics import Interval, rank_correlation
from experiments.jobs import JobResult
from experiments.paper_tables import paper
from experiments.paper_tables.cells import Cell, Grid, accuracies, over_seeds
from experiments.paper_tables.plan import Plan, contradictory, criterion
from experiments.paper_tables.scales import NOISES, Question, Scale
from experiments.truth import true_win_rates

Cells = dict[tuple[str, str], Cell]
BANK_SEED = 1
"""Of the bootstrap over a bank's queries."""
AGREEMENT = ("tau between the two", "tau in truth", "first against truth", "second against truth")
RESAMPLES = 1000


def make_grids(
    scale: Scale, plan: Plan, finished: Mapping[str, JobResult], but: Collection[str] = ()
) -> dict[str, Grid]:
    """The grids by key, in the order of the tables: those of which every run has ended, without those named ``but``."""
    return {
        question.key: _contradictory(scale, question, plan, finished)
        if question.rows[0].ranks
        else _accuracies(scale, question, plan, finished)
        for question in scale.questions()
        if question.key not in but
        and all(job in finished for place, job in plan.made_by.items() if place[0] == question.key)
    }


def _accuracies(scale: Scale, question: Question, plan: Plan, finished: Mapping[str, JobResult]) -> Grid:
    """Rows by suites."""
    cells: Cells = {}
    bases, noises = ([scale.data.noised], NOISES) if question.noised else (scale.data.bases, ("none",))
    suites = suite_names(bases, noises)
    for row in question.rows:
        found = {
            seed: accuracies(result for reading in row.readings for result in finished[job].results[reading])
            for seed, job in _seeds(plan, question.key, row.name).items()
        }
        for suite in suites:
            if measured := {seed: own[suite] for seed, own in found.items() if suite in own}:
                cells[row.name, suite] = over_seeds(measured)
    columns = [suite for suite in suites if any(column == suite for _, column in cells)]
    numbers = {row.name: row.paper for row in question.rows}
    return Grid(question.head, tuple(row.name for row in question.rows), tuple(columns), cells, numbers)


def _contradictory(scale: Scale, question: Question, plan: Plan, finished: Mapping[str, JobResult]) -> Grid:
    seeds = _seeds(plan, question.key, question.rows[0].name)
    boards = {seed: finished[job].leaderboards for seed, job in seeds.items()}
    bank: BankConfig = compose("leaderboard", ["checkpoint=none", *scale.ranking], Path("run")).bank
    known = bank.name == "simulated"
    simulated = simulate_bank(seed=bank.seed, queries_per_topic=bank.queries_per_topic) if known else None
    rows = {axis: f"{criterion(axis, 1)} / {criterion(axis, -1)}" for axis in scale.pairs}
    cells: Cells = {}
    for axis, row in rows.items():
        for column, cell in agreement(axis, boards, simulated).items():
            cells[row, column] = cell
    columns = AGREEMENT if known else AGREEMENT[:1]
    measure = "Kendall's tau [95 % interval] (queries)"
    return Grid(question.head, tuple(rows.values()), columns, cells, {rows["detail"]: paper.TAU}, measure)


def agreement(
    axis: str, boards: Mapping[int, Mapping[str, Leaderboard]], simulated: SimulatedBank | None
) -> dict[str, Cell]:
    """Kendall's tau of the two poles' leaderboards, by `AGREEMENT`: with each other, and of each with the truth.

    ``boards`` are by seed and by the keys of `contradictory`. What the truth has is exact and has no limits; without a
    ``simulated`` bank nobody knows it, and the first entry is all there is.
    """
    first, second = f"{axis}+", f"{axis}-"
    over = partial(over_seeds, lowest=-1.0, highest=1.0)
    between: dict[int, Interval] = {
        seed: compare(made[first], made[second], BANK_SEED, RESAMPLES) for seed, made in boards.items()
    }
    if simulated is None:
        return {AGREEMENT[0]: over(between)}
    truths = {key: true_win_rates(simulated, contradictory([axis])[key]) for key in (first, second)}

    def against_truth(key: str) -> Cell:
        return over({s: compare(made[key], truths[key], BANK_SEED, RESAMPLES) for s, made in boards.items()})

    exact = rank_correlation(*(np.array([truths[key][name] for name in truths[first]]) for key in (first, second)))
    truth = Cell(exact, float("nan"), float("nan"), 0, {})
    return dict(zip(AGREEMENT, (over(between), truth, against_truth(first), against_truth(second)), strict=True))


def _seeds(plan: Plan, key: str, row: str) -> dict[int, str]:
    """The job behind a row, by seed."""
    return {place[2]: job for place, job in plan.made_by.items() if place[:2] == (key, row)}
