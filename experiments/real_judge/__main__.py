"""``python -m experiments.real_judge --root <public sets> --out <folder>``: trains, evaluates, ranks, writes it down.

A seed is that of training; the data are split by ``data.seed``, the same for all. Beside the judge is the one that
prefers more words; a sum of 1 is any judge that ignores the criterion.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from rich.progress import track

from crm.config import compose
from crm.data.load import load_data
from crm.data.splits import Splits
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.crm_judge import open_checkpoint
from crm.report.tables import write_table
from experiments.jobs import Job, run_jobs
from experiments.real_judge.leakage import leakage, training_sentences
from experiments.real_judge.ranking import rank
from experiments.real_judge.source import UNSEEN_TRAITS
from experiments.real_judge.suites import by_trait, read_suites, sums

RECIPE = (
    *("model=smollm2_135m", "model.use_layers=15", "model.freeze_layers=15", "model.kept_states_dtype=bfloat16"),
    *("model.max_length=2048", "head=late", "head.response_layers=3", "head.gated=true", "loss=ranking"),
    *("data.name=tastes", "data.train=12800", "data.validation=400", "data.suite=600", "data.max_words=250"),
    *("optimizer.lr=3e-3", "optimizer.weight_decay=0.05", "optimizer.beta2=0.98", "schedule=tiny"),
    *("schedule.epochs=1", "schedule.max_steps=400", "schedule.validate_every=200", "schedule.save_every=400"),
)
STAGES = ("batching.name=user_vectors",), ("batching.name=criteria_tables",)
"""The vectors of responses are learned first, then the words of criteria."""
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
    """Trainings, side by side as cores allow; then suites, leaderboards and what ``--report`` gets."""
    data = (f"data.path={given.root}", f"data.seed={DATA_SEED}")
    jobs = [job(seed, given.out, data, given.overrides) for seed in given.seeds]
    run_jobs(jobs, min(len(jobs), os.cpu_count() or 1))
    torch.set_num_threads(os.cpu_count() or 1)
    splits = splits_of(jobs[0])
    write_table(given.report, "leakage", leakage(splits, training_sentences()), "training beside each suite")
    boards, frames = [], []
    for seed, made in zip(given.seeds, jobs, strict=True):
        judge = open_checkpoint(made.folder / "model", batch_size=64, precision="32-true")[0]
        if judge.late_reader is None:
            raise ValueError(f"head={judge.encoder.head}: reads criteria and response together; train head=late")
        frames.append(read_suites(judge, splits.suites, partial(track, description=f"suites, seed {seed}")))
        found = rank(judge, given.root, data_seed=DATA_SEED, queries=given.queries, folder=given.out)
        boards += [{"seed": seed, **asdict(row)} for row in found]
    summaries = [json.loads((made.folder / "summary.json").read_text(encoding="utf-8")) for made in jobs]
    write(given, frames, pd.DataFrame(boards), [round(summary["seconds"]) for summary in summaries])


def splits_of(made: Job) -> Splits:
    """What a job trains and is asked on."""
    config = compose("train", list(made.overrides or ()), made.folder)
    return load_data(config.data, criteria=config.criteria)


def write(
    given: argparse.Namespace, frames: Sequence[pd.DataFrame], boards: pd.DataFrame, seconds: Sequence[int]
) -> None:
    """``results.json`` and the table of the leaderboards, a trait a row, means over seeds."""
    traits = boards.drop(columns="seed").groupby("trait", sort=False).mean().reset_index()
    trained = traits[~traits["trait"].isin(UNSEEN_TRAITS)].drop(columns="trait")
    found = {
        "suites": sums(frames),
        "length": sums(frames[:1], "length"),
        "traits": by_trait(frames),
        "boards": {row["trait"]: row for row in traits.round(4).to_dict("records")},
        "boards_mean": trained.mean().round(4).to_dict(),
        "boards_opposite_below_-.7": int((trained["opposite"] <= -0.7).sum()),
        "training_seconds": list(seconds),
        "seeds": given.seeds,
        "queries": given.queries,
        "commit": commit(),
    }
    replace_file(given.report / "results.json", json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    write_table(given.report, "boards", traits.round(3), f"{len(given.seeds)} seeds, commit {commit()}")


def job(seed: int, out: Path, data: Sequence[str], overrides: Sequence[str]) -> Job:
    """The training of one seed."""
    return Job(f"seed {seed}", out / f"seed_{seed}", (*RECIPE, f"seed={seed}", *data, *overrides), stages=STAGES)


if __name__ == "__main__":
    sys.exit(main())
