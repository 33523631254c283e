"""Spearman's rho of a judge with people's ratings of single responses, by aspect.

``python -m crm.evaluation.agreement data=summeval checkpoint=<run>/model --out <folder>`` reads the summaries of the
held-out documents. Each is compared with the first of its group under each aspect's wording; the logits of a group rank
its responses, and so do the ratings.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from crm.config import compose
from crm.data.catalogue import MADE, location, source_named
from crm.data.comparisons import FIXED_SEED
from crm.data.public.pairs import RatedInPlace
from crm.data.sampling import shuffled, turn
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.run import read_suites, start_reading
from crm.io.installed import commit
from crm.io.intake import Intake
from crm.judges.open import check_judge, open_judge
from crm.report.statistics import mean_interval
from crm.report.tables import caption, number, write_table
from crm.report.terminal import print_table
from crm.schema import Comparison, Prediction

MEAN, SUITE = "mean of aspects", "ratings"


def main(words: Sequence[str] | None = None) -> int:
    """Read, compute, write ``agreement.md/.csv/.tex`` into ``--out``; exit code 2 for a mistake."""
    parser = argparse.ArgumentParser(prog="crm.evaluation.agreement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("overrides", nargs="+", help="of evaluate.py, with data=summeval")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(words)
    try:
        config = compose("evaluate", given.overrides, given.out)
        check_judge(config)
        run_agreement(config)
    except (ValueError, OSError) as error:
        print(f"crm.evaluation.agreement: {error}", file=sys.stderr)
        return 2
    return 0


def run_agreement(config: EvaluateConfig) -> None:
    """Write and print the table of one judge."""
    processes = start_reading(config)
    responses, wordings = rated_responses(config)
    opened = open_judge(config, blind=config.criteria == "none")
    rows = rating_comparisons(responses, wordings, FIXED_SEED)
    readings = read_suites(opened, {SUITE: rows}, config, processes)
    if not processes.first:
        return
    frame = agreement(responses, readings.predictions)
    line = caption(len(responses), opened.seeds, f"{opened.name} on {config.data.name}", commit())
    cells = [number(row.rho, row.low, row.high) for row in frame.itertuples()]
    shown = frame[["aspect", "groups"]].assign(**{"within groups": cells, "pooled": frame["pooled"]})
    write_table(config.run_dir, "agreement", frame, line, shown=shown)
    print_table(shown, f"Spearman's rho with people's ratings, 95 % over groups ({config.run_dir})")


def rated_responses(config: EvaluateConfig) -> tuple[list[RatedInPlace], Mapping[str, Sequence[str]]]:
    """Rated responses, and wordings of the aspects. Raises ``ValueError`` for data without ratings."""
    data = config.data
    rated = None if data.name in MADE else source_named(data.name).rated
    if rated is None:
        raise ValueError(f"data={data.name}: has no ratings of single responses; use data=summeval")
    place = location(data.name, root=data.root, path=data.path)
    return rated(place, Intake(strict=data.strict), seed=data.seed, max_words=data.max_words)


def rating_comparisons(
    responses: Sequence[RatedInPlace], wordings: Mapping[str, Sequence[str]], seed: int
) -> list[Comparison]:
    """Every response (A) against the first of its group by author (B), once an aspect, in a wording drawn by ``seed``.

    The label is ``tie``: ratings decide, not votes. The first itself is not compared: its logit is 0.
    """
    return [
        Comparison(
            id=json.dumps([group, aspect, other.rated.author]),
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
    """Rows of aspects and of their mean: rho within a group, averaged over groups with a 95 % interval, and pooled.

    ``groups`` are those in which neither ratings nor logits are all equal and every response has a verdict; the others
    have no rho, and are left out. ``pooled`` is over all responses of all groups, from the judge's scores; a judge
    without scores has none.
    """
    logits, scores = _by_response(predictions)
    groups = _groups(responses)
    aspects = list(responses[0].rated.scores)
    within: dict[str, dict[str, float]] = {aspect: {} for aspect in aspects}
    pooled: list[float] = []
    for aspect in aspects:
        own: list[tuple[float, float]] = []
        for group, (first, *others) in groups.items():
            keys = [(group, aspect, str(member.rated.author)) for member in others]
            rated = [member.rated.scores[aspect] for member in (first, *others)]
            rho = spearman([0.0, *(logits.get(key, np.nan) for key in keys)], rated)
            if rho == rho:
                within[aspect][group] = rho
            own += zip([scores.get(key, np.nan) for key in [(group, aspect, None), *keys]], rated, strict=True)
        pooled.append(spearman(*zip(*own, strict=True)))
    # A group counts in the mean where it has a rho under every aspect.
    common = set.intersection(*(set(found) for found in within.values()))
    means = [float(np.mean([within[aspect][group] for aspect in aspects])) for group in sorted(common)]
    rows = [_row(name, list(within[name].values()), rho) for name, rho in zip(aspects, pooled, strict=True)]
    return pd.DataFrame([*rows, _row(MEAN, means, float(np.mean(pooled)))])


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


def _by_response(predictions: Sequence[Prediction]) -> tuple[dict[Any, float], dict[Any, float]]:
    """Mean logit and score of both orders by (group, aspect, author); NaN where an order has none.

    The author of the response that all others are compared with is ``None``.
    """
    logits: dict[Any, list[float | None]] = {}
    scores: dict[Any, list[float | None]] = {}
    for row in predictions:
        group, aspect, author = json.loads(row.comparison_id)
        logits.setdefault((group, aspect, author), []).append(row.preference_logit)
        scores.setdefault((group, aspect, author), []).append(row.score_a)
        scores.setdefault((group, aspect, None), []).append(row.score_b)
    one, two = (
        {key: float(np.mean(np.array(values, dtype=float))) for key, values in found.items()}
        for found in (logits, scores)
    )
    return one, two


def _row(aspect: str, rhos: Sequence[float], pooled: float) -> dict[str, Any]:
    if not rhos:
        return {"aspect": aspect, "groups": 0, "rho": np.nan, "low": np.nan, "high": np.nan, "pooled": pooled}
    interval = mean_interval(rhos)
    low, high = (interval.low, interval.high) if interval.clusters > 1 else (np.nan, np.nan)
    return {"aspect": aspect, "groups": len(rhos), "rho": interval.mean, "low": low, "high": high, "pooled": pooled}


if __name__ == "__main__":
    sys.exit(main())
