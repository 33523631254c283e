"""``python -m experiments.human_labels --root <public sets> --out <folder>``: trains, asks every set, writes it down.

A row of the result is a training: on SummEval with half of its votes from pairs that flip, the same with votes as they
come, on d2t, on both, on these and two sets whose labels are true by construction, on all four one aspect at a time
(`mixture`), on these and Topical-Chat, and the first with the scalar head. Each is asked about all sets; only its own
are unseen documents of known aspects, the others are transfer. A judge that was trained elsewhere is a row too
(``--checkpoint``).
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
from crm.data.splits import Splits, split_by_prompt
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.crm_judge import open_checkpoint
from crm.model.batching.plans import packing_named
from crm.report.tables import write_table
from crm.schema import Preference
from experiments.command import answered, parsed
from experiments.human_labels.mixture import write_mixture
from experiments.human_labels.suites import accuracies, read_suites
from experiments.jobs import Job, run_jobs
from experiments.sources.rated import flips

MIXTURE = "four sets, one aspect each"
MIXED = {"summeval": 2500, "d2t": 0, "concise_verbose": 300, "dsp": 300}
"""Sets of the mixture, and how many of their preferences train (0: all)."""
WIDER, IN_PARTS = "five sets, one aspect each", "topicalchat in parts"
"""Topical-Chat, which is otherwise measured on alone, with three tenths of its dialogues held out."""
MIXTURES = {MIXTURE: MIXED, WIDER: {**MIXED, IN_PARTS: 0}}
MIXED_SETTINGS = (
    "data=file",
    "data.train=0",
    "data.validation=150",
    "loss.off_criteria_penalty=0.1",
    "model.use_layers=18",
    "model.freeze_layers=18",
    "head.dropout=0.5",
    "schedule.comparisons_per_step=256",
)
ROWS = {
    "summeval": (),
    "summeval, votes as they come": ("data.train=0",),
    "d2t": ("data.name=d2t",),
    "summeval and d2t": ("data=mixture", "data.sources=[summeval,d2t]"),
    "four sets": ("data=mixture", "data.sources=[summeval,d2t,concise_verbose,dsp]"),
    **dict.fromkeys(MIXTURES, ("data.path='{folder}'", *MIXED_SETTINGS)),
    "summeval, scalar head": (
        "head=scalar",
        "model.freeze_layers=8",
        "optimizer.lr=3e-4",
        "schedule.max_steps=270",
    ),
}
"""The scalar head trains four layers, since on frozen ones alone it could learn next to nothing."""
OTHER, LENGTH = "another checkpoint", "more words"
ASKED = ("summeval", "d2t", IN_PARTS, "topicalchat", "llmbar", "prometheus_hhh", "concise_verbose", "dsp")
"""The first six labelled by people."""
DATA_SEED = 1


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.human_labels", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, default=Path("results/human_labels"))
    parser.add_argument("--report", type=Path, help="where tables go; by default --out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--checkpoint", type=Path, help="ask this model too, as another row")
    parser.add_argument("--asked", nargs="+", default=list(ASKED), choices=ASKED, help="sets that the models are asked")
    parser.add_argument("--suite", type=int, default=0, help="preferences of a suite, at most; 0: all of them")
    parser.add_argument("--workers", type=int, default=2, help="trainings at a time")
    parser.add_argument("overrides", nargs="*", help="overrides of train.py")
    given = parsed(parser, words)
    return answered("human_labels", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Seed by seed all trainings, then every model on every suite; what there is so far is written after each seed."""
    for row, sets in MIXTURES.items():
        if row in given.rows:
            write_mixture(mixture(row, given), {name: splits(name, given.root, most) for name, most in sets.items()})
    known = {source: suites_of(source, given.root, given.suite) for source in given.asked}
    every = {name: rows for found in known.values() for name, rows in found.items() if rows}
    frames = {OTHER: [asked(given.checkpoint, every, OTHER)]} if given.checkpoint else {}
    for seed in given.seeds:
        jobs = {row: job(row, seed, given) for row in given.rows}
        if jobs:
            run_jobs(list(jobs.values()), given.workers)
        for row in given.rows:
            seen = known["topicalchat"] if "topicalchat" in known and IN_PARTS in MIXTURES.get(row, ()) else {}
            suites = {name: found for name, found in every.items() if name not in seen}
            frame = asked(jobs[row].folder / "model", suites, f"{row}, seed {seed}")
            frames.setdefault(row, []).append(frame)
        report(given, frames)


def job(row: str, seed: int, given: argparse.Namespace) -> Job:
    """The training of one row and seed."""
    folder = given.out / f"{plain(row)}_{seed}"
    own = (word.format(folder=mixture(row, given).absolute()) for word in ROWS[row])
    fixed = ("experiment=human_labels", *own, f"data.root={given.root}", f"data.seed={DATA_SEED}")
    return Job(f"{row}, {seed}", folder, (*fixed, f"seed={seed}", *given.overrides))


def mixture(row: str, given: argparse.Namespace) -> Path:
    """The folder of a mixture."""
    return Path(given.out) / f"{plain(row)}_data"


def plain(row: str) -> str:
    """A row's name in those of folders."""
    return row.replace(", ", " ").replace(" ", "_")


def splits(name: str, root: str, train: int = 0, suite: int = 0) -> Splits:
    """A set in the parts of the study, with at most so many preferences to train on and in a suite (0: all)."""
    words = [
        "experiment=human_labels",
        f"data.name={name.removesuffix(' in parts')}",
        f"data.root={root}",
        f"data.seed={DATA_SEED}",
        f"data.train={train}",
        f"data.suite={suite}",
    ]
    config = compose("train", words, Path()).data
    found = load_data(config)
    if name != IN_PARTS:
        return found
    parts = split_by_prompt(found.rows, config)
    return Splits.of({"train": parts["train"], "validation": parts["validation"], "D": parts["test"]})


def suites_of(name: str, root: str, most: int) -> dict[str, list[Preference]]:
    """The held-out suites of a set, pairs that flip apart from the others; of one to measure on alone, all of it."""
    found = {}
    for suite, rows in splits(name, root, suite=most).suites.items():
        together = sorted(rows, key=lambda row: row.id)  # those of a document, so that it is read once
        found[f"{name} {suite}, straight"] = [row for row in together if not flips(row)]
        found[f"{name} {suite}, flips"] = [row for row in together if flips(row)]
    return found


def asked(checkpoint: Path, suites: dict[str, list[Preference]], name: str) -> pd.DataFrame:
    """A row a comparison, each text read once."""
    judge = open_checkpoint(checkpoint, batch_size=64, precision="32-true", packing=packing_named("tree", 4096))[0]
    return read_suites(judge, suites, partial(track, description=name))


def report(given: argparse.Namespace, frames: dict[str, list[pd.DataFrame]]) -> None:
    """``results.json`` and a table of accuracies. Rows of runs before this one stay if their suites are as large."""
    folder = given.report or given.out
    path = folder / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rows = known["rows"] if known.get("suite") == given.suite else {}
    rows |= {
        name: {"commit": commit(), "overrides": given.overrides, "suites": accuracies(of)}
        for name, of in frames.items()
    }
    lengths = rows.get(LENGTH, {}).get("suites", {})
    for of in frames.values():
        lengths |= accuracies(of[:1], "length")
    rows[LENGTH] = {"suites": lengths}
    replace_file(path, json.dumps({"suite": given.suite, "rows": rows}, indent=1) + "\n")
    table = [
        {"suite": suite, "n": cell["n"]}
        | {name: _cell(row["suites"][suite]) if suite in row["suites"] else "" for name, row in rows.items()}
        for suite, cell in rows[LENGTH]["suites"].items()
    ]
    write_table(folder, "suites", pd.DataFrame(table), "accuracy, mean over seeds; commits in results.json")


def _cell(cell: dict[str, Any]) -> str:
    return f"{cell['accuracy']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"


if __name__ == "__main__":
    sys.exit(main())
