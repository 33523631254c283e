"""The way in: one record for every method, stable under the order of rows, with counts that add up."""

from __future__ import annotations

import importlib.util
import random
import sys

import numpy as np
import pandas as pd
import pytest

from crm.criteria.topics.bertopic_backend import MIN_TEXTS, bertopic_labels
from crm.criteria.topics.embed import tfidf_embeddings, unit_rows
from crm.criteria.topics.find import find_topics, topics_with
from crm.criteria.topics.frame import Topics
from crm.criteria.topics.taxonomy import PAPER_TOPICS, assign, described
from crm.votes.simulation.arena import simulate

KINDS = {
    "Cooking": "pasta, sauce and recipes",
    "Space": "rocket, orbit and satellites",
    "Chess": "knight, bishop, queen",
}


def partition(topics: Topics) -> set[frozenset[str]]:
    frame = topics.frame()
    return {frozenset(own) for _, own in frame.groupby("Topic")["Document"]}


def test_three_groups_with_names_and_counts(groups: dict[str, list[str]], sentences: list[str]) -> None:
    topics = find_topics([*sentences, sentences[0]], count=3)
    assert partition(topics) == {frozenset(own) for own in groups.values()}
    assert topics.sizes == (6, 4, 3)
    assert set(topics.keywords[0][:3]) == {"pasta", "sauce", "tomato"}
    assert topics.names[1] == "Orbit, rocket, satellite"
    assert topics.silhouette is not None and topics.silhouette > 0.2
    assert topics.counts == {"texts": 13, "distinct": 12, "without_words": 0, "other": 0}


def test_the_frame_has_one_row_a_document(sentences: list[str]) -> None:
    topics = find_topics(sentences, count=3)
    frame = topics.frame()
    assert list(frame.columns) == ["Topic", "Document"]
    assert frame["Document"].tolist() == sentences
    assert frame["Topic"].tolist() == [topics.names[0]] * 5 + [topics.names[1]] * 4 + [topics.names[2]] * 3


@pytest.mark.parametrize("method", ["clusters", "taxonomy"])
def test_order_of_rows_does_not_matter(method: str) -> None:
    arena = simulate(seed=0, train=120, validation=0, suite=0)
    texts = [row.query for row in arena.train]
    shuffled = random.Random(2).sample(texts, len(texts))
    first, second = find_topics(texts, method=method), find_topics(shuffled, method=method)
    assert dict(zip(first.texts, first.frame()["Topic"], strict=True)) == dict(
        zip(second.texts, second.frame()["Topic"], strict=True)
    )
    assert (first.names, first.keywords, first.silhouette) == (second.names, second.keywords, second.silhouette)


@pytest.mark.parametrize("texts", [["only one"], [""], ["same"] * 4, ["", "??"], ["what is it", "and so on"]])
@pytest.mark.parametrize("method", ["clusters", "taxonomy"])
def test_edges(texts: list[str], method: str) -> None:
    topics = find_topics(texts, method=method)
    assert len(topics.frame()) == len(texts) == sum(topics.sizes)
    assert topics.silhouette is None
    assert len(topics.keywords) == len(topics.names)


def test_texts_without_a_topic_are_other() -> None:
    topics = find_topics(["pasta with sauce", "", "the knight takes the queen"], method="taxonomy", names=KINDS)
    assert topics.frame()["Topic"].tolist() == ["Cooking", "Other", "Chess"]
    assert topics.names == ("Cooking", "Space", "Chess", "Other")
    assert topics.sizes == (1, 0, 1, 1)
    assert (topics.counts["other"], topics.counts["without_words"]) == (1, 1)


def test_taxonomy_by_hand() -> None:
    """Cosines .8 and .6 take the first name, .6 and .8 the second; a threshold above them takes neither."""
    vectors = {"x. ": [1, 0], "near": [0.8, 0.6], "far": [0.6, 0.8], "away": [-1, -1]}

    def embed(texts: list[str]) -> np.ndarray:
        rows = {"x.": [1, 0], "y. about": [0, 1], **vectors}
        return unit_rows(np.array([rows[text] for text in texts], dtype=float))

    names = {"x": "", "y": "about"}
    assert assign(["near", "far", "away"], names, embed, threshold=0)[0].tolist() == [0, 1, -1]
    assert assign(["near", "far"], names, embed, threshold=0.85)[0].tolist() == [-1, -1]


def test_the_papers_topics_on_queries_of_known_topic() -> None:
    """Measured: 0.71 right with the words alone, where the largest topic is 1 in 12."""
    arena = simulate(seed=0, train=900, validation=0, suite=300)
    rows = [*arena.train, *arena.suites["T"]]
    found = find_topics([row.query for row in rows], method="taxonomy").frame()["Topic"]
    right = np.mean([topic == row.topic for topic, row in zip(found, rows, strict=True)])
    assert right > 0.6
    assert set(PAPER_TOPICS) == {row.topic for row in rows}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "lda"}, "not one of clusters, taxonomy, bertopic"),
        ({"method": "taxonomy", "count": 3}, "count: 3 has no meaning"),
        ({"names": ["a", "b"]}, "finds its own"),
        ({"count": 13}, "13 topics asked of 12"),
        ({"embedder": "sentence_transformers"}, "model"),
    ],
)
def test_settings_that_do_not_go_together(sentences: list[str], settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        find_topics(sentences, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["clusters", "taxonomy", "bertopic"])
def test_no_texts(method: str) -> None:
    with pytest.raises(ValueError, match="at least one text"):
        find_topics([], method=method)


@pytest.mark.parametrize("names", [[], ["one"], ["same", "same"], ["a", " "], ["a", "Other"], "text"])
def test_names_that_cannot_be(names: list[str]) -> None:
    with pytest.raises(ValueError, match="names"):
        described(names)


def test_a_record_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="labels: 1 for 2 texts"):
        Topics(("a", "b"), (0,), ("t",), ((),), None)
    with pytest.raises(ValueError, match="outside"):
        Topics(("a",), (1,), ("t",), ((),), None)
    with pytest.raises(ValueError, match="names"):
        Topics(("a",), (0,), ("t", "t"), ((), ()), None)


def bertopic_texts() -> tuple[list[str], np.ndarray]:
    """Sixty texts in three groups, with embeddings as far apart as can be."""
    if importlib.util.find_spec("bertopic") is None:
        pytest.skip("bertopic is not installed")
    words = [["pasta", "sauce"], ["rocket", "orbit"], ["knight", "queen"]]
    sizes = (25, 20, 15)
    texts = [f"{a} {b} number{n:02}" for (a, b), size in zip(words, sizes, strict=True) for n in range(size)]
    noise = np.random.default_rng(0).normal(scale=0.05, size=(60, 6))
    return texts, unit_rows(np.repeat(np.eye(6)[:3], sizes, axis=0) + noise)


@pytest.mark.slow
def test_bertopic_finds_the_groups_whatever_their_order() -> None:
    texts, vectors = bertopic_texts()
    at = dict(zip(texts, vectors, strict=True))

    def embed(asked: list[str]) -> np.ndarray:
        return np.stack([at[text] for text in asked])

    topics = topics_with(embed, texts, method="bertopic")
    assert list(topics.frame().columns) == ["Topic", "Document"]
    inside = [label for label in topics.labels if topics.names[label] != "Outliers"]
    assert len(inside) >= 55 and len(set(inside)) == 3
    assert topics.counts["outliers"] == 60 - len(inside)
    assert {words for own in topics.keywords[:3] for words in own[:2]} == {
        "pasta",
        "sauce",
        "rocket",
        "orbit",
        "knight",
        "queen",
    }
    shuffled = random.Random(0).sample(texts, 60)
    again = topics_with(embed, shuffled, method="bertopic")
    assert dict(zip(again.texts, again.frame()["Topic"], strict=True)) == dict(
        zip(texts, topics.frame()["Topic"], strict=True)
    )


def test_bertopic_merges_down_to_a_count_and_keeps_outliers_apart() -> None:
    texts, vectors = bertopic_texts()
    labels = bertopic_labels(texts, vectors, count=2)
    assert set(labels.tolist()) - {-1} == {0, 1}
    sizes = np.bincount(labels[labels >= 0])
    assert sizes[0] >= sizes[1]

    blurred = unit_rows(np.random.default_rng(2).normal(size=(120, 6)))
    texts = [f"word{number % 7} number{number:03}" for number in range(120)]
    if -1 not in bertopic_labels(texts, blurred):
        pytest.skip("this version of UMAP and HDBSCAN finds no outliers in the noise")
    assert set(bertopic_labels(texts, blurred, count=2).tolist()) == {-1, 0, 1}


def test_bertopic_needs_enough_texts() -> None:
    with pytest.raises(ValueError, match=f"at least {MIN_TEXTS}"):
        find_topics(["a few words"] * 50, method="bertopic")


def test_bertopic_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bertopic", None)
    texts = [f"text number{n:02}" for n in range(30)]
    with pytest.raises(ValueError, match=r"crm-leaderboard\[bertopic\]"):
        bertopic_labels(texts, tfidf_embeddings(texts))


def test_the_frame_survives_a_file(sentences: list[str], tmp_path: object) -> None:
    frame = find_topics(sentences, count=3).frame()
    frame.to_csv(f"{tmp_path}/topics.csv", index=False)
    assert pd.read_csv(f"{tmp_path}/topics.csv").to_dict("list") == frame.to_dict("list")
