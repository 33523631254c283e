"""``python -m experiments.human_labels --root <public sets> --out <folder>``: trains, asks every set, writes it down.

A row of the result is a training: on SummEval with half of its votes from pairs that flip, the same with votes as they
come, on d2t, on both, on these and two sets whose labels are true by construction, and the first with the scalar head.
Each is asked about all sets; only its own are unseen documents of known aspects, the others are transfer. A judge that
was trained elsewhere is a row too (``--checkpoint``).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import track

from crm.config import compose
from crm.data.load import load_data
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.crm_judge import open_checkpoint
from crm.model.batching.plans import packing_named
from crm.report.tables import write_table
from crm.schema import Preference
from experiments.human_labels.suites import read_suites, sums
from experiments.jobs import Job, run_jobs

ROWS = {
    "summeval": (),
    "summeval, votes as they come": ("data.train=0",),
    "d2t": ("data.name=d2t",),
    "summeval and d2t": ("data=mixture", "data.sources=[summeval,d2t]"),
    "four sets": ("data=mixture", "data.sources=[summeval,d2t,concise_verbose,dsp]"),
    "summeval, scalar head": (
        "head=scalar",
        "model.freeze_layers=8",
        "optimizer.lr=3e-4",
        "schedule.max_steps=270",
    ),
}
"""The scalar head trains four layers, since on frozen ones alone it could learn next to nothing."""
OTHER = "another checkpoint"
ASKED = ("summeval", "d2t", "topicalchat", "llmbar", "prometheus_hhh", "concise_verbose", "dsp")
"""The first five labelled by people."""
DATA_SEED = 1


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.human_labels", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, default=Path("results/human_labels"))
    parser.add_argument("--report", type=Path, default=Path("experiments/human_labels"), help="where tables go")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--checkpoint", type=Path, help="ask this model too, as another row")
    parser.add_argument("--asked", nargs="+", default=list(ASKED), choices=ASKED, help="sets that the models are asked")
    parser.add_argument("--suite", type=int, default=0, help="preferences of a suite, at most; 0: all of them")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time")
    parser.add_argument("overrides", nargs="*", help="overrides of train.py")
    given = parser.parse_args(words)
    try:
        run(given)
    except ValueError as error:
        print(f"experiments.human_labels: {error}", file=sys.stderr)
        return 2
    return 0


def run(given: argparse.Namespace) -> None:
    """All trainings, then every model on every suite."""
    jobs = {(row, seed): job(row, seed, given) for row in given.rows for seed in given.seeds}
    if jobs:
        run_jobs(list(jobs.values()), given.workers)
    suites = {
        f"{name} {suite}": rows
        for name in given.asked
        for suite, rows in suites_of(name, given.root, given.suite).items()
        if rows
    }
    found: dict[str, Any] = {}
    for row in given.rows:
        frames = [asked(jobs[row, seed].folder / "model", suites, f"{row}, seed {seed}") for seed in given.seeds]
        found[row] = sums(frames)
    if given.checkpoint:
        frames = [asked(given.checkpoint, suites, OTHER)]
        found[OTHER] = sums(frames)
    report(given, found, sums(frames[:1], "length"))


def job(row: str, seed: int, given: argparse.Namespace) -> Job:
    """The training of one row and seed."""
    folder = given.out / f"{row.replace(', ', ' ').replace(' ', '_')}_{seed}"
    fixed = ("experiment=human_labels", *ROWS[row], f"data.root={given.root}", f"data.seed={DATA_SEED}")
    return Job(f"{row}, {seed}", folder, (*fixed, f"seed={seed}", *given.overrides))


def suites_of(name: str, root: str, most: int) -> dict[str, list[Preference]]:
    """The held-out suites of a set, each of ``most`` preferences (0: all); of one to measure on alone, all of it."""
    words = [
        "experiment=human_labels",
        f"data.name={name}",
        f"data.root={root}",
        f"data.seed={DATA_SEED}",
        "data.train=0",
    ]
    words.append(f"data.suite={most}")
    config = compose("train", words, Path())
    return load_data(config.data).suites


def asked(checkpoint: Path, suites: dict[str, list[Preference]], name: str) -> pd.DataFrame:
    """A row a comparison, each text read once."""
    judge = open_checkpoint(checkpoint, batch_size=64, precision="32-true", packing=packing_named("tree", 4096))[0]
    return read_suites(judge, suites, partial(track, description=name))


def report(given: argparse.Namespace, found: dict[str, Any], length: dict[str, Any]) -> None:
    """``results.json`` and a table: of suites in both directions the sum, of others the accuracy.

    Rows of runs before this one stay, as long as seeds and overrides are the same.
    """
    path = given.report / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    head = {"seeds": given.seeds, "overrides": given.overrides, "suite": given.suite}
    reused = known.get("rows", {}) if {name: known.get(name) for name in head} == head else {}
    rows = reused | {name: {"commit": commit(), "suites": suites} for name, suites in found.items()}
    replace_file(path, json.dumps({"rows": rows, "more words": length, **head}, indent=1) + "\n")
    columns = {name: row["suites"] for name, row in rows.items()} | {"more words": length}
    table = [
        {"suite": suite, "n": cell["n"], "directions": cell["directions"]}
        | {name: _cell(suites[suite]) if suite in suites else "" for name, suites in columns.items()}
        for suite, cell in length.items()
    ]
    write_table(given.report, "suites", pd.DataFrame(table), f"seeds {given.seeds}; commits in results.json")


def _cell(cell: dict[str, float]) -> str:
    return f"{cell['sum']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
