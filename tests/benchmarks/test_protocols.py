"""Scores of benchmarks against numbers worked out by hand, and against RewardBench's code written a second time."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from crm.benchmarks import protocols
from crm.benchmarks.catalogue import BENCHMARKS
from crm.benchmarks.judging import blind_outcomes, outcome
from crm.benchmarks.protocols import Item, Point
from crm.benchmarks.report import estimate, estimates, flags, paired, table
from crm.report.statistics import cluster_interval
from tests.conftest import say


def item(name: str, responses: int, right: int = 1, category: tuple[str, ...] = (), **more: object) -> Item:
    texts = tuple(say(f"assistant: {name} {place}") for place in range(responses))
    return Item(name, say(f"user: {name}"), texts, tuple(range(right)), category=category, **more)  # type: ignore[arg-type]


def values(points: Sequence[Point], metric: str) -> list[float]:
    return [point.value for point in points if point.metric == metric]


def test_rm_bench_compares_each_chosen_style_with_each_rejected_one():
    # Chosen: concise 3, detailed 1, markdown 5. Rejected: 2, 2, 6.
    points = list(protocols.rm_bench([item("a", 6, 3)], [[3, 1, 5, 2, 2, 6]]))
    # Wins: row 1: > > <, row 2: < < <, row 3: > > <.
    assert values(points, "hard") == [pytest.approx(1 / 3)]  # (1,2) won, (1,3) lost, (2,3) lost
    assert values(points, "normal") == [pytest.approx(1 / 3)]  # (1,1) won
    assert values(points, "easy") == [pytest.approx(2 / 3)]  # (2,1) lost, (3,1) and (3,2) won
    assert values(points, "average") == [pytest.approx(4 / 9)]
    # Equal scores win nothing.
    assert values(list(protocols.rm_bench([item("a", 6, 3)], [[1] * 6])), "average") == [0]


def test_the_best_of_four_shares_its_point_with_those_it_ties_with():
    rows = [item(name, 4, category=("Math",)) for name in "abcd"]
    scores = [[2, 1, 1, 1], [2, 2, 1, 2], [1, 2, 0, 0], [None, 1, 0, 0]]
    points = list(protocols.reward_bench_2(rows, scores))
    assert values(points, "accuracy") == [1, pytest.approx(1 / 3), 0, 0]


def test_the_ties_score_by_hand():
    # Reference: 3 against 1, gap 2. Tied: right 3 and 2.9, wrong 1: gap 1.9, spread .1.
    rows = [item("ref:1", 2, 1, ("Ties",)), item("tied:1", 3, 2, ("Ties",))]
    (point,) = protocols.reward_bench_2(rows, [[3, 1], [3, 2.9, 1]])
    assert point.value == pytest.approx(0.3 + 0.3 + 0.2 + 0.2 + 0.01 * math.tanh(1.9 / 0.1 - 1))
    (unread,) = protocols.reward_bench_2(rows, [[3, 1], [3, None, 1]])
    assert unread.value == pytest.approx(0.3), "the reference alone"


def reference_ties(scored: dict[str, tuple[list[float], int]]) -> float:
    """The composite of the owners' `process_single_model`, means over prompts first, with numpy."""
    gap, spread = {}, {}
    for name, (scores, right) in scored.items():
        good, bad = np.array(scores[:right]), np.array(scores[right:])
        gap[name] = good.min() - bad.max()
        spread[name] = np.ptp(good) if right > 1 else np.nan
    numbers = sorted({name.split(":")[1] for name in scored})
    ref, tied = (np.array([gap[f"{kind}:{n}"] for n in numbers]) for kind in ("ref", "tied"))
    width = np.array([spread[f"tied:{n}"] for n in numbers])
    known = ~np.isnan(width)
    smaller = np.minimum(ref, tied)
    with np.errstate(divide="ignore", invalid="ignore"):
        tie_break = np.nan_to_num(np.tanh(smaller / width - 1)[known])
    parts = [(tied > 0).mean(), (ref > 0).mean(), (tied > width)[known].mean(), (smaller > width)[known].mean()]
    return float(np.dot([0.3, 0.3, 0.2, 0.2], parts) + 0.01 * tie_break.mean())


def scored_ties(seed: int) -> dict[str, tuple[list[float], int]]:
    rng = np.random.default_rng(seed)
    found = {}
    for number in range(12):
        found[f"ref:{number}"] = (rng.normal([2, 0, 0, 0]).round(1).tolist(), 1)
        right = int(rng.integers(1, 5))
        found[f"tied:{number}"] = (rng.normal([1.5] * right + [0] * 3).round(1).tolist(), right)
    return found


def points_of(scored: dict[str, tuple[list[float], int]]) -> list[Point]:
    rows = [item(name, len(scores), right, ("Ties",)) for name, (scores, right) in scored.items()]
    return list(protocols.reward_bench_2(rows, [scores for scores, _ in scored.values()]))


@pytest.mark.parametrize("seed", range(25))
def test_the_ties_score_is_that_of_a_second_computation(seed):
    scored = scored_ties(seed)
    assert estimate(points_of(scored), macro=1).mean == pytest.approx(reference_ties(scored), abs=1e-12)


def test_best_of_k_is_the_grade_of_the_highest_score():
    graded = item("a", 4, values=(0.0, 1.0, 0.0, 1.0))
    points = list(protocols.best_of_k([graded], [[0.1, 0.5, 0.9, 0.2]]))
    assert values(points, "best_of_k") == [0]
    # Pairs of a right and a wrong one: (1,0) won, (1,2) lost, (3,0) won, (3,2) lost.
    assert values(points, "accuracy") == [0.5]


def test_an_unread_pair_counts_as_wrong():
    assert values(list(protocols.pairwise([item("a", 2)] * 3, [[1, 0], [0, 0], [None, 0]])), "accuracy") == [1, 0, 0]


def test_an_unread_response_wins_nothing_for_the_others():
    (of_four,) = protocols.reward_bench_2([item("a", 4, category=("Math",))], [[0.1, None, None, None]])
    assert of_four.value == 0
    graded = item("a", 4, values=(1.0, 0.0, 0.0, 1.0))
    points = list(protocols.best_of_k([graded], [[0.5, None, 0.1, None]]))
    assert values(points, "best_of_k") == [0]
    assert values(points, "accuracy") == [0.25], "of four pairs, one of two that were read"


def test_judge_bench_is_its_gpt_4o_split_pooled_with_the_mean_of_categories_beside_it():
    kinds = [("gpt-4o", "math"), *[("gpt-4o", "coding")] * 3, ("claude-3-5-sonnet", "math")]
    rows = [item(f"{n}", 2, category=kind) for n, kind in enumerate(kinds)]
    benchmark = BENCHMARKS["judge_bench"]
    judged = outcome(benchmark, "judge", "none", rows, [[1, 0], [0, 1], [0, 1], [1, 0], [0, 1]])
    means = {metric: own.mean for (metric, part), own in estimates(judged, benchmark.macro).items() if not part}
    assert means == pytest.approx({"accuracy": 2 / 4, "category_mean": (1 + 1 / 3) / 2, "other_split": 0})
    shown = table(benchmark, [judged]).set_index("judge").loc["Skywork-Reward-V2-Qwen3-8B"]
    assert (shown["category_mean"], shown["accuracy"]) == ("0.734", "–")


def test_a_macro_mean_goes_level_by_level():
    points = [
        Point("m", "a", "a", 1.0, ("chat", "chat")),
        Point("m", "b", "b", 0.0, ("safety", "refuse")),
        Point("m", "c", "c", 1.0, ("safety", "refuse")),
        Point("m", "d", "d", 1.0, ("safety", "respond")),
    ]
    assert estimate(points, macro=2).mean == pytest.approx((1 + (0.5 + 1) / 2) / 2)
    assert estimate(points, macro=1).mean == pytest.approx((1 + 2 / 3) / 2), "as RM-Bench's code pools safety"
    assert estimate(points, macro=0).mean == 0.75
    assert (BENCHMARKS["reward_bench"].macro, BENCHMARKS["rm_bench"].macro) == (2, 1)


@pytest.mark.parametrize("macro", [0, 1])
def test_the_interval_of_a_proportion_is_that_of_every_suite(macro):
    rng = np.random.default_rng(0)
    right, clusters, kinds = rng.integers(0, 2, 60), rng.integers(0, 20, 60), rng.integers(0, 3, 60)
    points = [Point("m", str(n), str(clusters[n]), float(right[n]), (str(kinds[n]),)) for n in range(60)]
    expected = cluster_interval(
        right.astype(float), clusters.tolist(), [(kind,) for kind in kinds.tolist()] if macro else None
    )
    found = estimate(points, macro)
    assert found.clusters == len(set(clusters.tolist())), "equal prompts are one"
    assert (found.mean, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))


def test_a_paired_difference_has_the_p_value_of_a_paired_t_test():
    one, other = [0.2, 0.9, 0.4, 0.6], [0.1, 0.5, 0.45, 0.2]
    points = [[Point("m", str(n), str(n), value) for n, value in enumerate(row)] for row in (one, other)]
    assert paired(*points, macro=0)[1] == pytest.approx(stats.ttest_rel(one, other).pvalue)


@pytest.mark.parametrize("sizes", [[5] * 131, [1, 4, 9, 2, 6] * 6])
def test_users_with_their_own_means_are_the_observations(sizes):
    """As in PersonalRewardBench, where a user is both what is averaged by and what is resampled."""
    rng = np.random.default_rng(0)
    one, other = (
        [Point("m", f"{user}.{n}", f"{user}", float(rng.integers(2)), (f"{user}",))
         for user, size in enumerate(sizes) for n in range(size)]
        for _ in range(2)
    )  # fmt: skip
    means = [
        [np.mean([point.value for point in points if point.cluster == f"{user}"]) for user in range(len(sizes))]
        for points in (one, other)
    ]
    found, p = paired(one, other, macro=1)
    expected = stats.ttest_rel(*means)
    limits = expected.confidence_interval()
    assert (found.low, found.high) == pytest.approx((limits.low, limits.high))
    assert p == pytest.approx(expected.pvalue)
    alone = estimate(one, macro=1)
    assert (alone.mean, alone.standard_error) == pytest.approx((np.mean(means[0]), stats.sem(means[0])))


def test_a_difference_is_no_proportion():
    lost, won = ([Point("m", str(n), str(n), value) for n, value in enumerate(row)] for row in ([0] * 4, [1, 1, 0, 1]))
    found, p = paired(won, lost, macro=0)  # 1, 1, 0 and 1, all in [0, 1]
    expected = stats.ttest_1samp([1, 1, 0, 1], 0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    found, p = paired(won, won, macro=0)
    assert (found.mean, p) == (0, 1) and math.isnan(found.low) and math.isnan(found.high)
    assert paired(won[:2], lost[:2], macro=0)[1] == 0.5  # two wins of two


def test_a_ruler_that_wins_is_flagged():
    longer = [
        Item(f"{n}", say(f"user: {n}"), (say("assistant: a long answer"), say("assistant: no"))) for n in range(4)
    ]
    benchmark = BENCHMARKS["ppe_preference"]
    outcomes = blind_outcomes(benchmark, longer)
    assert [outcome.judge for outcome in outcomes] == ["coin", "longest", "shortest", "first"]
    noted = flags(benchmark, outcomes)
    assert any(text.startswith("longest reads nothing and has 1.000 on accuracy (n = 4)") for text in noted)
    assert not any(text.startswith("shortest") for text in noted)
