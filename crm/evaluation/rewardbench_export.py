"""RewardBench's own result files from an evaluation with ``data=rewardbench criteria=none``.

``python -m crm.evaluation.rewardbench_export <run folder> --data <file or folder> --model owner/name --out <folder>``

- ``eval-set/<model>.json``: the share of correct rows in every subset, ``model``, ``model_type``, ``chat_template``;
- ``eval-set-scores/<model>.json``, where the judge gave scores: columns ``text_chosen``, ``text_rejected`` (lists of
  messages), ``results``, ``subset``, ``id``, ``scores_chosen``, ``scores_rejected``, in the order of the set.

The form is that of allenai/reward-bench, scripts/run_rm.py. Numbers are this project's: logits of both orders are
averaged, a tie counts one half (there, nothing), and rows without a verdict are left out and counted (there, long ones
are cut). RewardBench 2, which asks for the best of four, has no export.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.data.catalogue import location
from crm.data.comparisons import make_comparisons, with_generic_criterion
from crm.data.public.plain import rewardbench
from crm.evaluation.predictions import read_predictions, reading_digest, to_samples
from crm.evaluation.results import read_run
from crm.io.files import replace_file
from crm.io.intake import Intake
from crm.report.statistics import correctness
from crm.schema import Message, Preference

PREFIX, SUITE = "rewardbench-", "D+"
SCORED, COMPARED = "Seq. Classifier", "Custom Classifier"
"""RewardBench's words for a model that scores a response, and for one that only compares two."""


@dataclass(frozen=True)
class Export:
    """Files, and how many rows of the set have a verdict, failed, or were not read (too long)."""

    files: tuple[Path, ...]
    rows: int
    failed: int
    unread: int


def export(run_folder: Path, data: str, out: Path, model: str) -> Export:
    """Write the files under ``out``. ``data`` is the evaluation's ``data.path``.

    Raises ``ValueError`` for a folder without results, for predictions of other data than ``data``, for RewardBench 2,
    and for a ``model`` that cannot name a file.
    """
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", model):
        raise ValueError(
            f"--model {model!r:.80}: expected a name such as owner/name, of letters, digits, '.', '_', '-'"
        )
    run = read_run(run_folder / "results.json")
    files = run.get("files") or {}
    if SUITE not in files:
        found = ", ".join(files) or "none"
        raise ValueError(f"{run_folder}: has no suite {SUITE}, only {found}; evaluate with suite.names=[{SUITE}]")
    if not Path(files[SUITE]).is_file():
        raise ValueError(f"{files[SUITE]}: predictions of {run_folder} not found; run this where the evaluation ran")
    predictions = read_predictions(files[SUITE])
    preferences = _preferences(data)
    made, _ = make_comparisons(
        with_generic_criterion(preferences.values()),
        direction="original",
        noise="none",
        pool=None,
        seed=0,
        epoch=0,
        criteria_mode="none",
    )
    if {row.fingerprint for row in predictions} != {reading_digest(str(run.get("judge_digest")), made)}:
        raise ValueError(
            "--data: the predictions are not of these rows; only evaluations of all of RewardBench are exported, made "
            "with data=rewardbench criteria=none, and with --data as their data.path was"
        )
    samples = {sample.comparison_id: sample for sample in to_samples(predictions)[SUITE]}
    scores = pd.DataFrame({"id": row.comparison_id, "a": row.score_a, "b": row.score_b} for row in predictions)
    means = scores.groupby("id")[["a", "b"]].agg(lambda column: column.astype(float).mean(skipna=False))
    kept = [row for row in made if row.id in samples and not samples[row.id].failures]
    if not kept:
        raise ValueError(f"{run_folder}: suite {SUITE} holds no verdict to export; the judge failed on every row")
    columns: dict[str, list[Any]] = {}
    for comparison in kept:
        row = preferences[comparison.preference_id]
        better, worse = ("a", "b") if row.winner == "a" else ("b", "a")
        name = row.id.removeprefix(PREFIX)
        cells = {
            "text_chosen": _messages((*row.prompt, *getattr(row, f"response_{better}"))),
            "text_rejected": _messages((*row.prompt, *getattr(row, f"response_{worse}"))),
            "results": float(correctness([samples[comparison.id].logit], [int(better == "a")])[0]),
            "subset": row.topic,
            "id": int(name) if re.fullmatch("0|[1-9][0-9]*", name) else name,
            "scores_chosen": float(means.loc[comparison.id, better]),
            "scores_rejected": float(means.loc[comparison.id, worse]),
        }
        for key, value in cells.items():
            columns.setdefault(key, []).append(value)
    scored = bool(np.isfinite(columns["scores_chosen"] + columns["scores_rejected"]).all())
    facts = {
        "model": model,
        "model_type": SCORED if scored else COMPARED,
        "chat_template": "tokenizer" if run.get("prompt_digest") else "none",
    }
    subsets = pd.Series(columns["results"]).groupby(columns["subset"]).mean().to_dict()
    written = [_write(out / "eval-set", model, facts | subsets)]
    if scored:
        written.append(_write(out / "eval-set-scores", model, facts | columns))
    return Export(tuple(written), len(kept), len(samples) - len(kept), len(preferences) - len(samples))


def _preferences(data: str) -> dict[str, Preference]:
    """The rows of the set by id, in its order."""
    reading = Intake(strict=True)
    rows = {row.id: row for row in rewardbench(location("rewardbench", root="", path=data), reading)}
    if reading.counts["rows_of_rewardbench_2"]:
        raise ValueError(f"--data {data}: is RewardBench 2, whose score is the best of four responses, not of pairs")
    without = next((row.id for row in rows.values() if row.topic is None), None)
    if without:
        raise ValueError(f"--data {data}: {without} has no subset, and RewardBench's results are by subset")
    return rows


def _messages(turns: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def _write(folder: Path, model: str, document: dict[str, Any]) -> Path:
    return replace_file(folder / f"{model}.json", json.dumps(document, indent=4, sort_keys=True, allow_nan=False))


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 and one sentence for a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m crm.evaluation.rewardbench_export", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("run", type=Path, help="run folder of evaluate.py")
    parser.add_argument("--data", required=True, help="RewardBench, as data.path was")
    parser.add_argument("--model", required=True, help="name of the model, owner/name")
    parser.add_argument("--out", required=True, type=Path, help="folder for the result files")
    given = parser.parse_args(words)
    try:
        made = export(given.run, given.data, given.out, given.model)
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    print(f"{made.rows} rows; left out: {made.failed} failed, {made.unread} not read (too long)")
    print("\n".join(f"wrote {file}" for file in made.files))
    if len(made.files) == 1:
        print("no scores file: this judge compares responses and scores none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
