"""In: rows with all findings. Out: which part each belongs to; then the dataset itself, a file a part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from crm.dataset.prepare.place import PARTS, check_topics, draw_topics, parts_of, topic_counts, who_speaks
from crm.dataset.prepare.workspace import SPLITS, Workspace, merged, read_preferences, with_findings
from crm.io.parquet import open_parquet, read_parquet, read_rows, schema, write_rows
from crm.schema import Message, Preference, prompt_key
from crm.votes.splits import NEAR_DUPLICATE, assign, prompt_groups, warn_of_large_group

NOT_USED = ("filtered", "leaked", "left_out")
"""Parts of rows that are in no file of the dataset; they are counted."""


def choose_held_out(
    space: Workspace,
    *,
    topics: int,
    named_topics: list[str],
    criteria: int,
    named_criteria: list[str],
    seed: int,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Held-out topics of queries and of criteria: the named ones, or as many as asked for, drawn (`draw_topics`)."""
    queries, broad = topic_counts(row for row, kept in read_preferences(space, with_topics=True) if kept)
    return (
        check_topics("split.held_out_topics", named_topics, queries) or draw_topics(queries, topics, seed),
        check_topics("split.held_out_criteria", named_criteria, broad) or draw_topics(broad, criteria, seed),
    )


def split(
    space: Workspace,
    *,
    held_out_topics: Collection[str],
    held_out_criteria: Collection[str],
    drop_leaked: Collection[str],
    validation: float,
    test: float,
    seed: int,
    near_duplicates: float = NEAR_DUPLICATE,
    whole_is_test: bool = False,
) -> dict[str, int]:
    """Write the part and group of every row; with ``whole_is_test`` all of them are the test share, suite ``D``.

    Rows that the filter dropped are ``filtered``. Where nothing but held-out criteria speaks about a group of prompts,
    nothing could be trained on it: it is ``unseen_criteria``, suite ``C``. A row whose query is in one of the sets
    ``drop_leaked`` is ``leaked`` if it would train or validate; in a suite it may stay.
    """
    ids, keys, topics, speaks = [], [], [], []
    prompts: dict[str, tuple[Message, ...]] = {}
    for row, keep in read_preferences(space, with_topics=True):
        key = prompt_key(row.prompt)
        prompts.setdefault(key, row.prompt)
        ids.append(row.id)
        keys.append(key)
        topics.append(row.topic if keep else None)
        speaks.append(who_speaks(row, held_out_criteria) if keep else "filtered")
    groups = prompt_groups(list(prompts.values()), near_duplicates)
    warn_of_large_group(groups, near_duplicates)
    group_of = [groups[key] for key in keys]
    shares = {"validation": validation, "test": test}
    parts = assign(group_of, topics, seed=seed, held_out_topics=held_out_topics, **shares)
    if whole_is_test:
        parts = ["test"] * len(parts)
    for_c = {group for group, kind in zip(group_of, speaks, strict=True) if kind == "unseen"}
    for_c -= {group for group, kind in zip(group_of, speaks, strict=True) if kind == "seen"}
    leaked = _leaked(space, drop_leaked)
    for index, name in enumerate(ids):
        if speaks[index] == "filtered":
            parts[index] = "filtered"
        elif group_of[index] in for_c and parts[index] in ("train", "validation", "test"):
            parts[index] = "unseen_criteria"
        elif name in leaked and parts[index] in ("train", "validation"):
            parts[index] = "leaked"
    rows = ({"id": name, "part": part, "group": group} for name, part, group in zip(ids, parts, group_of, strict=True))
    write_rows(space.findings("split"), SPLITS, rows)
    found = Counter(parts)
    if not found["train"] and not whole_is_test:
        raise ValueError(
            f"split: no row is left to train on, of {len(ids)} rows with {len(prompts)} different prompts in "
            f"{len(set(group_of))} groups of near-duplicates (data.near_duplicates={near_duplicates:g}); "
            "bring more prompts, hold out less, or try another data.seed"
        )
    return {"rows": len(ids), "prompts": len(prompts), "groups": len(set(group_of)), **dict(sorted(found.items()))}


def assemble(space: Workspace, unseen_criteria: Collection[str]) -> dict[str, int]:
    """Write ``preferences.parquet`` (all rows in use, with their part) and ``splits/<part>.parquet``.

    Asserts that no prompt, not even a near-duplicate, is in two of train, validation and the suites.
    """
    columns = schema(Preference)
    with ExitStack() as stack:
        everything = stack.enter_context(open_parquet(space.preferences, columns.append(pa.field("part", pa.string()))))
        files = {part: stack.enter_context(open_parquet(space.part(part), columns)) for part in PARTS}
        for row, part in placed(space):
            if part not in NOT_USED:
                everything.append({**row.to_dict(), "part": part})
                for name, as_placed in parts_of(row, part, unseen_criteria):
                    files[name].append(as_placed.to_dict())
    _check_no_group_crosses(space)
    return {"rows": everything.rows, **{part: file.rows for part, file in files.items()}}


def part_files(space: Workspace) -> list[Path]:
    """The files of all parts."""
    return [space.part(part) for part in PARTS]


def read_part(space: Workspace, part: str) -> list[Preference]:
    """Rows of one part, in memory."""
    return list(read_parquet(space.part(part), Preference))


def placed(space: Workspace) -> Iterator[tuple[Preference, str]]:
    """Every row with all findings, and the part it is in (or why it is in none, `NOT_USED`)."""
    for row, (criteria, topics, place) in with_findings(space, "criteria", "topics", "split"):
        yield merged(row, criteria, topics), place["part"]


def _leaked(space: Workspace, sets: Collection[str]) -> set[str]:
    if not sets:
        return set()
    return {row["id"] for row in read_rows(space.findings("leakage"), ["id", "set"]) if row["set"] in sets}


def _check_no_group_crosses(space: Workspace) -> None:
    home: dict[str, str] = {}
    for row in read_rows(space.findings("split"), ["part", "group"]):
        if row["part"] not in NOT_USED:
            first = home.setdefault(row["group"], row["part"])
            assert first == row["part"], f"group {row['group']} is in {first} and in {row['part']}"
