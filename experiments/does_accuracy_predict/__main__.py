"""``python -m experiments.does_accuracy_predict``: judges of many kinds, their accuracy, and what they are good for.

Trains the judges, has them read the suites, pick the best of k, and some of them teach policies by GRPO; then
correlates. Out: ``results.json``, tables, pictures. What a folder holds already is not made again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from experiments.command import answered, parsed
from experiments.does_accuracy_predict.judges import SUITES, Spec, chosen, in_order, specs
from experiments.does_accuracy_predict.predictions import (
    SUITES_FILE,
    Picking,
    picked_already,
    save_best_of_n,
    save_suites,
)
from experiments.does_accuracy_predict.reinforcement import reinforce, spread
from experiments.does_accuracy_predict.report import report
from experiments.jobs import run_jobs
from experiments.processes import side_by_side

CRITERIA = (
    "detailed",
    "concise",
    "humorous",
    "serious",
    "bulleted",
    "vivid",
    "formal",
    "casual",
    "cautious",
    "scientific",
)


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.does_accuracy_predict", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=Path("results/does_accuracy_predict"), help="models, predictions")
    parser.add_argument("--report", type=Path, help="where tables go; by default --out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=int, default=30, help="prompts that the best of k is picked for")
    parser.add_argument("--n", type=int, default=64, help="responses to each of them")
    parser.add_argument("--criteria", nargs="+", default=list(CRITERIA), help="poles of the simulation's axes")
    parser.add_argument("--judges", nargs="+", help="some of the study's judges; all where it is not given")
    parser.add_argument("--grpo", type=int, default=8, help="judges that teach policies; 0: none")
    parser.add_argument("--grpo-start", type=Path, help="a start taught by experiments.grpo; else it is taught")
    parser.add_argument("--grpo-steps", type=int, default=70, help="steps of a policy")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    parser.add_argument("--analyse-only", action="store_true", help="from what was saved; makes nothing")
    parser.add_argument("overrides", nargs="*", help="overrides of train.py for all trainings")
    given = parsed(parser, words)
    return answered("does_accuracy_predict", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """All parts in turn."""
    for name, least in (("grpo", 0), ("grpo_steps", 1), ("workers", 1), ("seed", 0)):
        if getattr(given, name) < least:
            raise ValueError(f"--{name.replace('_', '-')}={getattr(given, name)}: expected {least} or more")
    found = chosen(specs(given.seed), given.judges)
    picking = Picking(tuple(given.criteria), given.queries, given.n, given.seed)
    if not given.analyse_only:
        predict(found, picking, given)
        teach(found, given)
    report(found, given.out, given.report or given.out, seed=given.seed, overrides=given.overrides)


def predict(found: Sequence[Spec], picking: Picking, given: argparse.Namespace) -> None:
    """Trainings and suites, then the best of k."""
    for jobs in in_order(found, given.out, given.overrides):
        if jobs:
            run_jobs(jobs, min(len(jobs), given.workers))
    for spec in found:
        save_suites(given.out / spec.name)
    missing = [spec for spec in found if not picked_already(spec, given.out, picking)]
    side_by_side([(save_best_of_n, (spec, given.out, picking)) for spec in missing], given.workers, "the best of k")


def teach(found: Sequence[Spec], given: argparse.Namespace) -> None:
    """Policies by judges that were trained and score a response by itself, spread over the range of accuracy."""
    scoring = [spec.name for spec in found if spec.overrides is not None and not spec.needs]
    accuracies = {name: accuracy(given.out / name) for name in scoring}
    reinforce(
        spread(accuracies, given.grpo),
        [spec.name for spec in found],
        given.out,
        start=given.grpo_start,
        steps=given.grpo_steps,
        seed=given.seed,
        workers=given.workers,
    )


def accuracy(folder: Path) -> float:
    """The mean over suites, of what has a verdict."""
    saved = json.loads((folder / SUITES_FILE).read_text(encoding="utf-8"))
    right = [np.array(saved[suite]["right"], dtype=np.float64) for suite in SUITES]
    return float(np.mean([np.nanmean(own) for own in right]))


if __name__ == "__main__":
    sys.exit(main())
