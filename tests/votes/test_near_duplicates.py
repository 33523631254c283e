"""The index against similarities counted by hand: pairs just above the threshold are found, none below it."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable

import pytest

from crm.schema import Message, prompt_key
from crm.votes.splits import NEAR_DUPLICATE, NearDuplicates, plain_text

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("ck", "lm", "nt", "rs", "sh")]


def similarity(one: str, other: str) -> float:
    """Jaccard similarity of the sets of five letters in a row."""
    a, b = ({text[at : at + 5] for at in range(len(text) - 4)} for text in (one, other))
    return len(a & b) / len(a | b)


def pairs(changed: int, count: int) -> list[tuple[str, str]]:
    """Texts of sixty words and the same with some of them replaced, which is near the threshold for three or four."""
    made = []
    for seed in range(count):
        rng = random.Random(seed)
        words = rng.choices(WORDS, k=60)
        other = list(words)
        for place in rng.sample(range(60), changed):
            other[place] = rng.choice(WORDS)
        made.append((" ".join(words), " ".join(other)))
    return made


def found(one: str, other: str) -> list[float]:
    index = NearDuplicates()
    index.add(one)
    return [near for text, near in index.like(other) if text == one]


def test_most_pairs_just_above_the_threshold_are_found_and_none_below() -> None:
    tried = [pair for changed in (2, 3, 4, 5, 6) for pair in pairs(changed, 60)]
    near = [pair for pair in tried if NEAR_DUPLICATE <= similarity(*pair) < 0.88]
    far = [pair for pair in tried if similarity(*pair) < NEAR_DUPLICATE]
    assert min(len(near), len(far)) > 40
    assert sum(map(bool, (found(*pair) for pair in near))) >= 0.9 * len(near)
    assert not any(found(*pair) for pair in far)


def test_the_similarity_is_that_of_the_texts() -> None:
    for one, other in pairs(1, 5):
        assert found(one, other) == [pytest.approx(similarity(one, other))]


def test_a_text_is_like_itself_however_short_and_added_once() -> None:
    for text in ("", "a", "你好", "\ud800", "long enough to have several shingles"):
        index = NearDuplicates()
        assert list(index.like(text)) == []
        index.add(text)
        index.add(text)
        assert list(index.like(text)) == [(text, 1.0)]


FORMS: dict[str, Callable[[str], str]] = {
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "composed": lambda text: unicodedata.normalize("NFC", text),
    "full width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "zero width": lambda text: "\u200b".join(text),
    "joiners and marks of direction": lambda text: f"\ufeff\u200e{text}\u200d\u00ad",
    "other spaces": lambda text: text.replace(" ", "\u00a0\u2003"),
    "capitals": str.upper,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        "Où est né Molière, déjà ?",
        "서울의 날씨가 어때요?",
        "Thời tiết ở Hà Nội thế nào?",
        "मौसम कैसा है?",
        "What is 2 + 2?",
    ],
)
def test_a_text_is_one_prompt_in_every_form_that_a_reader_takes_for_the_same(text: str, form: str) -> None:
    one, other = ((Message("user", each),) for each in (text, FORMS[form](text)))
    assert prompt_key(one) == prompt_key(other)
    assert found(plain_text(one), plain_text(other)) == [1.0]


def test_marks_make_other_words() -> None:
    """Two forms of a Hindi word differ in a vowel sign alone, which is a mark and no letter."""
    assert plain_text((Message("user", "की"),)) != plain_text((Message("user", "का"),))
