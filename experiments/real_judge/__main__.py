"""``python -m experiments.real_judge --root <public sets> --out <folder>``: trains, evaluates, ranks, writes it down.

A seed is that of training; the data are split by ``data.seed``, the same for all. Beside the judge stand those that it
has to beat: one that is blind to the criteria (trained without), length, and the sum of chance.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, stdev

import pandas as pd
import torch

from crm.dataset.tastes import UNSEEN_TRAITS
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.report.statistics import mean_interval
from crm.report.tables import write_table
from crm.schema import Result
from experiments.jobs import Job, run_jobs
from experiments.real_judge.ranking import rank

EXPERIMENT = "experiment=real_judge"
DATA_SEED = 1


def main(words: Sequence[str] | None = None) -> int:
    """Command line: seeds and overrides of ``train.py``; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.real_judge", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, default=Path("results/real_judge"))
    parser.add_argument("--report", type=Path, default=Path("experiments/real_judge"), help="where tables go")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--queries", type=int, default=45, help="unseen queries of a leaderboard")
    parser.add_argument("overrides", nargs="*", help="overrides of train.py")
    given = parser.parse_args(words)
    try:
        run(given)
    except ValueError as error:
        print(f"experiments.real_judge: {error}", file=sys.stderr)
        return 2
    return 0


def run(given: argparse.Namespace) -> None:
    """Jobs one after the other or side by side, as cores allow; then tables and ``results.json`` in ``--report``."""
    data = (f"data.root={given.root}", f"data.seed={DATA_SEED}")
    jobs = [job(seed, given.out, data, given.overrides) for seed in given.seeds]
    finished = run_jobs([*jobs, length(given.out, data)], min(len(jobs), os.cpu_count() or 1))
    torch.set_num_threads(os.cpu_count() or 1)
    boards = {
        seed: rank(made.folder / "model", given.root, data_seed=DATA_SEED, queries=given.queries, folder=given.out)
        for seed, made in zip(given.seeds, jobs, strict=True)
    }
    suites = {made.name: finished[made.name].results["suites"] for made in jobs}
    table = pd.DataFrame([{"seed": seed, **asdict(row)} for seed, rows in boards.items() for row in rows])
    traits = table.drop(columns="seed").groupby("trait", sort=False).mean().reset_index()
    found = {
        "suites": sums(suites),
        "length": sums({"length": finished["length"].results["suites"]}),
        "traits": by_trait(given.out, [made.name for made in jobs]),
        "boards": {row["trait"]: row for row in traits.round(4).to_dict("records")},
        "boards_mean": traits[~traits["trait"].isin(UNSEEN_TRAITS)].drop(columns="trait").mean().round(4).to_dict(),
        "seconds": {name: made.seconds for name, made in finished.items()},
        "seeds": given.seeds,
        "queries": given.queries,
        "commit": commit(),
    }
    replace_file(given.report / "results.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_table(given.report, "boards", traits.round(3), f"{len(given.seeds)} seeds, commit {commit()}")


def job(seed: int, out: Path, data: Sequence[str], overrides: Sequence[str]) -> Job:
    """The training of one seed, and its suites."""
    words = (EXPERIMENT, f"seed={seed}", *data, *overrides)
    kept = [word for word in overrides if word.startswith("data.")]
    return Job(f"seed {seed}", out / f"seed_{seed}", words, {"suites": ("data=tastes", *data, *kept)})


def length(out: Path, data: Sequence[str]) -> Job:
    """The judge that counts words, on the same suites."""
    return Job("length", out / "length", None, {"suites": ("judge=length", "data=tastes", *data)})


def sums(results: Mapping[str, Sequence[Result]]) -> dict[str, dict[str, float]]:
    """Of each suite accuracy in the direction of the wish plus that in the opposite one: 1 ignores the criteria.

    ``low`` and ``high`` are of the mean over seeds, where there are several; else of the comparisons.
    """
    found: dict[str, dict[str, float]] = {}
    names = {row.suite.rstrip("+-") for rows in results.values() for row in rows}
    for name in sorted(names):
        sides = [
            [row for row in rows if row.metric == "accuracy" and row.suite in (f"{name}+", f"{name}-")]
            for rows in results.values()
        ]
        values = [sum(row.value for row in side) for side in sides]
        half = sum(row.high - row.low for row in sides[0]) / 2
        interval = mean_interval(values) if len(values) > 1 else None
        found[name] = {
            "sum": round(mean(values), 4),
            "low": round(interval.low if interval else values[0] - half, 4),
            "high": round(interval.high if interval else values[0] + half, 4),
            "spread": round(stdev(values), 4) if len(values) > 1 else 0.0,
            "n": sum(row.n for row in sides[0]),
            "directions": len(sides[0]),
        }
    return found


def by_trait(out: Path, names: Sequence[str]) -> dict[str, dict[str, float]]:
    """Sum of accuracies of both directions by suite and trait, mean over seeds."""
    frames = [pd.read_csv(out / name.replace(" ", "_") / "suites" / "topics.csv") for name in names]
    table = pd.concat(frames)
    table["base"] = table["suite"].str.rstrip("+-")
    table = table[~table["topic"].str.startswith("(")]
    summed = table.groupby(["base", "topic"])["accuracy"].sum() / len(frames)
    found: dict[str, dict[str, float]] = {}
    for (base, topic), value in summed.items():
        found.setdefault(str(topic), {})[str(base)] = round(float(value), 3)
    return found


if __name__ == "__main__":
    sys.exit(main())
