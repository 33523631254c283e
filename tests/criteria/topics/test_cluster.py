"""k-means: groups made by hand are found, and neither the last bits of the numbers nor duplicates change them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from crm.criteria.topics import cluster as module
from crm.criteria.topics.cluster import cluster
from crm.criteria.topics.embed import tfidf_embeddings, unit_rows


def blobs(sizes: tuple[int, ...], seed: int = 0, dimensions: int = 12, spread: float = 0.05) -> np.ndarray:
    """Points around one axis a group."""
    noise = np.random.default_rng(seed).normal(scale=spread, size=(sum(sizes), dimensions))
    return unit_rows(np.repeat(np.eye(dimensions)[: len(sizes)], sizes, axis=0) + noise)


def test_three_groups_by_hand(sentences: list[str]) -> None:
    vectors = tfidf_embeddings(sentences)
    assert cluster(vectors, count=3).tolist() == [0] * 5 + [1] * 4 + [2] * 3


def test_the_number_is_found_where_it_is_clear() -> None:
    sizes = (30, 25, 20, 15, 10, 5)
    assert cluster(blobs(sizes)).tolist() == np.repeat(range(6), sizes).tolist()


@pytest.mark.parametrize("count", [0, 5])
def test_the_last_bits_do_not_matter(count: int) -> None:
    """Other processors, and other numbers of threads, round sums differently."""
    rows = np.random.default_rng(3).normal(size=(300, 8)).astype(np.float32)
    rounded = np.nextafter(rows, np.random.default_rng(4).choice([-9, 9], rows.shape).astype(np.float32))
    assert not np.array_equal(rows, rounded)
    assert np.array_equal(cluster(rows, count=count), cluster(rounded, count=count))


def test_same_seed_same_labels() -> None:
    rows = np.random.default_rng(3).normal(size=(300, 8)).astype(np.float32)
    assert np.array_equal(cluster(rows, count=5, seed=1), cluster(rows, count=5, seed=1))
    assert not np.array_equal(cluster(rows, count=5, seed=1), cluster(rows, count=5, seed=2))


def test_duplicates_weigh_as_often_as_they_occur() -> None:
    rows = blobs((6, 4), spread=0.1)
    repeated = np.concatenate([rows, rows[6:], rows[6:]])  # the small group becomes the larger: 12 against 6
    labels = cluster(repeated, count=2)
    assert labels[:10].tolist() == [1] * 6 + [0] * 4
    assert np.array_equal(labels[6:10], labels[10:14])
    # The weighted centre is what plain k-means finds on the repeated rows.
    plain = KMeans(2, n_init=10, random_state=0).fit(repeated)
    assert adjusted_rand_score(plain.labels_, labels) == 1


def test_weights_move_the_border() -> None:
    """0, 1 and 2.2 on a line: {0, 1} and {2.2} cost least, but {0} and {1, 2.2} where 0 and 1 occur 50 times."""
    once = np.array([[0], [1], [2.2]], dtype=np.float32)
    assert cluster(once, count=2).tolist() == [0, 0, 1]
    often = np.concatenate([np.repeat(once[:2], 50, axis=0), once[2:]])
    assert cluster(often, count=2).tolist() == [1] * 50 + [0] * 51


def test_many_rows_are_fitted_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_ROWS", 100)
    sizes = (200, 100, 50)
    assert cluster(blobs(sizes), count=3).tolist() == np.repeat(range(3), sizes).tolist()


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_few_or_equal_rows_are_one_cluster(rows: int) -> None:
    assert cluster(blobs((rows,))).tolist() == [0] * rows
    assert cluster(np.zeros((rows, 4), dtype=np.float32)).tolist() == [0] * rows
    assert cluster(np.zeros((rows, 4), dtype=np.float32), count=1).tolist() == [0] * rows


@pytest.mark.parametrize("count", [-1, 3])
def test_a_count_that_cannot_be(count: int) -> None:
    rows = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)
    with pytest.raises(ValueError, match=f"count: {count} .* 2 distinct"):
        cluster(rows, count=count)
