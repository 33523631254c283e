"""Differences in accuracy of two judges on the same comparisons, with intervals and p-values.

A judge's correctness on a comparison is 1, 0, or one half where it predicts a tie (a logit of exactly 0). McNemar's
test takes comparisons as independent, which those that share a prompt are not; it is shown, and the verdict rests on
the test that flips whole prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from scipy import stats

from crm.evaluation.predictions import Sample
from crm.report.statistics import Floats, Indices, bootstrap_interval, correctness, holm

LEVEL = 0.05
"""Holm-adjusted p-values below it tell two judges apart."""
IN_ONE_ONLY, WITHOUT_LABEL, WITHOUT_VERDICT = "in one only", "without a label", "without a verdict"
Suites = Mapping[str, Sequence[Sample]]
"""The samples of one judge, by suite."""


@dataclass(frozen=True)
class Paired:
    """First judge minus second on ``n`` common comparisons of ``clusters`` prompts; p-values are two-sided.

    ``difference`` of the accuracies and its 95 % limits lie in [-1, 1]; the limits are NaN for a single prompt.
    ``first_better`` and ``second_better`` count the comparisons on which one judge is more correct than the other.
    ``left_out`` counts comparisons that are in one of the two only, have no label, or lack a verdict of either judge.
    """

    difference: float
    low: float
    high: float
    n: int
    clusters: int
    first_better: int
    second_better: int
    mcnemar_p: float
    clustered_p: float
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class PairOnSuite:
    """Two judges, by name, on a suite; without ``result`` they could not be compared, and ``reason`` says why.

    ``adjusted_p`` is the clustered p-value after Holm's correction over the whole table.
    """

    suite: str
    first: str
    second: str
    result: Paired | None
    reason: str = ""
    adjusted_p: float = float("nan")

    @property
    def distinguishable(self) -> bool:
        """Whether the two differ by more than chance; not so where they could not be compared."""
        return self.adjusted_p < LEVEL


def compare(first: Sequence[Sample], second: Sequence[Sample], seed: int, resamples: int = 1000) -> Paired:
    """Two judges on the comparisons of one suite that have a label and a verdict of both.

    The interval is the percentile bootstrap over prompts, each drawn with all its comparisons, of ``seed``.
    Raises ``ValueError`` where nothing is left to compare, or where an id has another label or prompt for each judge.
    """
    pairs, left_out = _matched(first, second)
    if not pairs:
        counted = ", ".join(f"{count} {why}" for why, count in left_out.items() if count) or "none given"
        raise ValueError(f"comparisons: none with a label and a verdict of both judges ({counted})")
    labels = [one.label or 0 for one, _ in pairs]
    right, other_right = (correctness([pair[side].logit for pair in pairs], labels) for side in (0, 1))
    difference = right - other_right
    sums, sizes = _by_cluster(difference, [one.cluster for one, _ in pairs])

    def mean(drawn: Indices) -> float:
        return float(sums[drawn].sum() / sizes[drawn].sum())

    interval = bootstrap_interval(mean, len(sums), seed, resamples)
    low, high = (interval.low, interval.high) if len(sums) > 1 else (float("nan"), float("nan"))
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    p_values = mcnemar_p(better, worse), sign_flip_p(sums)
    return Paired(float(difference.mean()), low, high, len(pairs), len(sums), better, worse, *p_values, left_out)


def compare_all(judges: Mapping[str, Suites], seed: int) -> list[PairOnSuite]:
    """Every two of ``judges``, by name, on every suite that both have read; Holm's correction is over all of them."""
    rows = [
        _compared(suite, first, second, judges, seed)
        for suite in dict.fromkeys(name for suites in judges.values() for name in suites)
        for first, second in combinations(judges, 2)
        if suite in judges[first] and suite in judges[second]
    ]
    raw = [row.result.clustered_p for row in rows if row.result]
    adjusted = iter(holm(raw).tolist())
    return [replace(row, adjusted_p=next(adjusted)) if row.result else row for row in rows]


def mcnemar_p(first_better: int, second_better: int) -> float:
    """McNemar's exact p-value: the two-sided binomial test of the discordant pairs at one half (McNemar 1947).

    A comparison on which exactly one judge predicts a tie is discordant too, for the judge that is more correct there,
    and counts as one; without predicted ties this is McNemar's test, with them the sign test. 1 without discordance.
    """
    discordant = first_better + second_better
    return float(stats.binomtest(first_better, discordant).pvalue) if discordant else 1.0


def sign_flip_p(sums: Floats) -> float:
    """Exact two-sided p-value of the sign-flip test of ``sums`` (G,), one a cluster, multiples of one half.

    Where two judges are alike, exchanging them within a prompt changes nothing, so that every cluster's sum of
    differences is as likely with either sign, however alike the comparisons inside it are (Canay, Romano and Shaikh
    2017, Econometrica 85:3; Fisher 1935). The share of the 2^G sign patterns whose absolute total is at least the one
    seen is counted, not drawn (shift algorithm, Streitberg and Roehmel 1986). Fewer than six clusters that differ
    never reach 0.05. Raises ``ValueError`` for other numbers.
    """
    doubled = np.rint(2 * np.asarray(sums, dtype=np.float64)).astype(np.int64)
    if not np.array_equal(doubled, 2 * np.asarray(sums)):
        raise ValueError(f"sums: expected multiples of one half, got {np.asarray(sums)[doubled != 2 * sums][0]}")
    steps = np.sort(np.abs(doubled[doubled != 0]))
    chances = np.ones(1)  # of every total of the clusters with a plus
    for step in steps.tolist():
        wider = np.zeros(len(chances) + step)
        wider[: len(chances)] = chances / 2
        wider[step:] += chances / 2
        chances = wider
    seen = abs(int(doubled.sum()))
    return min(1.0, 2 * float(chances[(int(steps.sum()) + seen) // 2 :].sum()))


def _compared(suite: str, first: str, second: str, judges: Mapping[str, Suites], seed: int) -> PairOnSuite:
    try:
        return PairOnSuite(suite, first, second, compare(judges[first][suite], judges[second][suite], seed))
    except ValueError as error:
        return PairOnSuite(suite, first, second, None, str(error))


def _matched(first: Sequence[Sample], second: Sequence[Sample]) -> tuple[list[tuple[Sample, Sample]], dict[str, int]]:
    """Both judges' samples of the comparisons that count, by id, and how many do not."""
    one, two = ({sample.comparison_id: sample for sample in samples} for samples in (first, second))
    pairs: list[tuple[Sample, Sample]] = []
    left_out = {IN_ONE_ONLY: len(one.keys() ^ two.keys()), WITHOUT_LABEL: 0, WITHOUT_VERDICT: 0}
    for identifier in sorted(one.keys() & two.keys()):
        pair = one[identifier], two[identifier]
        if len({(sample.label, sample.cluster) for sample in pair}) > 1:
            raise ValueError(
                f"comparison_id: {identifier} has another label or prompt for each judge; they read different data"
            )
        if pair[0].label is None:
            left_out[WITHOUT_LABEL] += 1
        elif pair[0].failures or pair[1].failures:
            left_out[WITHOUT_VERDICT] += 1
        else:
            pairs.append(pair)
    return pairs, left_out


def _by_cluster(values: Floats, clusters: Sequence[str]) -> tuple[Floats, Floats]:
    """Sum of the values and number of rows of every cluster (G,), in the order of their keys."""
    number = np.unique(np.asarray(clusters, dtype=object), return_inverse=True)[1]
    return np.bincount(number, weights=values).astype(np.float64), np.bincount(number).astype(np.float64)
