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
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from crm.schema import Message, Preference, prompt_key
from crm.votes.near_duplicates import NearDuplicates, plain_text

PARTS = ("train", "validation", "test", "unseen_topics", "left_out")


@dataclass(frozen=True)
class PromptSplits:
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
) -> PromptSplits:
    """Split by prompt. ``validation`` and ``test`` are fractions of the prompt groups, in [0, 1), below 1 together.

    Raises ``ValueError`` for impossible fractions, for a topic that no row has, and where a split that was asked for
    stays empty because there are too few prompts.
    """
    _check_topics(preferences, held_out_topics)
    group_of = prompt_groups([preference.prompt for preference in preferences])
    keys = [group_of[prompt_key(preference.prompt)] for preference in preferences]
    topics = [preference.topic for preference in preferences]
    parts = assign(keys, topics, seed=seed, validation=validation, test=test, held_out_topics=held_out_topics)
    rows: dict[str, list[Preference]] = {name: [] for name in PARTS}
    for part, preference in zip(parts, preferences, strict=True):
        rows[part].append(preference)
    left_out = len(rows.pop("left_out"))
    open_keys = {key for key, part in zip(keys, parts, strict=True) if part not in ("unseen_topics", "left_out")}
    _check_filled(rows, {"train": 1.0, "validation": validation, "test": test}, len(open_keys))
    check_prompts_apart(rows)
    counts = {name: len(split) for name, split in rows.items()} | {
        "left_out": left_out,
        "prompts": len(group_of),
        "groups": len(set(group_of.values())),
        "largest_group": max(Counter(group_of.values()).values(), default=0),
    }
    return PromptSplits(**rows, counts=counts)


def assign(
    keys: Sequence[str],
    topics: Sequence[str | None],
    *,
    seed: int,
    validation: float,
    test: float,
    held_out_topics: Collection[str] = (),
) -> list[str]:
    """The part of every row, one of `PARTS`, from its group's key (`prompt_groups`) and its topic.

    A group with a row of a held-out topic is held out whole: its rows of other topics are ``left_out``. All other
    groups go by a hash of seed and key, so that a group stays where it is whatever else is added. Raises ``ValueError``
    for impossible fractions.
    """
    _check_fractions(validation, test)
    held_out = {key for key, topic in zip(keys, topics, strict=True) if topic in held_out_topics}
    parts = []
    for key, topic in zip(keys, topics, strict=True):
        if key not in held_out:
            parts.append(_assign(key, seed, validation, test))
        else:
            parts.append("unseen_topics" if topic in held_out_topics else "left_out")
    return parts


def prompt_groups(prompts: Sequence[Sequence[Message]]) -> dict[str, str]:
    """From each prompt's key (`crm.schema.prompt_key`) to the key of its group, independent of the order given.

    System turns are ignored, so that a long shared instruction does not make every prompt a near-duplicate of every
    other. The group's key is the smallest SHA-256 of its members' texts.
    """
    text_of = {prompt_key(prompt): plain_text(prompt) for prompt in prompts}
    parent = {text: text for text in text_of.values()}
    index = NearDuplicates()
    for text in parent:
        for other, _ in index.like(text):
            parent[_root(parent, other)] = _root(parent, text)
        index.add(text)
    smallest: dict[str, str] = {}
    for text in parent:
        root = _root(parent, text)
        smallest[root] = min(_digest(text), smallest.get(root, "g"))
    return {key: smallest[_root(parent, text)] for key, text in text_of.items()}


def check_prompts_apart(splits: dict[str, list[Preference]]) -> None:
    """Raise ``ValueError`` naming a prompt that occurs in two of the splits (up to case and white space)."""
    home: dict[str, str] = {}
    for name, rows in splits.items():
        for row in rows:
            first = home.setdefault(prompt_key(row.prompt), name)
            if first != name:
                raise ValueError(f"prompt of {row.id!r} is in {first} and in {name}; split with split_by_prompt")


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
