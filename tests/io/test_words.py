"""Lengths of texts in words: English as `str.split`, scripts without spaces by characters."""

from __future__ import annotations

import pytest

from crm.io.words import count_words, first_words, split_words

ENGLISH = "It’s a well-known fact — “quoted”, you know: 3.5 % of naïve cafés\n\n- list item …\t(end)."


def test_words_of_spaced_scripts_are_what_stands_between_white_space() -> None:
    for text in (ENGLISH, "Это короткий ответ.", "هذا جواب قصير", "이것은 짧은 대답", "", " \n "):
        assert split_words(text) == text.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("你好，世界。", ["你", "好", "，", "世", "界", "。"]),
        ("用Python 3写的 code", ["用", "Python", "3", "写", "的", "code"]),
        ("テキストは短い", list("テキストは短い")),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),  # vowel signs belong to their consonant
        ("ខ្មែរ", ["ខ្មែ", "រ"]),  # a stacked consonant too
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("ＡＢＣ ｄ", ["ＡＢＣ", "ｄ"]),
    ],
)
def test_characters_of_scripts_without_spaces_are_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words and count_words(text) == len(words)
    assert count_words(" ".join(words)) == len(words)


def test_a_text_is_cut_where_its_words_are_counted() -> None:
    assert first_words("one two\nthree  four", 3) == "one two three ..."
    assert first_words("one two", 2) == first_words("one two", 0) == "one two"
    assert first_words("短短的回答。", 3) == "短短的 ..." and first_words("短短的", 3) == "短短的"
    assert first_words("用 Python 写", 2) == "用 Python ..."
    assert first_words("สวัสดี", 2) == "สวั ..."
    assert count_words(first_words("很长的回答很长的回答", 4).removesuffix(" ...")) == 4
