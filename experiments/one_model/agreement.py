"""Spearman's rho of a judge with people's ratings of single responses, by aspect.

``python -m experiments.one_model.agreement data.name=summeval checkpoint=<run>/model`` takes what ``evaluate.py`` takes
and reads the summaries of the held-out documents. Each is compared with the first of its group under each aspect's
wording; the logits of a group rank its responses, and so do the ratings.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from crm.config import compose
from crm.data.catalogue import location
from crm.data.comparisons import FIXED_SEED
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.predictions import to_samples
from crm.evaluation.run import read_suites
from crm.io.draws import hold_out, shuffled, turn
from crm.io.installed import commit
from crm.io.processes import ALONE
from crm.io.rows import Intake
from crm.judges.open import check_judge, open_judge
from crm.report.statistics import mean_interval
from crm.report.tables import caption, print_table, write_table
from crm.schema import Comparison, Prediction
from experiments.command import answered
from experiments.sources import summeval
from experiments.sources.rated import Rated
from experiments.sources.sets import RatedInPlace, rated_replies

OUT = Path("outputs/agreement")
MEAN, SUITE = "mean of aspects", "ratings"


def run_agreement(config: EvaluateConfig) -> None:
    """Write and print ``agreement.md/.csv/.tex`` of one judge."""
    check_judge(config)
    responses, wordings = rated_responses(config)
    opened = open_judge(config, blind=config.criteria == "none")
    rows = rating_comparisons(responses, wordings, FIXED_SEED)
    readings = read_suites(opened, {SUITE: rows}, config, ALONE)
    frame = agreement(responses, readings.predictions)
    line = caption(len(responses), opened.seeds, f"{opened.name} on {config.data.name}", commit())
    write_table(config.run_dir, "agreement", frame, line)
    print_table(frame, f"Spearman's rho with people's ratings, 95 % over groups ({config.run_dir})")


def rated_responses(config: EvaluateConfig) -> tuple[list[RatedInPlace], Mapping[str, Sequence[str]]]:
    """Rated responses, and wordings of the aspects. Raises ``ValueError`` for data without ratings."""
    data = config.data
    if data.name not in ("summeval", "topicalchat"):
        raise ValueError(f"data={data.name}: has no ratings of single responses; use data.name=summeval")
    place, reading = location(data.name, root=data.root, path=data.path), Intake(strict=data.strict)
    if data.name == "topicalchat":
        return rated_replies(place, reading)
    return rated_summaries(place, reading, data.seed, data.max_words), summeval.WORDINGS


def rated_summaries(folder: Path, reading: Intake, seed: int, max_words: int) -> list[RatedInPlace]:
    """Every summary of the documents that `summeval.load` holds out under this seed."""
    ratings = summeval.read_ratings(folder, reading)
    held_out, _ = hold_out((rating.document for rating in ratings), summeval.SHARES, seed)
    return [
        RatedInPlace(row.document, summeval.prompt_of(row, max_words), Rated(row.summary, row.system, row.scores))
        for row in ratings
        if row.document in held_out
    ]


def rating_comparisons(
    responses: Sequence[RatedInPlace], wordings: Mapping[str, Sequence[str]], seed: int
) -> list[Comparison]:
    """Every response (A) against the first of its group by author (B), once an aspect, in a wording drawn by ``seed``.

    The label is ``tie``: ratings decide, not votes. The first itself is not compared: its logit is 0.
    """
    return [
        Comparison(
            id=comparison_id(group, aspect, other.rated.author),
            preference_id=group,
            criteria=(shuffled(wording, seed, group, aspect)[0],),
            prompt=other.prompt,
            response_a=turn("assistant", other.rated.text),
            response_b=turn("assistant", first.rated.text),
            label="tie",
            direction="none",
        )
        for group, (first, *others) in _groups(responses).items()
        for aspect, wording in wordings.items()
        for other in others
    ]


def agreement(responses: Sequence[RatedInPlace], predictions: Sequence[Prediction]) -> pd.DataFrame:
    """Rows of aspects and of their mean: rho within a group, averaged over groups with a 95 % interval.

    ``groups`` are those in which neither ratings nor logits are all equal and every response has a verdict; the others
    have no rho, and are left out. A group counts in the mean where it has a rho under every aspect.
    """
    logits = {sample.comparison_id: sample.logit for sample in to_samples(predictions)[SUITE]}
    aspects, rhos = list(responses[0].rated.scores), {}
    for group, (first, *others) in _groups(responses).items():
        for aspect in aspects:
            names = [comparison_id(group, aspect, other.rated.author) for other in others]
            rated = [row.rated.scores[aspect] for row in (first, *others)]
            rhos[group, aspect] = spearman([0.0, *(logits.get(name, np.nan) for name in names)], rated)
    within = pd.Series(rhos).unstack()[aspects]
    within[MEAN] = within.mean(axis=1, skipna=False)
    return pd.DataFrame(_row(name, within[name].dropna().tolist()) for name in within)


def comparison_id(group: str, aspect: str, author: str | None) -> str:
    """Of the comparison of an author's response with the first of its group."""
    return json.dumps([group, aspect, author])


def spearman(found: Sequence[float], rated: Sequence[float]) -> float:
    """Spearman's rho in [-1, 1]; NaN where a number is missing or one side is constant."""
    if np.isnan(found).any() or len(set(found)) < 2 or len(set(rated)) < 2:
        return float("nan")
    return float(stats.spearmanr(found, rated).statistic)


def _groups(responses: Sequence[RatedInPlace]) -> dict[str, list[RatedInPlace]]:
    groups: dict[str, list[RatedInPlace]] = {}
    for response in sorted(responses, key=lambda row: (row.group, str(row.rated.author))):
        groups.setdefault(response.group, []).append(response)
    return groups


def _row(aspect: Any, rhos: Sequence[float]) -> dict[str, Any]:
    if not rhos:
        return {"aspect": aspect, "groups": 0, "rho": np.nan, "low": np.nan, "high": np.nan}
    found = mean_interval(rhos)
    return {"aspect": aspect, "groups": len(rhos), "rho": found.mean, "low": found.low, "high": found.high}


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(answered("one_model.agreement", lambda: run_agreement(compose("evaluate", words, OUT)), "evaluate"))
