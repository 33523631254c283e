"""Texts that nearly agree. In: texts, one at a time. Out: for each, those seen before that are almost the same.

Two texts count as one where their character 5-grams agree to `NEAR_DUPLICATE`, estimated by MinHash (datasketch).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from datasketch import MinHash, MinHashLSH

from crm.schema import Message

NEAR_DUPLICATE = 0.8
"""Jaccard similarity of character 5-grams from which two prompts count as one (estimated from 128 permutations)."""

_SHINGLE = 5
_PERMUTATIONS = 128


class NearDuplicates:
    """An index of texts that finds those whose character 5-grams agree (Jaccard of `NEAR_DUPLICATE` or more)."""

    def __init__(self) -> None:
        self._index = MinHashLSH(threshold=NEAR_DUPLICATE, num_perm=_PERMUTATIONS)
        self._sketches: dict[str, MinHash] = {}
        self._blank = MinHash(num_perm=_PERMUTATIONS, hashfunc=_as_is)
        self._last: tuple[str, MinHash] | None = None

    def add(self, text: str) -> None:
        """Put a text (as `plain_text` gives it) into the index, once."""
        if text not in self._sketches:
            self._sketches[text] = self._sketch(text)
            self._index.insert(text, self._sketches[text], check_duplication=False)

    def like(self, text: str) -> list[tuple[str, float]]:
        """Texts of the index that agree with this one, and the estimated similarity in [0, 1]."""
        sketch = self._sketch(text)
        near = ((other, sketch.jaccard(self._sketches[other])) for other in self._index.query(sketch))
        return [(other, float(similarity)) for other, similarity in near if similarity >= NEAR_DUPLICATE]

    def _sketch(self, text: str) -> MinHash:
        if self._last is None or self._last[0] != text:
            sketch = self._blank.copy()
            sketch.update_batch(_shingles(text))
            self._last = (text, sketch)
        return self._last[1]


def plain_text(prompt: Sequence[Message]) -> str:
    """Letters and digits of the turns, in lower case, single spaces; the bare text where it has none of them."""
    spoken = [turn.content for turn in prompt if turn.role != "system"] or [turn.content for turn in prompt]
    text = " ".join(spoken).casefold()
    words = "".join(char if char.isalnum() else " " for char in text).split()
    return " ".join(words or text.split())


def _shingles(text: str) -> list[int]:
    data = text.encode("utf-32-le", "surrogatepass")  # four bytes a character, so that no character is cut
    ends = range(4 * _SHINGLE, max(len(data), 4 * _SHINGLE) + 1, 4)
    return list({zlib.crc32(data[end - 4 * _SHINGLE : end]) for end in ends})


def _as_is(value: int) -> int:
    return value
