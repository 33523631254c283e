"""Files of queries and responses: which column of a row is the prompt, and which the response.

A row names its query by ``query_id``, or repeats its text (``query``, ``instruction`` or ``prompt``); the response is
``text``, ``output`` or ``response``. Of Alpaca's columns ``input`` belongs to the prompt, and ``text``, which holds
the whole prompt, is not the response. Any format that `crm.io.rows` reads.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crm.chat.replies import split_thoughts
from crm.io.intake import Intake
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.bank.public import UNTAGGED
from crm.schema import RecordError, folded, prompt_key, query_of, short
from crm.votes.fields import any_text
from crm.votes.sampling import turn

log = logging.getLogger(__name__)
QUERY_FIELDS = ("query", "instruction", "prompt")
MORE_OF_QUERY = "input"
TEXT_FIELDS = ("text", "output", "response")
Row = Mapping[str, Any]
SHOWN = 10
"""Missing queries that a message names."""
MAX_NAME = 80


def read_queries(path: Path) -> tuple[BankQuery, ...]:
    """Rows with ``query`` (or ``prompt``, or ``instruction`` with its ``input``), and ``topic`` and ``id`` where known.

    Equal queries are one. Raises ``ValueError`` naming file and line, also where their topics or ids differ.
    """
    found: dict[str, tuple[BankQuery, int]] = {}
    unread: Counter[str] = Counter()

    def parse(row: Row, line: int) -> None:
        column, text = prompt_cell(row)
        if not any_text(text, column).strip():
            raise RecordError(column, "blank")
        prompt = turn("user", text)
        query = BankQuery(row.get("id") or prompt_key(prompt), prompt, row.get("topic") or UNTAGGED)
        first, at = found.setdefault(prompt_key(prompt), (query, line))
        for name in ("id", "topic"):
            if (own := getattr(query, name)) != (known := getattr(first, name)):
                raise RecordError(name, f"{own!r:.80}, but line {at} has the same query with {known!r:.80}; give one")
        unread.update(unread_columns(row, *QUERY_FIELDS, MORE_OF_QUERY, "id", "topic"))

    for _ in Intake(strict=True).rows(path, parse, key=lambda _: None):
        pass
    show_unread(path, unread)
    return tuple(query for query, _ in found.values())


def read_responses(path: Path, queries: Sequence[BankQuery]) -> dict[str, str]:
    """Response by query id, for every query; rows about other queries are passed over.

    Thoughts before a response (`split_thoughts`) are left out. Raises ``ValueError`` naming file and line for a row
    that cannot be read or answers a query twice, and the first `SHOWN` of the queries that are not answered.
    """
    by_text = {prompt_key(query.prompt): query.id for query in queries if len(query.prompt) == 1}
    ids = {query.id for query in queries}
    answers: dict[str, tuple[str, int]] = {}
    unread: Counter[str] = Counter()

    def parse(row: Row, line: int) -> None:
        key = row.get("query_id")
        if key is None:
            name, asked = prompt_cell(row)
            key = by_text.get(prompt_key(turn("user", any_text(asked, name))))
        elif not isinstance(key, str):
            raise RecordError("query_id", f"expected text, got {short(key)}")
        column = response_column(row)
        text = any_text(row[column], column)
        unread.update(unread_columns(row, column, "query_id", *QUERY_FIELDS, MORE_OF_QUERY))
        if key in ids:
            thoughts, text = split_thoughts(text)
            if thoughts and not text.strip():
                raise RecordError(column, f"the response to {key!r} ends with the model's thoughts; give its answer")
            known, first = answers.setdefault(key, (text, line))
            if known != text:
                raise RecordError(column, f"{key!r} is answered twice, and differently: line {first}; keep one")

    for _ in Intake(strict=True).rows(path, parse, key=lambda _: None):
        pass
    show_unread(path, unread)
    found = {key: text for key, (text, _) in answers.items()}
    check_complete(queries, found, path.name)
    return found


def prompt_cell(row: Row) -> tuple[str, Any]:
    """Column and content of the prompt; an ``instruction`` and its ``input`` are one, with a blank line between them.

    Raises `RecordError` for a row without a prompt, with two that differ, and with an input that belongs to no
    instruction.
    """
    name = _column(row, QUERY_FIELDS)
    more = row.get(MORE_OF_QUERY)
    if more is None or (isinstance(more, str) and not more.strip()):
        return name, row[name]
    if name != "instruction" or not isinstance(row[name], str) or not isinstance(more, str):
        raise RecordError(MORE_OF_QUERY, f"expected nothing beside {name}, got {short(more)}; write both in {name}")
    return name, f"{row[name]}\n\n{more}"


def response_column(row: Row) -> str:
    """The column that is the response. Raises `RecordError` for none, and for two that differ."""
    text, asked = row.get("text"), row.get("instruction")
    others = [name for name in TEXT_FIELDS if name != "text" and isinstance(row.get(name), str) and row[name].strip()]
    if isinstance(text, str) and isinstance(asked, str) and asked.strip() and others and folded(asked) in folded(text):
        return _column(row, others)  # Alpaca's text holds the whole prompt
    return _column(row, TEXT_FIELDS)


def _column(row: Row, names: Sequence[str]) -> str:
    """The first of ``names`` that is filled, else the first that is there; all that are filled must hold the same."""
    there = [name for name in names if row.get(name) is not None]
    if not there:
        raise RecordError(" or ".join(names), "missing")
    filled = [name for name in there if not isinstance(row[name], str) or row[name].strip()] or there
    if other := next((name for name in filled if row[name] != row[filled[0]]), None):
        raise RecordError(f"{filled[0]} and {other}", "both are there, and they differ; keep the one to be read")
    return filled[0]


def unread_columns(row: Row, *read: str) -> list[str]:
    """Names of the row's filled columns but those in ``read``."""
    return [name for name, value in row.items() if name not in read and value not in (None, "")]


def show_unread(path: Path, columns: Mapping[str, int]) -> None:
    """Log which columns of a file were not read, and in how many rows there is something in them."""
    if columns:
        named = ", ".join(f"{name:.80} ({count} rows)" for name, count in list(columns.items())[:SHOWN])
        log.info("%s: columns that are not read: %s%s", path.name, named, " ..." if len(columns) > SHOWN else "")


def check_complete(queries: Sequence[BankQuery], answers: Mapping[str, str], source: str) -> None:
    """Raise ``ValueError`` where a query has no answer."""
    missing = [query for query in queries if query.id not in answers]
    if missing:
        named = ", ".join(f"{query.id} ({short(query_of(query.prompt))})" for query in missing[:SHOWN])
        named += " ..." if len(missing) > SHOWN else ""
        raise ValueError(f"{source}: {len(missing)} of {len(queries)} queries have no response: {named}")


def with_author(bank: Bank, author: str, answers: Mapping[str, str]) -> Bank:
    """The bank with one more author. Raises ``ValueError`` for a name that is taken, blank or too long."""
    name = author.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise ValueError(f"author: expected a name of 1 to {MAX_NAME} characters, got {short(author)}")
    if name in bank.responses:
        raise ValueError(f"author: {name!r} is already in bank {bank.name!r}; give another name")
    return replace(bank, responses={**bank.responses, name: dict(answers)})
