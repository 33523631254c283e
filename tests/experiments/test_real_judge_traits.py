"""Traits that can be counted, each by hand; wordings for training and for suites stay apart."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import yaml

from experiments.real_judge import traits
from experiments.real_judge.traits import FRAMES, TRAITS, wording

TRAIT = {trait.name: trait for trait in TRAITS}
PLAIN = "A cat sat on a mat and looked at a dog. A dog lay on a rug and took no notice at all of it."
"""Of 25 words, and of no trait that is counted by words."""

# A text with more of a trait, and how many of it are in there.
MORE = {
    "Addressing the reader": (f"You see your cat. {PLAIN} It is yours, as you know.", 4),
    "Contractions": (f"It's a cat that doesn't care, and they’re glad. {PLAIN}", 3),
    "Positive words": (f"A great, delicious and inspiring cat. {PLAIN}", 3),
    "Openings": (f"Sure, here is a cat. {PLAIN}", 1),
    "Closings": (f"{PLAIN}\n\nI hope this helps!", 1),
    "Summaries": (f"{PLAIN} In short, it slept. Overall, it was calm.", 2),
    "Sources": (f"{PLAIN} According to a study (2019), see https://cats.org.", 4),
    "Asides": (f"A cat (my own) sat (as cats do). {PLAIN}", 2),
    "Reasons": (f"{PLAIN} It slept because it was tired, and therefore it was calm.", 2),
    "Order words": (f"First a cat sat. Then it slept. Finally it woke. {PLAIN}", 3),
    "Advice": (f"You should feed it. Make sure it sleeps and avoid noise. {PLAIN}", 3),
    "Names": (f"{PLAIN} It met Tom in Paris and also Anna.", 3),
    "Past tense": ("A cat walked in, tried a mat and was glad. It went out.", 4),
    "Emphatic words": (f"A very lazy, really calm and extremely soft cat. {PLAIN}", 3),
    "Togetherness": (f"Let's look at our cat, as we know it. {PLAIN}", 3),
}
SHARE = {
    *("Addressing the reader", "Contractions", "Positive words", "Reasons", "Order words", "Advice", "Names"),
    *("Past tense", "Emphatic words", "Togetherness"),
}
"""Counted in 100 words; these texts are shorter, and count as 100."""
YES_OR_NO = {"Openings", "Closings"}


@pytest.mark.parametrize("name", MORE)
def test_occurrences_are_counted(name: str) -> None:
    text, number = MORE[name]
    expected = number if name in SHARE | YES_OR_NO else math.log(1 + number)
    assert TRAIT[name].measure(text) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in MORE if name not in ("Past tense",)])
def test_a_plain_text_has_none(name: str) -> None:
    assert TRAIT[name].measure(PLAIN) == 0


@pytest.mark.parametrize("name", [name for name in MORE if name not in YES_OR_NO])
def test_code_is_no_prose(name: str) -> None:
    text, _ = MORE[name]
    assert TRAIT[name].measure(f"```\n{text}\n```") == 0


def test_the_markers_of_a_list_are_no_figures_and_no_prose() -> None:
    items = "\n".join(f"{number}. a cat naps" for number in range(1, 30))
    assert TRAIT["Figures"].measure(items) == 0
    assert TRAIT["Figures"].measure("5 cats and 12 dogs nap") == 2


def test_paragraphs_are_measured_by_their_words() -> None:
    measure, part = TRAIT["Paragraph length"].measure, "a cat naps on a mat all day long now"
    assert measure("\n\n".join([part] * 4)) == pytest.approx(math.log(10))
    assert measure(" ".join([part] * 4)) == pytest.approx(math.log(40))
    assert math.isnan(measure(part)), "too little text"


@pytest.mark.parametrize("trait", TRAITS, ids=lambda trait: trait.name)
@pytest.mark.parametrize("text", ["", " ", "\n\n", "```", "🎉", "\u2028", "?" * 5000, "a " * 5000])
def test_any_text_has_a_measure(trait, text: str) -> None:
    assert isinstance(trait.measure(text), float)


SIDES = [(trait.name, sign) for trait in TRAITS for sign in (1, -1)]
FILE = yaml.safe_load(Path(traits.__file__).with_name("wordings.yaml").read_text(encoding="utf-8"))


def taught(name: str, sign: int) -> set[str]:
    """What training may say of a side."""
    side = wording(name, sign)
    return {text.casefold() for text in (*side.training, *side.framed)}


def test_every_trait_has_words_and_no_other_has() -> None:
    assert set(FILE["traits"]) == {trait.name for trait in TRAITS}
    with pytest.raises(KeyError):
        wording("Length of the nose", 1)


def test_what_training_never_sees_it_sees_for_no_trait_and_no_side() -> None:
    kept_apart = {text.casefold() for name, sign in SIDES for text in wording(name, sign).unseen}
    seen = {text for name, sign in SIDES for text in taught(name, sign)}
    assert not kept_apart & seen
    assert len(kept_apart) == sum(len(wording(name, sign).unseen) for name, sign in SIDES), "each once"


@pytest.mark.parametrize(("name", "sign"), SIDES)
def test_a_frame_likes_its_own_side_and_dislikes_the_other(name: str, sign: int) -> None:
    own, other = ("more", "less") if sign > 0 else ("less", "more")
    nouns = {side: FILE["traits"][name][side]["nouns"] for side in (own, other)}
    assert nouns[own] and nouns[other]
    expected = {frame.format(noun) for frame in FILE["like"] for noun in nouns[own]}
    expected |= {frame.format(noun) for frame in FILE["dislike"] for noun in nouns[other]}
    framed = set(wording(name, sign).framed)
    kept_apart = {text.casefold() for trait, side in SIDES for text in wording(trait, side).unseen}
    assert framed <= expected and not {text.casefold() for text in framed} & kept_apart
    for noun in (*nouns[own], *nouns[other]):
        assert sum(noun in text for text in framed) >= FRAMES - 1, "in a few frames each, less what is kept apart"
    assert len(framed) <= 2 * FRAMES * max(len(nouns[own]), len(nouns[other]))


def test_what_is_drawn_is_of_the_kind_that_is_asked_for() -> None:
    side = wording("Length", 1)
    rng = random.Random(0)
    drawn = [side.draw(rng) for _ in range(400)]
    assert set(drawn) <= {*side.training, *side.framed} and not set(drawn) & set(side.unseen)
    assert 120 < sum(text in side.training for text in drawn) < 280, "about half"
    assert {side.draw(rng, unseen=True) for _ in range(400)} == set(side.unseen)
    assert side.draw(random.Random(3)) == side.draw(random.Random(3))
