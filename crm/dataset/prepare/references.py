"""Queries that a dataset should be told apart from. In: the root of public sets, banks. Out: queries by set."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import RecordError, messages, query_of
from crm.votes.catalogue import PUBLIC

BANKS = {"bank_alpacaeval": "*.json*", "bank_justeval": "outputs/*.json*"}
"""Public banks under the root, and the files that hold their queries (``instruction``)."""
SAVED = "queries.jsonl"
"""Of a saved bank, the file of its queries (`crm.leaderboard.bank`)."""


def reference_folders(root: str, banks: Collection[str], own: str) -> dict[str, Path]:
    """Every public set and bank under ``root`` that is there, but not ``own`` itself; saved banks by their folder.

    Raises ``ValueError`` for a bank that is not there.
    """
    public = {name: Path(root) / str(source.folder) for name, source in PUBLIC.items() if name != own}
    public |= {name: Path(root) / name for name in BANKS}
    there = {name: folder for name, folder in public.items() if folder.is_dir()}
    for bank in banks:
        if not Path(bank).is_dir():
            raise ValueError(f"banks=[{bank}]: no such folder; give folders that hold a bank (bank.json)")
    return there | {folder: Path(folder) for folder in banks}


def check_sets(wanted: Iterable[str], known: Collection[str]) -> None:
    """Raise ``ValueError`` for a set of ``split.drop_leaked`` that nothing is compared with."""
    for name in wanted:
        if name not in known:
            raise ValueError(
                f"split.drop_leaked: no set {name!r} is compared with; there are {'; '.join(sorted(known)) or 'none'}; "
                "public sets are looked for in data.root, banks of your own are named with banks=[...]"
            )


def queries_of(name: str, folder: Path) -> list[str]:
    """The distinct queries of one of these, sorted; rows of a public set that cannot be read are passed over."""
    if name in BANKS:
        return sorted(_bank_queries(sorted(folder.glob(BANKS[name]))))
    if name in PUBLIC:
        return sorted({row.query for row in PUBLIC[name].read(folder, Intake(strict=False))})
    if not (folder / SAVED).is_file():
        raise ValueError(f"banks=[{folder}]: has no {SAVED}; give folders that hold a bank")
    return sorted(set(Intake(strict=True).lines(folder / SAVED, _saved_query)))


def _saved_query(row: dict[str, Any], _line: int) -> str:
    if "prompt" not in row:
        raise RecordError("prompt", "missing")
    return query_of(messages(row["prompt"], "prompt"))


def _bank_queries(files: Iterable[Path]) -> set[str]:
    def parse(row: dict[str, Any], _line: int) -> str:
        if not isinstance(row.get("instruction"), str):
            raise RecordError("instruction", "missing or not a string")
        return str(row["instruction"])

    reading = Intake(strict=False)
    return {query for file in files for query in reading.array(file, parse)}
