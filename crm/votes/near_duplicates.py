"""Texts that nearly agree. In: texts, one at a time. Out: for each, those seen before that are almost the same.

Two texts count as one where their character 5-grams agree to `NEAR_DUPLICATE`: MinHash (datasketch) finds the pairs
that may, the 5-grams decide.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from crm.schema import Message, folded

if TYPE_CHECKING:
    from datasketch import MinHash

NEAR_DUPLICATE = 0.8
"""Jaccard similarity of character 5-grams from which two prompts count as one."""

_SHINGLE = 5
_PERMUTATIONS = 128
_BANDS, _ROWS = 16, 8
"""A pair is looked at where one of 16 bands of 8 agrees: 95 in 100 pairs of similarity 0.8, 99 of 0.85, all of 0.9. The
library's own choice for 0.8 spares comparisons and loses half of the pairs just above it."""


class NearDuplicates:
    """An index of texts that finds those whose character 5-grams agree (Jaccard of `NEAR_DUPLICATE` or more)."""

    def __init__(self) -> None:
        from datasketch import MinHash, MinHashLSH  # a third of a second, which no `--help` should wait for

        self._index = MinHashLSH(num_perm=_PERMUTATIONS, params=(_BANDS, _ROWS))
        self._texts: set[str] = set()
        self._blank = MinHash(num_perm=_PERMUTATIONS, hashfunc=_as_is)
        self._last: tuple[str, frozenset[int], MinHash] | None = None

    def add(self, text: str) -> None:
        """Put a text (as `plain_text` gives it) into the index, once."""
        if text not in self._texts:
            self._texts.add(text)
            self._index.insert(text, self._sketch(text)[1], check_duplication=False)

    def like(self, text: str) -> list[tuple[str, float]]:
        """Texts of the index that agree with this one, and the similarity in [0, 1]."""
        own, sketch = self._sketch(text)
        found = []
        for other in self._index.query(sketch):
            theirs = _shingles(other)
            similarity = len(own & theirs) / len(own | theirs)
            if similarity >= NEAR_DUPLICATE:
                found.append((other, similarity))
        return found

    def _sketch(self, text: str) -> tuple[frozenset[int], MinHash]:
        """Shingles and their MinHash, kept for the next call: a text is most often looked up, then added."""
        if self._last is None or self._last[0] != text:
            shingles, sketch = _shingles(text), self._blank.copy()
            sketch.update_batch(list(shingles))
            self._last = (text, shingles, sketch)
        return self._last[1:]


def plain_text(prompt: Sequence[Message]) -> str:
    """Letters, marks and digits of the turns, `folded`, single spaces; the bare text where it has none of them."""
    spoken = [turn.content for turn in prompt if turn.role != "system"] or [turn.content for turn in prompt]
    text = folded(" ".join(spoken))
    words = "".join(char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in text).split()
    return " ".join(words) or text


def _shingles(text: str) -> frozenset[int]:
    data = text.encode("utf-32-le", "surrogatepass")  # four bytes a character, so that no character is cut
    ends = range(4 * _SHINGLE, max(len(data), 4 * _SHINGLE) + 1, 4)
    return frozenset(zlib.crc32(data[end - 4 * _SHINGLE : end]) for end in ends)


def _as_is(value: int) -> int:
    return value
