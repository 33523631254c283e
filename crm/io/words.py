"""The length of a text in words, for every script."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice

_UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"  # Thai, Lao, Myanmar, Khmer
    r"\u3001-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # CJK punctuation, kana, bopomofo
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff9f"  # full-width marks, half-width kana
    r"\u2e80-\u2fdf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts that put no spaces between words, and their punctuation, as ranges of a pattern."""
_ANY = re.compile(f"[{_UNSPACED}]")
_MARKS = "".join(c for c in map(chr, range(0xE00, 0xAB00)) if unicodedata.category(c)[0] == "M" and _ANY.match(c))
_STACKED = "\u1039\u17d2"  # join the next consonant to the one before, in Myanmar and Khmer
_CHARACTER = rf"[{_UNSPACED}](?:[{_STACKED}][{_UNSPACED}]|[{_MARKS}\ufe00-\ufe0f\U000e0100-\U000e01ef])*"
_WORD = re.compile(rf"{_CHARACTER}|[^\s{_UNSPACED}]+")


def count_words(text: str) -> int:
    """Words between white space; in Chinese, Japanese, Thai, Lao, Khmer and Myanmar each character counts as one.

    Vowel signs and other combining marks belong to their character.
    """
    return len(split_words(text))


def split_words(text: str) -> list[str]:
    """What `count_words` counts, in order: ``"ein Wort 中文"`` has four."""
    return _WORD.findall(text) if not text.isascii() and _ANY.search(text) else text.split()


def first_words(text: str, limit: int) -> str:
    """The text, or its first ``limit`` words (0: all; white space becomes single spaces) and `` ...``."""
    if not limit:
        return text
    ends = [word.end() for word in islice(_WORD.finditer(text), limit + 1)]
    return text if len(ends) <= limit else " ".join(text[: ends[limit - 1]].split()) + " ..."
