"""RewardBench's own result files, which ``evaluate.py data=rewardbench criteria=none`` writes beside its tables.

- ``rewardbench/eval-set.json``: the share of correct rows in every subset, ``model``, ``model_type``,
  ``chat_template``;
- ``rewardbench/eval-set-scores.json``, where the judge gave scores: columns ``text_chosen``, ``text_rejected`` (lists
  of messages), ``results``, ``subset``, ``id``, ``scores_chosen``, ``scores_rejected``.

The form is that of allenai/reward-bench, scripts/run_rm.py. Numbers are this project's: logits of both orders are
averaged, a tie counts one half (there, nothing), and rows without a verdict are left out and counted (there, long ones
are cut). RewardBench 2, which asks for the best of four, has no such files.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.evaluation.predictions import to_samples
from crm.io.files import replace_file
from crm.report.statistics import correctness
from crm.schema import Comparison, Prediction

log = logging.getLogger(__name__)
SUITE = "D+"


def write_rewardbench(
    folder: Path,
    comparisons: Sequence[Comparison],
    predictions: Sequence[Prediction],
    topics: Mapping[str, str | None],
    *,
    model: str,
    template: bool,
) -> list[Path]:
    """Write the files below ``folder``; ``topics`` are by comparison. None for data that lack a subset or a verdict."""
    own = [row for row in predictions if row.suite == SUITE]
    samples = {sample.comparison_id: sample for sample in to_samples(own).get(SUITE, [])}
    kept = [row for row in comparisons if row.id in samples and not samples[row.id].failures]
    if not kept or None in topics.values():
        log.warning("no result files of RewardBench: they need subsets and verdicts")
        return []
    scores = pd.DataFrame({"id": row.comparison_id, "a": row.score_a, "b": row.score_b} for row in own)
    means = scores.astype({"a": float, "b": float}).groupby("id").mean()
    table: list[dict[str, Any]] = []
    for row in kept:
        better, worse = ("a", "b") if row.label == "a" else ("b", "a")
        name = row.preference_id.removeprefix("rewardbench-")
        table.append(
            {
                "text_chosen": _messages(row, better),
                "text_rejected": _messages(row, worse),
                "results": float(correctness([samples[row.id].logit], [int(better == "a")])[0]),
                "subset": topics[row.id],
                "id": int(name) if name.isdecimal() else name,
                "scores_chosen": float(means.loc[row.id, better]),
                "scores_rejected": float(means.loc[row.id, worse]),
            }
        )
    columns: dict[str, list[Any]] = {name: [row[name] for row in table] for name in table[0]}
    scored = bool(np.isfinite(columns["scores_chosen"] + columns["scores_rejected"]).all())
    facts = {
        "model": model,
        "model_type": "Seq. Classifier" if scored else "Custom Classifier",
        "chat_template": "tokenizer" if template else "none",
    }
    subsets = pd.Series(columns["results"]).groupby(columns["subset"]).mean().to_dict()
    files = {"eval-set": facts | subsets, **({"eval-set-scores": facts | columns} if scored else {})}
    failed, unread = len(samples) - len(kept), len(comparisons) - len(samples)
    log.info("rewardbench: %d rows; left out: %d failed, %d not read (too long)", len(kept), failed, unread)
    return [
        replace_file(folder / "rewardbench" / f"{name}.json", json.dumps(found, indent=4, sort_keys=True))
        for name, found in files.items()
    ]


def _messages(row: Comparison, side: str) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in (*row.prompt, *getattr(row, f"response_{side}"))]
