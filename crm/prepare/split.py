"""Place rows in train, validation and the suites D (new prompts), T (new topics) and C (new criteria).

Groups of near-duplicate prompts go to one part by a hash; prompts of a held-out topic are suite ``T``. Criteria of
held-out broad topics are taken out of every row and are in suite ``C`` only: on the prompts of the test share, and on
prompts that have no other criteria. ``D`` is the test share with the other criteria.

Queries that benchmarks and banks have too are found by their first user turn: two are the same where their letters and
digits nearly are (`crm.data.splits`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any

from crm.criteria.extraction import has_criteria
from crm.data.catalogue import PUBLIC
from crm.data.config import DataConfig
from crm.data.public.pairs import Answer
from crm.data.splits import (
    NearDuplicates,
    part_at,
    place_of_group,
    plain_text,
    prompt_groups,
    warn_of_large_group,
)
from crm.io.draws import grouped
from crm.io.rows import Intake
from crm.prepare.config import SplitConfig
from crm.schema import Message, Preference, messages, prompt_key, query_of

SUITES = ("D", "T", "C")
PARTS = ("train", "validation", *SUITES)
LARGEST_SHARE = 0.2
"""A topic with more of the rows than this is never drawn to be held out: too little would be left to learn from."""
OTHER = "Other"
"""A topic by this name is none, and is never drawn."""
BANKS = {"bank_alpacaeval": "*.json*", "bank_justeval": "outputs/*.json*"}
"""Public banks under the root, and the files that hold their queries (``instruction``)."""
SAVED = "queries.jsonl"
"""Of a saved bank, the file of its queries (`crm.leaderboard.bank`)."""


@dataclass(frozen=True)
class Placed:
    """``parts`` has the rows of each of `PARTS`; a test row may be in ``D`` and in ``C``, with other criteria."""

    parts: dict[str, list[Preference]]
    held_out_topics: tuple[str, ...]
    held_out_criteria: tuple[str, ...]
    counts: dict[str, int]


def place(
    rows: Sequence[Preference],
    chosen: SplitConfig,
    data: DataConfig,
    *,
    leaked_queries: Collection[str] = (),
    all_test: bool = False,
) -> Placed:
    """Every row in its part, or counted as ``leaked`` (would train or validate) or ``left_out``.

    A group with a row of a held-out topic is held out whole: its rows of other topics are left out. All other groups go
    by a hash of seed and key, so that a group stays where it is while its prompts stay the same.

    With ``all_test`` every row is in suite ``D``. Raises ``ValueError`` if nothing is left to train on.
    """
    topics, criteria = ((), ()) if all_test else _held_out(rows, chosen, data.seed)
    groups = prompt_groups([row.prompt for row in rows], data.near_duplicates)
    warn_of_large_group(groups)
    shares = {"validation": data.validation_fraction, "test": data.test_fraction}
    divided = [(groups[prompt_key(row.prompt)], *divide(row, criteria)) for row in rows]
    of_topic = {key for key, seen, _ in divided if seen.topic in topics}
    only_c = {key for key, _, unseen in divided if has_criteria(unseen)}
    only_c -= {key for key, seen, _ in divided if has_criteria(seen)}
    parts: dict[str, list[Preference]] = {name: [] for name in PARTS}
    counts = Counter[str]()
    for key, seen, unseen in divided:
        if key in of_topic:
            part = "unseen_topics" if seen.topic in topics else "left_out"
        elif key in only_c:
            part = "unseen_criteria"
        else:
            part = "test" if all_test else part_at(place_of_group(key, data.seed), **shares)
        if seen.query in leaked_queries and part in ("train", "validation"):
            part = "leaked"
        counts[part] += 1
        if part in ("leaked", "left_out"):
            continue
        if part == "unseen_criteria" or (part == "test" and criteria and has_criteria(unseen)):
            parts["C"].append(unseen)
        if part != "unseen_criteria":
            parts[{"test": "D", "unseen_topics": "T"}.get(part, part)].append(seen)
    if not parts["train"] and not all_test:
        raise ValueError(
            f"split: no row is left to train on, of {len(rows)} rows with {len(groups)} different prompts in "
            f"{len(set(groups.values()))} groups of near-duplicates (data.near_duplicates={data.near_duplicates:g}); "
            "bring more prompts, hold out less, or try another data.seed"
        )
    sizes = {"rows": len(rows), "prompts": len(groups), "groups": len(set(groups.values()))}
    return Placed(parts, topics, criteria, sizes | dict(sorted(counts.items())))


def draw_topics(counts: Counter[str], number: int, seed: int) -> tuple[str, ...]:
    """``number`` topics that are not too large, fewer if there are few: at least three are left to train on.

    A topic's place in the order depends on its name and the seed only.
    """
    order = sorted(counts, key=lambda name: hashlib.sha256(f"{seed}|{name}".encode("utf-8", "surrogatepass")).digest())
    fitting = [name for name in order if counts[name] <= LARGEST_SHARE * counts.total() and name != OTHER]
    return tuple(sorted(fitting[: max(0, min(number, len(counts) - 3))]))


def divide(row: Preference, held_out: Collection[str]) -> tuple[Preference, Preference]:
    """The row without the criteria of held-out broad topics, and with these alone.

    Where topics do not pair up with the criteria of a side, all of them hold for each criterion.
    """
    changes: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for side in "ab":
        criteria, topics = getattr(row, f"criteria_{side}"), getattr(row, f"criteria_topics_{side}")
        paired = len(criteria) == len(topics)
        for wanted, sides in zip((False, True), changes, strict=True):
            fits = [(topic in held_out) == wanted for topic in topics]
            fits = fits if paired else [all(fits)] * len(criteria)
            sides[f"criteria_{side}"] = tuple(compress(criteria, fits))
            sides[f"criteria_topics_{side}"] = tuple(compress(topics, fits)) if paired else topics
    return replace(row, **changes[0]), replace(row, **changes[1])


def _held_out(rows: Iterable[Preference], chosen: SplitConfig, seed: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Held-out topics of queries and of criteria: the named ones, or as many as asked for, drawn."""
    queries, criteria = Counter[str](), Counter[str]()
    for row in rows:
        queries.update([row.topic] if row.topic is not None else [])
        criteria.update({*row.criteria_topics_a, *row.criteria_topics_b})
    return (
        check_names("split.held_out_topics", chosen.held_out_topics, queries)
        or draw_topics(queries, chosen.unseen_topics, seed),
        check_names("split.held_out_criteria", chosen.held_out_criteria, criteria)
        or draw_topics(criteria, chosen.unseen_criteria, seed),
    )


def check_names(field: str, names: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """The names. Raises ``ValueError`` for one that is not known."""
    for name in names:
        if name not in known:
            raise ValueError(f"{field}: {name!r} is not there; there are {'; '.join(sorted(known)) or 'none'}")
    return tuple(names)


def find_leaks(queries: Iterable[str], references: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """By reference set, the queries that it has too."""
    index = NearDuplicates()
    of_text = grouped(set(queries), _plain)
    for text in of_text:
        index.add(text)
    return {
        name: {query for text in set(texts) for near, _ in index.like(_plain(text)) for query in of_text[near]}
        for name, texts in references.items()
    }


def reference_folders(root: str, banks: Collection[str], own: str) -> dict[str, Path]:
    """Every public set and bank that is under ``root``, except ``own``; saved banks by their folder.

    Raises ``ValueError`` for a bank that is not there.
    """
    public = {name: Path(root) / str(source.folder) for name, source in PUBLIC.items() if name != own}
    public |= {name: Path(root) / name for name in BANKS}
    for bank in banks:
        if not (Path(bank) / SAVED).is_file():
            raise ValueError(f"banks=[{bank}]: has no {SAVED}; give folders that hold a bank")
    return {name: at for name, at in public.items() if at.is_dir()} | {bank: Path(bank) for bank in banks}


def queries_of(name: str, folder: Path) -> set[str]:
    """The queries of a reference set; rows of a public one that cannot be read are skipped."""
    reading = Intake(strict=False)
    if name in BANKS:
        asked = (reading.rows(file, lambda row, _: Answer.model_validate(row)) for file in folder.glob(BANKS[name]))
        return {row.instruction for rows in asked for row in rows}
    if name in PUBLIC:
        return {row.query for row in PUBLIC[name].read(folder, reading)}
    saved = Intake(strict=True).rows(folder / SAVED, lambda row, _: messages(row.get("prompt"), "prompt"))
    return set(map(query_of, saved))


def _plain(text: str) -> str:
    return plain_text((Message("user", text),))
