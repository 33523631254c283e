"""Texts that nearly agree. In: texts, one at a time. Out: for each, those seen before that are almost the same.

Two texts count as one where their character 5-grams agree to `NEAR_DUPLICATE`: MinHash (datasketch) finds the pairs
that may, the 5-grams decide.
"""

from __future__ import annotations

import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from crm.schema import Message, folded

if TYPE_CHECKING:
    from datasketch import MinHash

NEAR_DUPLICATE = 0.8
"""Jaccard similarity of character 5-grams from which two prompts count as one."""

_SHINGLE = 5
_PERMUTATIONS = 128
_BANDS = {0.8: (16, 8), 0.5: (32, 4), 0.0: (64, 2)}
"""From a similarity on, so many bands of so many rows. A pair is looked at where one of 16 bands of 8 agrees: 95 in 100
pairs of similarity 0.8, 99 of 0.85, all of 0.9. The library's own choice for 0.8 spares comparisons and loses half of
the pairs just above it."""
_MANY = 10
"""Texts that share a passage from which on it is a template of theirs."""
_PASSAGE = 20
"""Characters of a passage."""
_SAMPLE = 2_000
"""Texts in which passages are counted, at most."""
_LITTLE = 12
"""Characters beside the template that are too few to tell two texts apart."""


class NearDuplicates:
    """An index of texts that finds those whose character 5-grams agree (Jaccard of ``similarity`` or more)."""

    def __init__(self, similarity: float = NEAR_DUPLICATE) -> None:
        from datasketch import MinHash, MinHashLSH  # a third of a second, which no `--help` should wait for

        bands = next(params for least, params in _BANDS.items() if similarity >= least)
        self._least = similarity
        self._index = MinHashLSH(num_perm=_PERMUTATIONS, params=bands)
        self._texts: set[str] = set()
        self._blank = MinHash(num_perm=_PERMUTATIONS, hashfunc=_as_is)
        self._last: tuple[str, frozenset[int], MinHash] | None = None

    def add(self, text: str) -> None:
        """Put a text (as `plain_text` gives it) into the index, once."""
        if text not in self._texts:
            self._texts.add(text)
            self._index.insert(text, self._sketch(text)[1], check_duplication=False)

    def like(self, text: str, but: Callable[[str], bool] = lambda _: False) -> Iterator[tuple[str, float]]:
        """Texts of the index that agree with this one, and the similarity in [0, 1]; those that ``but`` names are not
        looked at."""
        own, sketch = self._sketch(text)
        for other in self._index.query(sketch):
            if but(other):
                continue
            theirs = _shingles(other)
            similarity = len(own & theirs) / len(own | theirs)
            if similarity >= self._least:
                yield other, similarity

    def _sketch(self, text: str) -> tuple[frozenset[int], MinHash]:
        """Shingles and their MinHash, kept for the next call: a text is most often looked up, then added."""
        if self._last is None or self._last[0] != text:
            shingles, sketch = _shingles(text), self._blank.copy()
            sketch.update_batch(list(shingles))
            self._last = (text, shingles, sketch)
        return self._last[1:]


def near_groups(texts: Collection[str], similarity: float = NEAR_DUPLICATE) -> list[list[str]]:
    """The texts in groups, linked in chains by a similarity of 5-grams in (0, 1]; at 1 every text is a group.

    A group may be one template with many questions. Passages that `_MANY` texts share are taken out of its texts, and
    what is left is grouped anew; texts of which little is left stay together.
    """
    if similarity >= 1:
        return [[text] for text in texts]
    groups = _linked({text: text for text in texts}, similarity)
    passages = _common_passages(sorted(texts))
    found = []
    for group in groups:
        own = {text: _without(text, passages) for text in group} if len(group) > 1 else {}
        if all(own[text] == text for text in own):
            found.append(group)
            continue
        little = [text for text in group if len(own[text]) < _LITTLE]
        found += _linked({text: own[text] for text in group if len(own[text]) >= _LITTLE}, similarity)
        found += [little] if little else []
    return found


def _linked(compared: Mapping[str, str], similarity: float) -> list[list[str]]:
    """Texts in groups, by the similarity of what is compared of each."""
    of: dict[str, list[str]] = {}
    for text, own in compared.items():
        of.setdefault(own, []).append(text)
    parent = {own: own for own in of}
    index = NearDuplicates(similarity)
    for own in parent:
        for other, _ in index.like(own, lambda other: _root(parent, other) == _root(parent, own)):  # noqa: B023 - used at once
            parent[_root(parent, other)] = _root(parent, own)
        index.add(own)
    groups: dict[str, list[str]] = {}
    for own, texts in of.items():
        groups.setdefault(_root(parent, own), []).extend(texts)
    return list(groups.values())


def _root(parent: dict[str, str], text: str) -> str:
    while parent[text] != text:
        parent[text] = parent[parent[text]]
        text = parent[text]
    return text


def _common_passages(texts: Sequence[str]) -> set[int]:
    """Hashes of the passages that many of the texts share; of more than `_SAMPLE`, some are looked at."""
    some = texts[:: -(-len(texts) // _SAMPLE) or 1]
    counts = Counter(passage for text in some for passage in set(_passages(text)))
    return {passage for passage, count in counts.items() if count >= _MANY}


def _passages(text: str) -> list[int]:
    return [hash(text[at : at + _PASSAGE]) for at in range(len(text) - _PASSAGE + 1)]


def _without(text: str, passages: Collection[int]) -> str:
    """What is left of a text without these passages."""
    taken = bytearray(len(text))
    for at, passage in enumerate(_passages(text)):
        if passage in passages:
            taken[at : at + _PASSAGE] = b"\1" * _PASSAGE
    return " ".join("".join(" " if out else char for char, out in zip(text, taken, strict=True)).split())


def plain_text(prompt: Sequence[Message]) -> str:
    """Letters, marks and digits of the turns, `folded`, single spaces; the bare text where it has none of them."""
    spoken = [turn.content for turn in prompt if turn.role != "system"] or [turn.content for turn in prompt]
    text = folded(" ".join(spoken))
    words = "".join(char if char.isalnum() or unicodedata.category(char)[0] == "M" else " " for char in text).split()
    return " ".join(words) or text


@lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[int]:
    data = text.encode("utf-32-le", "surrogatepass")  # four bytes a character, so that no character is cut
    ends = range(4 * _SHINGLE, max(len(data), 4 * _SHINGLE) + 1, 4)
    return frozenset(zlib.crc32(data[end - 4 * _SHINGLE : end]) for end in ends)


def _as_is(value: int) -> int:
    return value
