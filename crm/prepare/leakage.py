"""Queries that a dataset shares with benchmarks and banks.

A query is the first user turn. Two are the same where their letters and digits nearly are (`crm.data.splits`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from crm.data.catalogue import PUBLIC
from crm.data.public.pairs import Answer
from crm.data.splits import NearDuplicates, plain_text
from crm.io.draws import grouped
from crm.io.rows import Intake
from crm.schema import Message, RecordError, messages, query_of

BANKS = {"bank_alpacaeval": "*.json*", "bank_justeval": "outputs/*.json*"}
"""Public banks under the root, and the files that hold their queries (``instruction``)."""
SAVED = "queries.jsonl"
"""Of a saved bank, the file of its queries (`crm.leaderboard.bank`)."""


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
        return {text for file in folder.glob(BANKS[name]) for text in reading.rows(file, _instruction)}
    if name in PUBLIC:
        return {row.query for row in PUBLIC[name].read(folder, reading)}
    return set(Intake(strict=True).rows(folder / SAVED, _saved_query))


def _instruction(row: dict[str, Any], _line: int) -> str:
    return Answer.model_validate(row).instruction


def _saved_query(row: dict[str, Any], _line: int) -> str:
    if "prompt" not in row:
        raise RecordError("prompt", "missing")
    return query_of(messages(row["prompt"], "prompt"))


def _plain(text: str) -> str:
    return plain_text((Message("user", text),))
