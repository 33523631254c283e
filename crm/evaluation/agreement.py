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
from crm.report.tables import caption, print_table, write_table
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
    write_table(config.run_dir, "agreement", frame, line)
    print_table(frame, f"Spearman's rho with people's ratings, 95 % over groups ({config.run_dir})")


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
    rows = [(*json.loads(row.comparison_id), row.preference_logit, row.score_a, row.score_b) for row in predictions]
    keys, numbers = ["group", "aspect", "author"], ["logit", "score", "base"]
    read = _means(pd.DataFrame(rows, columns=[*keys, *numbers]).astype(dict.fromkeys(numbers, float)), keys)
    aspects = list(responses[0].rated.scores)
    table = pd.DataFrame(
        (row.group, aspect, str(row.rated.author), row.rated.scores[aspect])
        for group in _groups(responses).values()
        for row in group
        for aspect in aspects
    ).set_axis([*keys, "rating"], axis=1)
    table = table.merge(read.reset_index(), on=keys, how="left")
    first, base = ~table.duplicated(["group", "aspect"]), _means(read["base"].reset_index(), ["group", "aspect"])
    table.loc[first, "logit"] = 0.0  # of itself with itself
    table.loc[first, "score"] = base["base"].reindex(pd.MultiIndex.from_frame(table.loc[first, keys[:2]])).to_numpy()
    within = pd.DataFrame(
        {
            aspect: {group: spearman(rows["logit"], rows["rating"]) for group, rows in own.groupby("group")}
            for aspect, own in table.groupby("aspect", sort=False)
        }
    )
    # Rounded, so that means of equal scores are equal.
    pooled = [spearman(own["score"].round(9), own["rating"]) for _, own in table.groupby("aspect", sort=False)]
    # A group counts in the mean where it has a rho under every aspect.
    within[MEAN] = within.mean(axis=1, skipna=False)
    return pd.DataFrame(
        _row(name, within[name].dropna().tolist(), rho)
        for name, rho in zip(within, [*pooled, float(np.mean(pooled))], strict=True)
    )


def spearman(found: Sequence[float] | pd.Series, rated: Sequence[float] | pd.Series) -> float:
    """Spearman's rho in [-1, 1]; NaN where a number is missing or one side is constant."""
    if np.isnan(found).any() or len(set(found)) < 2 or len(set(rated)) < 2:
        return float("nan")
    return float(stats.spearmanr(found, rated).statistic)


def _means(frame: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Means of the other columns by ``keys``; NaN where one of the numbers is."""
    groups = frame.groupby(keys)[[name for name in frame if name not in ("group", "aspect", "author")]]
    return groups.mean().where(groups.count().eq(groups.size(), axis=0))


def _groups(responses: Sequence[RatedInPlace]) -> dict[str, list[RatedInPlace]]:
    groups: dict[str, list[RatedInPlace]] = {}
    for response in sorted(responses, key=lambda row: (row.group, str(row.rated.author))):
        groups.setdefault(response.group, []).append(response)
    return groups


def _row(aspect: Any, rhos: Sequence[float], pooled: float) -> dict[str, Any]:
    row = {"aspect": aspect, "groups": len(rhos), "rho": np.nan, "low": np.nan, "high": np.nan, "pooled": pooled}
    if rhos:
        found = mean_interval(rhos)
        row |= {"rho": found.mean} | ({"low": found.low, "high": found.high} if len(rhos) > 1 else {})
    return row


if __name__ == "__main__":
    sys.exit(main())
