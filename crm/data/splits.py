"""Splits by prompt: `Splits`, whose parts share no prompt, not even a near-duplicate.

Prompts whose texts nearly agree form a group (linked in chains; a template that many share does not count), and a group
goes to one part as a whole. Turns of one conversation are different prompts, which may go to different parts. What is
guaranteed, for a fixed ``seed``:

- the same rows in any order give the same parts;
- adding or deleting rows moves an old row only if its own group gained or lost a prompt, or if other passages count as
  a template: those that many of the prompts share, or of more than 2,000 prompts of a sample, which changes with them;
- changing the ``validation`` fraction moves nothing into or out of the test part.

Of few prompts a part may stay empty. It then takes the group that is nearest to it, which may go back once more prompts
are added.
"""

from __future__ import annotations

import hashlib
import logging
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import chain, combinations
from typing import TYPE_CHECKING

from crm.io.draws import grouped, in_turns
from crm.io.rows import Intake
from crm.schema import Message, Preference, folded, prompt_key

if TYPE_CHECKING:
    from datasketch import MinHash

    from crm.data.config import DataConfig

log = logging.getLogger(__name__)
NEAR_DUPLICATE = 0.8
"""Jaccard similarity of character 5-grams from which two prompts count as one."""
_SHINGLE, _PERMUTATIONS = 5, 128
_BANDS = {0.8: (16, 8), 0.5: (32, 4), 0.0: (64, 2)}
"""From a similarity on, so many bands of so many rows. A pair is looked at where one of 16 bands of 8 agrees: 95 in 100
pairs of similarity 0.8, 99 of 0.85, all of 0.9. The library's own choice for 0.8 loses half of the pairs above it."""
_MANY, _PASSAGE = 10, 20
"""Texts that share a passage from which on it is a template of theirs; characters of a passage."""
_SAMPLE = 2_000
"""Texts in which passages are counted, at most."""
_LITTLE = 12
"""Characters beside the template that are too few to tell two texts apart."""


@dataclass(frozen=True)
class Splits:
    """What a source gives: no prompt of ``train`` is in ``validation`` or a suite (checked when built).

    ``suites`` maps a suite's name (``D``, ``C``, ...) to its preferences; suites may share prompts with one another.
    ``counts`` says how many rows were read, dropped for which reason, and (added when built) are in each part.
    """

    train: list[Preference]
    validation: list[Preference]
    suites: dict[str, list[Preference]]
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Add the sizes to ``counts``. Raises ``ValueError`` with the count when a prompt is in two parts."""
        held_out = [row for rows in self.suites.values() for row in rows]
        parts = {"train": self.train, "validation": self.validation, "suites": held_out}
        keys = {name: {prompt_key(row.prompt) for row in rows} for name, rows in parts.items()}
        for left, right in combinations(keys, 2):
            if shared := len(keys[left] & keys[right]):
                raise ValueError(f"{shared} prompts of {left} are also in {right}; split by prompt, never by row")
        sizes = {f"suite_{name}": len(rows) for name, rows in self.suites.items()}
        sizes |= {"train": len(self.train), "validation": len(self.validation)}
        object.__setattr__(self, "counts", self.counts | sizes)

    @classmethod
    def of(cls, parts: Mapping[str, list[Preference]], reading: Intake | None = None) -> Splits:
        """The splits of ``train``, ``validation`` and suites by name, with the counts of a reading."""
        suites = {name: rows for name, rows in parts.items() if name not in ("train", "validation")}
        return cls(parts["train"], parts["validation"], suites, reading.all_counts() if reading else {})

    @property
    def rows(self) -> list[Preference]:
        """The rows of all parts."""
        return [*self.train, *self.validation, *chain.from_iterable(self.suites.values())]

    def changed(self, change: Callable[[list[Preference]], list[Preference]]) -> Splits:
        """The splits with the rows of every part changed."""
        suites = {name: change(rows) for name, rows in self.suites.items()}
        return replace(self, train=change(self.train), validation=change(self.validation), suites=suites)

    def at_most(
        self, *levels: Callable[[Preference], str], seed: int, train: int = 0, validation: int = 0, suite: int = 0
    ) -> Splits:
        """At most ``train``, ``validation`` and ``suite`` rows (0: all) in these parts; the others are counted.

        Rows are taken in turns over ``levels`` (see `in_turns`), which also orders them; those of a smaller validation
        part are drawn from all of it.
        """

        def fewer(rows: list[Preference], most: int) -> list[Preference]:
            return in_turns(rows, seed, levels)[: most or None] if most or levels else rows

        suites = {name: fewer(rows, suite) for name, rows in self.suites.items()}
        validating = fewer(self.validation, 0)
        if 0 < validation < len(validating):
            validating = in_turns(validating, seed)[:validation]
        fewest = replace(self, train=fewer(self.train, train), validation=validating, suites=suites)
        fewest.counts["dropped_by_subsampling"] = len(self.rows) - len(fewest.rows)
        return fewest


def split_by_prompt(records: Sequence[Preference], config: DataConfig) -> dict[str, list[Preference]]:
    """The records as ``train``, ``validation`` and ``test``, near-duplicates together, by the fractions of the config.

    These are fractions of the prompt groups. Raises ``ValueError`` where a part that was asked for stays empty because
    there are too few groups. Warns where a group has a third of the prompts.
    """
    shares = {"test": config.test_fraction, "validation": config.validation_fraction}
    group_of = prompt_groups([row.prompt for row in records], config.near_duplicates)
    warn_of_large_group(group_of)
    place_of = {key: place_of_group(key, config.seed) for key in group_of.values()}
    part_of = _filled(dict(sorted(place_of.items(), key=lambda item: item[1])), shares)
    filled = grouped(records, lambda row: part_of[group_of[prompt_key(row.prompt)]])
    rows = {part: filled.get(part, []) for part in ("train", "validation", "test")}
    _check_filled(rows, {"train": 1.0, **shares}, group_of)
    return rows


def prompt_groups(prompts: Sequence[Sequence[Message]], near_duplicates: float = NEAR_DUPLICATE) -> dict[str, str]:
    """From each prompt's key (`crm.schema.prompt_key`) to the key of its group, independent of the order given.

    System turns are ignored, so that a long shared instruction does not make every prompt a near-duplicate of every
    other. The group's key is the smallest SHA-256 of its members' texts.
    """
    text_of = {prompt_key(prompt): plain_text(prompt) for prompt in prompts}
    group_of: dict[str, str] = {}
    for group in near_groups(sorted(set(text_of.values())), near_duplicates):
        group_of |= dict.fromkeys(group, min(map(_digest, group)))
    return {key: group_of[text] for key, text in text_of.items()}


def warn_of_large_group(group_of: Mapping[str, str]) -> None:
    """Warn where a third of the prompts are one group: the parts cannot have the sizes that were asked for."""
    most = max(Counter(group_of.values()).values(), default=0)
    if most >= 10 and 3 * most > len(group_of):
        line = "data: %d of %d prompts are one group of near-duplicates; data.near_duplicates=1.0 splits it"
        log.warning(line, most, len(group_of))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def place_of_group(key: str, seed: int) -> float:
    """Where a group falls in [0, 1): the test part begins there, then comes validation, then training."""
    return int(_digest(f"{seed}|{key}")[:16], 16) / 16**16


def part_at(place: float, validation: float, test: float) -> str:
    """The part at a place in [0, 1)."""
    return "test" if place < test else "validation" if place < test + validation else "train"


def _filled(places: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, str]:
    """The part of every group, by its place; the groups are in the order of their places.

    An empty part has the first group that is in none of those before it, where two are left.
    """
    found = {key: part_at(place, **shares) for key, place in places.items()}
    for number, (part, share) in enumerate(shares.items()):
        free = [key for key in found if found[key] not in list(shares)[:number]]
        if share > 0 and part not in found.values() and len(free) + number > len(shares):
            found[free[0]] = part
    last = [key for key in found if found[key] == "validation"]
    if "train" not in found.values() and len(last) > 1:
        found[last[-1]] = "train"
    return found


def _check_filled(rows: dict[str, list[Preference]], asked: dict[str, float], group_of: Mapping[str, str]) -> None:
    prompts, groups = len(group_of), len(set(group_of.values()))
    for name, fraction in asked.items():
        if fraction > 0 and groups and not rows[name]:
            raise ValueError(
                f"{name}: empty, because there are only {prompts} different prompts, in {groups} groups of "
                "near-duplicates; bring more prompts, ask for a larger fraction, try another data.seed, or keep only "
                "equal prompts together (data.near_duplicates=1.0)"
            )


class NearDuplicates:
    """An index of texts that finds those whose character 5-grams agree (Jaccard of ``similarity`` or more)."""

    def __init__(self, similarity: float = NEAR_DUPLICATE) -> None:
        from datasketch import MinHashLSH  # a third of a second, which no `--help` should wait for

        bands = next(params for least, params in _BANDS.items() if similarity >= least)
        self._least = similarity
        self._index = MinHashLSH(num_perm=_PERMUTATIONS, params=bands)

    def add(self, text: str) -> None:
        """Put a text (as `plain_text` gives it) into the index, once."""
        if text not in self._index:
            self._index.insert(text, _sketch(text), check_duplication=False)

    def like(self, text: str, but: Callable[[str], bool] = lambda _: False) -> Iterator[tuple[str, float]]:
        """Texts of the index that agree with this one, and the similarity in [0, 1]; those that ``but`` names are not
        looked at."""
        own = _shingles(text)
        for other in self._index.query(_sketch(text)):
            if but(other):
                continue
            theirs = _shingles(other)
            similarity = len(own & theirs) / len(own | theirs)
            if similarity >= self._least:
                yield other, similarity


@lru_cache(maxsize=8)
def _sketch(text: str) -> MinHash:
    """Remembered for the next call: a text is most often looked up, then added."""
    sketch = _empty_sketch().copy()
    sketch.update_batch(list(_shingles(text)))
    return sketch


@cache
def _empty_sketch() -> MinHash:
    from datasketch import MinHash

    return MinHash(num_perm=_PERMUTATIONS, hashfunc=lambda shingle: shingle)


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
    from scipy.cluster.hierarchy import DisjointSet

    of = grouped(compared, compared.__getitem__)
    linked, index = DisjointSet(of), NearDuplicates(similarity)
    for own in of:
        for other, _ in index.like(own, lambda other: linked.connected(other, own)):  # noqa: B023 - used at once
            linked.merge(other, own)
        index.add(own)
    return [[text for own in group for text in of[own]] for group in linked.subsets()]


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
