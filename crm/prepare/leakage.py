"""Queries that a dataset shares with benchmarks and banks.

A query is the first user turn. Exact matches ignore case and white space; near ones have nearly the same letters and
digits (`crm.data.splits`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.data.catalogue import PUBLIC
from crm.data.public.pairs import Answer
from crm.data.splits import NearDuplicates, plain_text
from crm.io.intake import Intake
from crm.schema import Message, RecordError, folded, messages, query_of

BANKS = {"bank_alpacaeval": "*.json*", "bank_justeval": "outputs/*.json*"}
"""Public banks under the root, and the files that hold their queries (``instruction``)."""
SAVED = "queries.jsonl"
"""Of a saved bank, the file of its queries (`crm.leaderboard.bank`)."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A query of the dataset that a reference set has too; ``match`` is ``exact`` or ``near``."""

    query: str
    set: str
    match: str


def find_leaks(queries: Iterable[str], references: Mapping[str, Iterable[str]]) -> list[Leak]:
    """One `Leak` for every query and reference set that has it too."""
    index = NearDuplicates()
    exact: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for query in sorted(set(queries)):
        exact.setdefault(folded(query), []).append(query)
        near.setdefault(_plain(query), []).append(query)
        index.add(_plain(query))
    found = []
    for name, texts in references.items():
        matches: dict[str, str] = {}
        for text in set(texts):
            for plain, _ in index.like(_plain(text)):
                matches |= {query: "near" for query in near[plain] if query not in matches}
            matches |= dict.fromkeys(exact.get(folded(text), ()), "exact")
        found += [Leak(query, name, matches[query]) for query in sorted(matches)]
    return found


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


def check_sets(wanted: Iterable[str], known: Collection[str]) -> None:
    """Raise ``ValueError`` for a set of ``split.drop_leaked`` that is not among the reference sets."""
    for name in wanted:
        if name not in known:
            raise ValueError(
                f"split.drop_leaked: {name!r} is not a reference set; there are {'; '.join(sorted(known)) or 'none'}; "
                "public sets are looked for in data.root, banks of your own are named with banks=[...]"
            )


def queries_of(name: str, folder: Path) -> set[str]:
    """The queries of a reference set; rows of a public one that cannot be read are skipped."""
    reading = Intake(strict=False)
    if name in BANKS:
        return {query for file in folder.glob(BANKS[name]) for query in reading.rows(file, _asked)}
    if name in PUBLIC:
        return {row.query for row in PUBLIC[name].read(folder, reading)}
    return set(Intake(strict=True).rows(folder / SAVED, _saved_query))


def _saved_query(row: dict[str, Any], _line: int) -> str:
    if "prompt" not in row:
        raise RecordError("prompt", "missing")
    return query_of(messages(row["prompt"], "prompt"))


def _asked(row: dict[str, Any], _line: int) -> str:
    return Answer.model_validate(row).instruction


def _plain(text: str) -> str:
    return plain_text((Message("user", text),))
