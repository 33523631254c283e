"""In: preferences. Out: train, validation, test and unseen-topic lists that share no prompt, not even a near-duplicate.

Prompts whose texts nearly agree form a group (linked in chains), and a group goes to one split as a whole. What is
guaranteed, for a fixed ``seed``:

- the same rows in any order give the same splits;
- adding or deleting rows moves an old row only if its own group gained or lost a prompt;
- changing the ``validation`` fraction moves nothing into or out of ``test``.
"""

from __future__ import annotations

import difflib
import hashlib
import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from datasketch import MinHash, MinHashLSH

from crm.schema import Message, Preference, prompt_key

NEAR_DUPLICATE = 0.8
"""Jaccard similarity of character 5-grams from which two prompts count as one (estimated from 128 permutations)."""

_SHINGLE = 5
_PERMUTATIONS = 128


@dataclass(frozen=True)
class Splits:
    """Rows of each split in the order they were given.

    ``unseen_topics`` holds the rows of held-out topics. ``counts`` has one number per split, ``left_out`` (rows of
    other topics that share a prompt with a held-out one), ``prompts``, ``groups`` and ``largest_group`` (in prompts).
    """

    train: list[Preference] = field(default_factory=list)
    validation: list[Preference] = field(default_factory=list)
    test: list[Preference] = field(default_factory=list)
    unseen_topics: list[Preference] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def split_by_prompt(
    preferences: Sequence[Preference],
    *,
    seed: int,
    validation: float,
    test: float,
    held_out_topics: Collection[str] = (),
) -> Splits:
    """Split by prompt. ``validation`` and ``test`` are fractions of the prompt groups, in [0, 1), below 1 together.

    Raises ``ValueError`` for impossible fractions, for a topic that no row has, and where a split that was asked for
    stays empty because there are too few prompts.
    """
    _check_fractions(validation, test)
    _check_topics(preferences, held_out_topics)
    group_of = prompt_groups([preference.prompt for preference in preferences])
    keys = [group_of[prompt_key(preference.prompt)] for preference in preferences]
    held_out = {key for key, row in zip(keys, preferences, strict=True) if row.topic in held_out_topics}
    rows: dict[str, list[Preference]] = {name: [] for name in ("train", "validation", "test", "unseen_topics")}
    left_out = 0
    for key, preference in zip(keys, preferences, strict=True):
        if key not in held_out:
            rows[_assign(key, seed, validation, test)].append(preference)
        elif preference.topic in held_out_topics:
            rows["unseen_topics"].append(preference)
        else:
            left_out += 1
    _check_filled(rows, {"train": 1.0, "validation": validation, "test": test}, len(set(keys) - held_out))
    check_disjoint(rows)
    sizes = dict.fromkeys(group_of.values(), 0)
    for key in group_of.values():
        sizes[key] += 1
    counts = {name: len(split) for name, split in rows.items()} | {
        "left_out": left_out,
        "prompts": len(group_of),
        "groups": len(sizes),
        "largest_group": max(sizes.values(), default=0),
    }
    return Splits(**rows, counts=counts)


def prompt_groups(prompts: Sequence[Sequence[Message]]) -> dict[str, str]:
    """From each prompt's key (`crm.schema.prompt_key`) to the key of its group, independent of the order given.

    System turns are ignored, so that a long shared instruction does not make every prompt a near-duplicate of every
    other. The group's key is the smallest SHA-256 of its members' texts.
    """
    text_of = {prompt_key(prompt): _plain_text(prompt) for prompt in prompts}
    parent = {text: text for text in text_of.values()}
    sketches: dict[str, MinHash] = {}
    index = MinHashLSH(threshold=NEAR_DUPLICATE, num_perm=_PERMUTATIONS)
    blank = MinHash(num_perm=_PERMUTATIONS, hashfunc=_as_is)
    for text in parent:
        sketch = blank.copy()
        sketch.update_batch(_shingles(text))
        for other in index.query(sketch):
            root, other_root = _root(parent, text), _root(parent, other)
            if root != other_root and sketch.jaccard(sketches[other]) >= NEAR_DUPLICATE:
                parent[other_root] = root
        sketches[text] = sketch
        index.insert(text, sketch, check_duplication=False)
    smallest: dict[str, str] = {}
    for text in parent:
        root = _root(parent, text)
        smallest[root] = min(_digest(text), smallest.get(root, "g"))
    return {key: smallest[_root(parent, text)] for key, text in text_of.items()}


def check_disjoint(splits: dict[str, list[Preference]]) -> None:
    """Raise ``ValueError`` naming a prompt that occurs in two of the splits (up to case and white space)."""
    home: dict[str, str] = {}
    for name, rows in splits.items():
        for row in rows:
            first = home.setdefault(prompt_key(row.prompt), name)
            if first != name:
                raise ValueError(f"prompt of {row.id!r} is in {first} and in {name}; split with split_by_prompt")


def _plain_text(prompt: Sequence[Message]) -> str:
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


def _root(parent: dict[str, str], text: str) -> str:
    while parent[text] != text:
        parent[text] = parent[parent[text]]
        text = parent[text]
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _assign(key: str, seed: int, validation: float, test: float) -> str:
    place = int(_digest(f"{seed}|{key}")[:16], 16) / 16**16
    return "test" if place < test else "validation" if place < test + validation else "train"


def _check_fractions(validation: float, test: float) -> None:
    for name, value in (("validation", validation), ("test", test)):
        if not 0 <= value < 1:
            raise ValueError(f"{name}: {value} is not a fraction in [0, 1)")
    if validation + test >= 1:
        raise ValueError(f"validation + test: {validation + test} leaves nothing to train on, keep the sum below 1")


def _check_topics(preferences: Sequence[Preference], held_out_topics: Collection[str]) -> None:
    known = sorted({row.topic for row in preferences if row.topic is not None})
    for topic in held_out_topics:
        if topic not in known:
            near = difflib.get_close_matches(topic, known, n=1, cutoff=0.0)
            hint = f"the nearest topic is {near[0]!r}" if near else "no row has a topic"
            raise ValueError(f"held_out_topics: no row has the topic {topic!r}; {hint}")


def _check_filled(rows: dict[str, list[Preference]], asked: dict[str, float], groups: int) -> None:
    for name, fraction in asked.items():
        if fraction > 0 and groups and not rows[name]:
            raise ValueError(
                f"{name}: empty, because there are only {groups} different prompts; "
                "bring more prompts, ask for a larger fraction, or try another seed"
            )
