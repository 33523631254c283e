"""The length of a text in words, for every script."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

_SMALL = (
    *((0x0E00, 0x0E7F), (0x0E80, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x19E0, 0x19FF)),  # Thai to Khmer
    *((0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),  # Myanmar, extended
    *((0x3001, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF)),  # CJK punctuation, kana, bopomofo
    *((0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF9F)),  # full-width marks, half-width kana
)
_HAN = ((0x2E80, 0x2FDF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
"""First and last code points of scripts that put no spaces between words, and of their punctuation."""
_MARKS = "".join(
    chr(point)
    for first, last in _SMALL
    for point in range(first, last + 1)
    if unicodedata.category(chr(point)).startswith("M")
)
_UNSPACED = "".join(f"{chr(first)}-{chr(last)}" for first, last in (*_SMALL, *_HAN))
_STACKED = "\u1039\u17d2"  # join the next consonant to the one before, in Myanmar and Khmer
_CHARACTER = rf"[{_UNSPACED}](?:[{_STACKED}][{_UNSPACED}]|[{_MARKS}\ufe00-\ufe0f\U000e0100-\U000e01ef])*"
_WORD = re.compile(rf"{_CHARACTER}|[^\s{_UNSPACED}]+")
_ANY = re.compile(f"[{_UNSPACED}]")


def count_words(text: str) -> int:
    """Words between white space; in Chinese, Japanese, Thai, Lao, Khmer and Myanmar each character counts as one.

    Vowel signs and other combining marks belong to their character.
    """
    return len(split_words(text))


def split_words(text: str) -> list[str]:
    """What `count_words` counts, in order: ``"ein Wort 中文"`` has four."""
    return _WORD.findall(text) if _ANY.search(text) else text.split()


def first_words(text: str, limit: int) -> str:
    """The text, or its first ``limit`` words (0: all; white space becomes single spaces) and `` ...``."""
    if not limit:
        return text
    ends = [word.end() for word in islice(_WORD.finditer(text), limit + 1)]
    return text if len(ends) <= limit else " ".join(text[: ends[limit - 1]].split()) + " ..."
