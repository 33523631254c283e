"""Silhouette by hand; mutual information against scikit-learn, its extremes, and the coverage of its interval."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import adjusted_mutual_info_score, silhouette_score

from crm.criteria.topics.quality import agreement, silhouette


def tagged(values: np.ndarray) -> list[list[str]]:
    return [[f"tag {value}"] for value in values]


def test_silhouette_by_hand() -> None:
    rows = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float32)
    assert silhouette(rows, np.array([0, 0, 1, 1])) == pytest.approx(1)
    # Row 0: its own cluster is at distance (0 + 1) / 2, the other at 1: (1 - .5) / 1. Row 2: own 1, other 1, so 0 ...
    assert silhouette(rows, np.array([0, 0, 0, 1])) == pytest.approx((0.5 + 0.5 - 1 + 0) / 4)


def test_silhouette_is_scikit_learns_and_blind_to_order() -> None:
    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(90, 4)), generator.integers(0, 3, 90)
    order = generator.permutation(90)
    assert silhouette(rows, labels) == pytest.approx(silhouette_score(rows, labels, metric="cosine"), rel=1e-12)
    assert silhouette(rows, labels, sample=30) == silhouette(rows[order], labels[order], sample=30)
    assert silhouette(rows, labels, sample=30, seed=1) != silhouette(rows, labels, sample=30, seed=2)


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_silhouette_without_meaning_is_none(labels: list[int]) -> None:
    assert silhouette(np.eye(3, dtype=np.float32), np.array(labels)) is None


def test_agreement_is_scikit_learns_on_the_first_tag() -> None:
    labels = [0, 0, 1, 1, 2, 2]
    tags = [["x", "z"], ["x"], ["x", "y"], ["y"], ["y", "x"], ["y"]]
    found = agreement(labels, tags)
    assert found.ami == pytest.approx(adjusted_mutual_info_score(list("xxxyyy"), labels))
    assert found.low <= found.ami <= found.high
    assert (found.n, found.untagged) == (6, 0)


def test_agreement_at_its_extremes() -> None:
    generator = np.random.default_rng(0)
    truth, other = generator.integers(0, 5, 500), generator.integers(0, 5, 500)
    same = agreement(truth.tolist(), tagged(truth))
    assert same.ami == pytest.approx(1) and same.low == pytest.approx(1)
    chance = agreement(other.tolist(), tagged(truth))
    assert abs(chance.ami) < 0.02
    assert chance.low < 0 < chance.high


def test_interval_covers_the_truth() -> None:
    """Agreement in part, 20 samples of 200: the interval holds the value of a large sample about 19 times in 20."""
    generator = np.random.default_rng(1)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        truth = generator.integers(0, 12, n)
        return truth, np.where(generator.random(n) < 0.4, truth, generator.integers(0, 12, n))

    truth, labels = draw(100_000)
    target = adjusted_mutual_info_score(truth, labels)
    covered = 0
    for _ in range(20):
        truth, labels = draw(200)
        found = agreement(labels.tolist(), tagged(truth), resamples=40)
        covered += found.low <= target <= found.high
    assert covered >= 16


def test_untagged_documents_are_counted() -> None:
    found = agreement([0, 0, 1, 1, 1], [["x"], ["x"], ["y"], ["y"], []])
    assert (found.n, found.untagged, found.ami) == (4, 1, pytest.approx(1))


@pytest.mark.parametrize(
    ("tags", "words"), [([["x"]], "1 for 2 labels"), ([[], []], "no document"), (["x", "y"], "list of tags")]
)
def test_tags_that_do_not_fit(tags: list[list[str]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        agreement([0, 1], tags)
