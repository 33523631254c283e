"""Draws that depend on a seed and names alone, not on the order of rows, a worker or other draws."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, zip_longest
from typing import TypeVar

from crm.schema import Message, Preference


def generator(seed: int, epoch: int, sample_id: str, purpose: str) -> random.Random:
    """A generator of its own for one draw, the same on every machine, worker and call.

    ``purpose`` (a word without ``|``) keeps two draws for one sample independent. The id comes last, so that no id
    can imitate another key; it may hold any text.
    """
    key = f"{seed}|{epoch}|{purpose}|{sample_id}".encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(key).digest())  # noqa: S311 - reproducible draws, no secrets


T = TypeVar("T")
K = TypeVar("K")


def fraction(seed: int, *names: object) -> float:
    """A number in [0, 1) that depends on the seed and the names only."""
    text = "|".join([str(seed), *(str(name) for name in names)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:6], "big") / 2**48


def shuffled(items: Iterable[T], seed: int, *names: object) -> list[T]:
    """The items in an order drawn from the seed; their order on entry does not matter, their text does."""
    return sorted(items, key=lambda item: (fraction(seed, *names, item), str(item)))


def wordings(bank: Sequence[str], seed: int, *names: object) -> tuple[str, ...]:
    """One or two distinct wordings of ``bank``, as a user would state one criterion."""
    count = 1 + (fraction(seed, *names, "how many") < 0.5)
    return tuple(shuffled(bank, seed, *names)[:count])


def hold_out(keys: Iterable[str], shares: Sequence[float], seed: int) -> list[set[str]]:
    """Disjoint sets of keys with the given shares (each in [0, 1], sum at most 1); what is left trains."""
    distinct = set(keys)
    order = iter(shuffled(distinct, seed, "hold out"))
    return [set(islice(order, round(share * len(distinct)))) for share in shares]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items in lists by key; keys and items are in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def in_turns(
    rows: Sequence[Preference],
    seed: int,
    levels: Sequence[Callable[[Preference], str]] = (),
    path: tuple[str, ...] = (),
) -> list[Preference]:
    """The rows in turns over the first level's groups, within a group over the next level's."""
    if not levels:
        return sorted(rows, key=lambda row: (fraction(seed, "turn", row.id), row.id))
    groups = grouped(rows, levels[0])
    names = shuffled(groups, seed, "group", *path)
    queues = [in_turns(groups[name], seed, levels[1:], (*path, name)) for name in names]
    return [row for turn in zip_longest(*queues) for row in turn if row is not None]


def turn(role: str, content: str) -> tuple[Message, ...]:
    """A conversation of one message."""
    return (Message(role, content),)
