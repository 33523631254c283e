"""Every measure by hand, on texts that have some of it and on one that has none."""

from __future__ import annotations

import math

import pytest

from crm.criteria.counting import MEASURES, Text

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
    assert MEASURES[name](text) == pytest.approx(expected)


@pytest.mark.parametrize("name", [name for name in MORE if name not in ("Past tense",)])
def test_a_plain_text_has_none(name: str) -> None:
    assert MEASURES[name](PLAIN) == 0


@pytest.mark.parametrize("name", [name for name in MORE if name not in YES_OR_NO])
def test_code_is_no_prose(name: str) -> None:
    text, _ = MORE[name]
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
    raw = "\n".join(text for text, _ in MORE.values())
    shared = Text(raw)
    for measure in MEASURES.values():
        measure(shared)
    assert MEASURES[name](shared) == pytest.approx(MEASURES[name](raw), nan_ok=True)
