"""Keywords against a computation by hand and against BERTopic's own; names that differ."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from crm.criteria.topics.keywords import _class_tfidf, find_keywords, name_clusters


def test_weights_by_hand() -> None:
    counts = csr_matrix(np.array([[3.0, 1.0, 0.0], [0.0, 1.0, 3.0]]))
    # Four words a cluster; "both" occurs twice in all, the others three times in their own.
    own, both = 3 / 4 * math.log(1 + 4 / 3), 1 / 4 * math.log(1 + 4 / 2)
    assert _class_tfidf(counts).toarray() == pytest.approx(np.array([[own, both, 0], [0, both, own]]))


def test_keywords_by_hand() -> None:
    texts = ["apple apple pear", "apple the pie", "robot pie", "robot the robot"]
    # Cluster 0: apple 3, pear 1, pie 1 of 5 words; cluster 1: robot 3, pie 1 of 4; A = 4.5.
    assert find_keywords(texts, [0, 0, 1, 1], 2) == (("apple", "pear", "pie"), ("robot", "pie"))


def test_duplicates_count_and_order_does_not() -> None:
    texts = ["red", "blue sky", "red", "red", "green"]
    assert find_keywords(texts, [0, 0, 0, 0, 1], 2) == (("red", "blue", "sky"), ("green",))
    assert find_keywords(texts[::-1], [1, 0, 0, 0, 0], 2) == (("red", "blue", "sky"), ("green",))


def test_ten_at_most_and_none_where_there_are_no_words() -> None:
    many = " ".join(f"word{number:02}" for number in range(15))
    keywords = find_keywords([many, "the", ""], [0, 1, 2], 3)
    assert [len(own) for own in keywords] == [10, 0, 0]
    assert find_keywords(["", "??"], [0, 0], 1) == ((),)


def test_a_word_that_nobody_could_read_is_no_keyword() -> None:
    assert find_keywords(["x" * 31 + " pear", "y" * 30], [0, 1], 2) == (("pear",), ("y" * 30,))
    assert find_keywords(["x" * 200_000], [0], 1) == ((),)


def test_weights_are_those_of_bertopic() -> None:
    if importlib.util.find_spec("bertopic") is None:
        pytest.skip("bertopic is not installed")
    from bertopic.vectorizers import ClassTfidfTransformer
    from sklearn.preprocessing import normalize

    counts = csr_matrix(np.random.default_rng(0).integers(0, 5, size=(4, 30)).astype(float))
    theirs = ClassTfidfTransformer().fit_transform(counts.copy()).toarray()
    ours = _class_tfidf(counts).toarray()
    # BERTopic rounds A down; with that the weights are the same.
    a = counts.sum(axis=1).mean()
    per_word = np.asarray(counts.sum(axis=0)).ravel()
    ours_rounded = ours * np.log1p(int(a) / per_word) / np.log1p(a / per_word)
    assert normalize(ours_rounded, norm="l1") == pytest.approx(normalize(theirs, norm="l1"))


def test_names_are_short_and_differ() -> None:
    keywords = [
        ["poem", "poems", "rhyme", "verse"],
        ["a1", "b1", "c1", "d1"],
        ["a1", "b1", "c1", "e1"],
        ["a1", "b1", "c1"],
    ]
    names = name_clusters([*keywords, ["a1", "b1", "c1"], [], []])
    assert names[:3] == ("Poem, rhyme, verse", "A1, b1, c1", "A1, b1, c1, e1")
    assert names[3:] == ("A1, b1, c1 (2)", "A1, b1, c1 (3)", "Without keywords", "Without keywords (2)")
