"""What the paper says and whether our runs say it too: a paired difference for each claim, and a sentence.

Both rows of a claim have the same seeds and read the same comparisons, so that what they have in common cancels out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from crm.evaluation.predictions import Sample, read_predictions, to_samples
from crm.evaluation.results import read_results
from crm.report.statistics import correctness, mean_interval
from crm.report.tables import number
from experiments.jobs import Job
from experiments.paper_tables.cells import Cell, Grid, over_seeds
from experiments.paper_tables.plan import Plan
from experiments.paper_tables.scales import Scale

MATTERS = 0.03
"""A difference in accuracy that is certainly smaller is none."""
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Claim:
    """``better`` and ``worse`` are rows, by (table, row, reading), whose accuracy on ``suites`` is compared.

    ``confounded`` says what else the rows differ in; empty where there is nothing.
    """

    name: str
    sentence: str
    better: tuple[str, str, str]
    worse: tuple[str, str, str]
    suites: tuple[str, ...]
    confounded: str = ""


def claims_of(scale: Scale) -> tuple[Claim, ...]:
    """The claims about accuracy that the tables of a scale can speak of."""
    sizes, centre = list(scale.sizes), scale.centre
    hidden = ("1_judges", f"{centre}, criteria hidden", "blind")
    unseen = tuple(f"{scale.unseen}{side}" for side in "+-")
    first, second = (set(scale.heads[scale.losses[loss]]) for loss in ("cls", "ranking"))
    others = sorted(word.partition("=")[0] for word in first ^ second if not word.startswith(("head=", "loss=")))
    others += ["where the joint head starts"] * scale.joint_after_scalar
    confounded = f"the rows also differ in head, {', '.join(others)}" if others else ""
    claims = [
        Claim(
            "criteria",
            "A model that reads the user's criteria agrees with the user more often than with the criteria hidden",
            ("1_judges", centre, "clean"),
            hidden,
            ("D+", "D-"),
        ),
        Claim(
            "loss",
            "loss=cls is more accurate than loss=ranking where topics or models are unseen",
            ("2_loss_and_size", f"cls, {sizes[-1]}", "clean"),
            ("2_loss_and_size", f"ranking, {sizes[-1]}", "clean"),
            unseen,
            confounded,
        ),
        Claim(
            "noise",
            "Training with replaced criteria helps where criteria are replaced",
            ("3_noise", "replace", "noised"),
            ("3_noise", "none", "noised"),
            ("D+_replace", "D-_replace"),
        ),
        Claim(
            "direction",
            "Training on both sides of a vote reads the loser's criteria better than training on the winner's alone",
            ("4_direction", "both", "clean"),
            ("4_direction", "original", "clean"),
            ("D-",),
        ),
    ]
    if len(sizes) > 1:
        loss = next(name for name, head in scale.losses.items() if head == centre)
        size = Claim(
            "size",
            f"The larger backbone ({sizes[-1]}) is more accurate than the smaller one ({sizes[0]}) on the unseen",
            ("2_loss_and_size", f"{loss}, {sizes[-1]}", "clean"),
            ("2_loss_and_size", f"{loss}, {sizes[0]}", "clean"),
            unseen,
        )
        claims.insert(2, size)
    tables = {question.key for question in scale.questions()}
    return tuple(claim for claim in claims if {claim.better[0], claim.worse[0]} <= tables)


def paired_difference(claim: Claim, plan: Plan, seeds: Sequence[int]) -> Cell:
    """Accuracy of the better row less that of the worse one, in [-1, 1], over seeds as every cell of the tables."""
    jobs = {job.name: job for job in plan.jobs}
    measured = {}
    for seed in seeds:
        rows = [
            _samples(jobs[plan.made_by[key, row, seed]], reading) for key, row, reading in (claim.better, claim.worse)
        ]
        differences: list[float] = []
        clusters: list[str] = []
        for suite in claim.suites:
            first, second = ({sample.comparison_id: sample for sample in found[suite]} for found in rows)
            for name in sorted(first.keys() & second.keys()):
                pair = first[name], second[name]
                if pair[0].label is not None and pair[0].judged and pair[1].judged:
                    right = correctness([sample.logit for sample in pair], [pair[0].label] * 2)
                    differences.append(float(right[0] - right[1]))
                    clusters.append(pair[0].cluster)
        measured[seed] = mean_interval(differences, clusters)
    return over_seeds(measured, lowest=-1.0, highest=1.0)


def _samples(job: Job, reading: str) -> Mapping[str, Sequence[Sample]]:
    run, _ = read_results(job.folder / reading / "results.json")
    rows = [row for file in run["files"].values() for row in read_predictions(Path(file))]
    return to_samples(rows)


def verdict(cell: Cell, confounded: str = "") -> str:
    """Whether the claim holds, or why that is undecided, as it is where the rows differ in more than it is about."""
    if confounded:
        return f"{OPEN}: {confounded}"
    if cell.high < 0:
        return f"{FAILS}: it is worse"
    if cell.high < MATTERS:
        return f"{FAILS}: at most {cell.high:.3f} better"
    if cell.low > 0:
        return HOLDS
    return f"{OPEN}: the interval holds 0 and {MATTERS}"


def opposite_rankings(grid: Grid) -> tuple[str, Cell, str]:
    """The claim of table 5 on its first row, the pair of the paper: criteria, Kendall's tau, verdict."""
    row, column = grid.rows[0], grid.columns[0]
    cell = grid.cells[row, column]
    here = HOLDS if cell.high < 0 else FAILS if cell.low > 0 else f"{OPEN}: the interval holds 0"
    return row, cell, here


def claims_table(found: Mapping[Claim, Cell], grids: Mapping[str, Grid]) -> pd.DataFrame:
    """A row a claim: what it says, the paired difference (of table 5 tau) with its interval, and the verdict."""
    rows = [
        {
            "claim": claim.name,
            "what the paper says": claim.sentence,
            "measured": f"difference {number(cell.mean, cell.low, cell.high)}",
            "n": cell.n,
            "here": verdict(cell, claim.confounded),
        }
        for claim, cell in found.items()
    ]
    if "5_contradictory" in grids:
        criteria, cell, here = opposite_rankings(grids["5_contradictory"])
        rows.append(
            {
                "claim": "contradiction",
                "what the paper says": f"Users who contradict each other get opposite rankings ({criteria})",
                "measured": f"tau {number(cell.mean, cell.low, cell.high)}",
                "n": cell.n,
                "here": here,
            }
        )
    return pd.DataFrame(rows)
