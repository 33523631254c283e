"""Queries that a dataset should be told apart from. In: the root of public sets, banks. Out: queries by set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crm.data.reading import Reading
from crm.data.sources.catalogue import PUBLIC
from crm.leaderboard.bank import BankQuery, load_bank
from crm.schema import RecordError

BANKS = {"bank_alpacaeval": "*.json*", "bank_justeval": "outputs/*.json*"}
"""Public banks under the root, and the files that hold their queries (``instruction``)."""


def reference_folders(root: str, banks: Iterable[str], own: str) -> dict[str, Path]:
    """Every public set and bank under ``root`` that is there, but not ``own`` itself; saved banks by their folder."""
    public = {name: Path(root) / str(source.folder) for name, source in PUBLIC.items() if name != own}
    public |= {name: Path(root) / name for name in BANKS}
    there = {name: folder for name, folder in public.items() if folder.is_dir()}
    return there | {folder: Path(folder) for folder in banks}


def queries_of(name: str, folder: Path) -> list[str]:
    """The distinct queries of one of these, sorted; rows of a public set that cannot be read are passed over."""
    if name in BANKS:
        return sorted(_bank_queries(sorted(folder.glob(BANKS[name]))))
    if name in PUBLIC:
        return sorted({row.query for row in PUBLIC[name].read(folder, Reading(strict=False))})
    return sorted({_query(query) for query in load_bank(folder).queries})


def _bank_queries(files: Iterable[Path]) -> set[str]:
    def parse(row: dict[str, Any], _line: int) -> str:
        if not isinstance(row.get("instruction"), str):
            raise RecordError("instruction", "missing or not a string")
        return str(row["instruction"])

    reading = Reading(strict=False)
    return {query for file in files for query in reading.array(file, parse)}


def _query(query: BankQuery) -> str:
    return next((turn.content for turn in query.prompt if turn.role == "user"), query.prompt[0].content)
