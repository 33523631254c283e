"""The paper's ablation tables. In: a scale. Out: one table a question, from saved predictions, trained where missing.

``python -m crm.reproduce scale=demo`` (`make reproduce-tables`). Every run has a folder named by what was asked for; a
run whose model, configuration and predictions are there is only read. The grid is a star: each table varies one factor
around a common centre, and the runs that tables share are made once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd

from crm.config import compose
from crm.evaluation.run import print_table
from crm.evaluation.tables import caption, number, suite_table, write_table
from crm.jobs import SCALAR_WARM_UP, Job, JobResult, run_jobs
from crm.provenance import commit
from crm.schema import Result

Words = tuple[str, ...]
HEADS: Mapping[str, Words] = {
    "scalar, ranking": ("head=scalar", "loss=ranking"),
    "pairwise, cls": ("head=pairwise", "loss=cls"),
    "pairwise_span, cls": ("head=pairwise_span", "loss=cls"),
    "scalar, no criteria": ("head=scalar", "loss=ranking", "criteria=none", "direction=original"),
}
NOISES = ("none", "add", "remove", "replace", "random")
DIRECTIONS = ("original", "reverse", "random", "both")


@dataclass(frozen=True)
class Scale:
    """``common`` overrides of every run, the ``centre`` that tables vary around, and the sizes of the size table."""

    common: Words
    centre: Words
    sizes: Mapping[str, Words]
    warm_up: Words = ()
    """Of the heads that read both responses in one prompt."""
    evaluate: Words = ("suite=all",)

    def tables(self) -> dict[str, dict[str, Words]]:
        """Overrides of ``train.py`` for every row of every table."""
        return {
            "head_and_loss": dict(HEADS),
            "noise": {kind: (*self.centre, f"noise={kind}") for kind in NOISES},
            "direction": {kind: (*self.centre, f"direction={kind}") for kind in DIRECTIONS},
            "size": {name: (*self.centre, *words) for name, words in self.sizes.items()},
        }


SCALES = {
    "demo": Scale(
        common=("experiment=ablation_demo",),
        centre=HEADS["scalar, ranking"],
        warm_up=SCALAR_WARM_UP,
        sizes={"hidden 64": ("model.hidden_size=64",), "hidden 128": ()},
    ),
    "paper": Scale(
        common=("optimizer=paper", "trainer=gpu"),
        centre=HEADS["pairwise, cls"],
        sizes={size: (f"model=qwen3_{size}",) for size in ("0_6b", "1_7b", "4b", "8b")},
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: ``scale=demo`` or ``scale=paper``, further overrides of ``train.py``, ``--out``, ``--dry-run``."""
    parser = argparse.ArgumentParser(prog="python -m crm.reproduce", description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="scale=demo|paper and overrides of train.py for every run")
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--dry-run", action="store_true", help="only list the runs")
    options = parser.parse_args(arguments)
    chosen = [word.removeprefix("scale=") for word in options.overrides if word.startswith("scale=")] or ["demo"]
    extra = tuple(word for word in options.overrides if not word.startswith("scale="))
    try:
        scale = _scale(chosen[-1])
        jobs, rows = plan(scale, extra, options.out / chosen[-1], options.seed)
        if options.dry_run:
            for line in (line for job in jobs for line in commands(job)):
                print(line)
            return 0
        write_tables(options.out / chosen[-1], rows, run_jobs(jobs, options.workers), options.seed)
    except ValueError as error:
        print(f"crm.reproduce: {error}", file=sys.stderr)
        return 2
    return 0


def _scale(name: str) -> Scale:
    if name not in SCALES:
        raise ValueError(f"scale={name}: expected one of {', '.join(SCALES)}")
    return SCALES[name]


def plan(scale: Scale, extra: Words, out: Path, seed: int) -> tuple[list[Job], dict[str, dict[str, str]]]:
    """The distinct runs, and for every table the run (its name) behind each row."""
    jobs: dict[str, Job] = {}
    rows: dict[str, dict[str, str]] = {}
    data = tuple(word for word in extra if word.startswith("data"))
    for table, variants in scale.tables().items():
        for row, words in variants.items():
            overrides = (*scale.common, *words, f"seed={seed}", *extra)
            digest = config_digest(overrides)
            evaluations = {"suites": (*scale.evaluate, *data, *(word for word in words if word == "criteria=none"))}
            warm_up = scale.warm_up if "head=pairwise" in " ".join(words) else ()
            job = Job(f"{table}: {row}", out / "runs" / digest, overrides, evaluations, warm_up=warm_up)
            rows.setdefault(table, {})[row] = jobs.setdefault(digest, job).name
    return list(jobs.values()), rows


def commands(job: Job) -> list[str]:
    """What a run does, as a user would type it, each with the folder that it fills."""
    words, lines = job.overrides, []
    if job.warm_up:
        start = job.folder / "warm_up"
        lines.append(f"{start}: python train.py {' '.join((*words, *job.warm_up))}")
        words = (*words, f"model.path={start / 'model'}")
    return [*lines, f"{job.folder}: python train.py {' '.join(words)}"]


def config_digest(overrides: Sequence[str]) -> str:
    """8 hex digits of the training configuration: rows that mean the same run share it, however they are written."""
    config = asdict(compose("train", overrides, Path("run")))
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]


def write_tables(
    out: Path, rows: Mapping[str, Mapping[str, str]], finished: Mapping[str, JobResult], seed: int
) -> None:
    """One table a question (rows by suites), and the suites table with every run; all of them printed."""
    for table, variants in rows.items():
        results = {row: finished[name].results["suites"] for row, name in variants.items()}
        frame = suite_table(results)
        write_table(out, table, frame, caption(None, [seed], table, commit()))
        clean = frame[frame["suite"].str.endswith(("+", "-"))]
        print_table(clean if table != "noise" else frame, f"{table} ({out / table}.md)")
    sums = pd.DataFrame(
        [
            _sums(table, row, finished[name].results["suites"])
            for table, variants in rows.items()
            for row, name in variants.items()
        ]
    )
    write_table(out, "accuracy_sums", sums, caption(None, [seed], "acc(+) + acc(-); 1.0 ignores criteria", commit()))


def _sums(table: str, row: str, results: Sequence[Result]) -> dict[str, str]:
    cells = {r.suite: number(r.value, r.low, r.high) for r in results if r.metric == "accuracy_sum"}
    return {"table": table, "row": row, **cells}


if __name__ == "__main__":
    sys.exit(main())
