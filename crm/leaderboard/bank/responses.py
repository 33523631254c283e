"""Files of queries and responses, in any format that `crm.io.rows` reads.

A row names its query by ``query_id``, text or a whole number, or repeats its text (``query``, ``instruction`` with
``input``, or ``prompt``); the response is ``output``, ``response`` or ``text``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from crm.data.fields import any_text, identity
from crm.data.public.banks import UNTAGGED
from crm.endpoint.replies import split_thoughts
from crm.io.draws import turn
from crm.io.rows import Intake
from crm.leaderboard.bank.bank import BankQuery
from crm.schema import RecordError, prompt_key, query_of, short

QUERY_FIELDS = ("query", "instruction", "prompt")
TEXT_FIELDS = ("output", "response", "text")
"""``text`` last: in Alpaca's files it holds the whole prompt."""
Row = Mapping[str, Any]
SHOWN = 10
"""Missing queries that a message names."""


def read_queries(path: Path) -> tuple[BankQuery, ...]:
    """Rows with a query, and ``topic`` and ``id`` where known; equal queries are one. Errors name file and line."""
    found: dict[str, BankQuery] = {}
    keys: dict[str, str] = {}

    def parse(row: Row, _line: int) -> None:
        column, text = prompt_cell(row)
        if not any_text(text, column).strip():
            raise RecordError(column, "blank")
        prompt = turn("user", text)
        key = prompt_key(prompt)
        given = _given(row, "id")
        name = found.setdefault(key, BankQuery(given or key, prompt, row.get("topic") or UNTAGGED)).id
        if given not in (None, name) or keys.setdefault(name, key) != key:
            why = f"{given!r} has the query of {name!r}" if given != name else f"{name!r} has two queries"
            raise RecordError("id", f"{why}; a query has one id of its own")

    list(Intake(strict=True).rows(path, parse))
    return tuple(found.values())


def read_responses(path: Path, queries: Sequence[BankQuery]) -> dict[str, str]:
    """Response by query id, for every query; rows about other queries are passed over.

    Thoughts before a response (`split_thoughts`) are left out. Raises ``ValueError`` naming file and line for a row
    that cannot be read or answers a query twice, and the first `SHOWN` of the queries that are not answered.
    """
    by_text = {prompt_key(query.prompt): query.id for query in queries if len(query.prompt) == 1}
    ids = {query.id for query in queries}
    answers: dict[str, str] = {}

    def parse(row: Row, _line: int) -> None:
        key = _given(row, "query_id")
        if key is None or (key not in ids and any(isinstance(row.get(name), str) for name in QUERY_FIELDS)):
            name, asked = prompt_cell(row)
            key = by_text.get(prompt_key(turn("user", any_text(asked, name))))
        column = filled_column(row, TEXT_FIELDS)
        text = any_text(row[column], column)
        if key in ids:
            thoughts, text = split_thoughts(text)
            if thoughts and not text.strip():
                raise RecordError(column, f"the response to {key!r} ends with the model's thoughts; give its answer")
            if answers.setdefault(key, text) != text:
                raise RecordError(column, f"{key!r} is answered twice, and differently; keep one")

    list(Intake(strict=True).rows(path, parse))
    check_complete(queries, answers, path.name)
    return answers


def _given(row: Row, field: str) -> str | None:
    """An id given as text or as a whole number; None where there is none."""
    return None if row.get(field) in (None, "") else identity(row[field], field, Counter())


def prompt_cell(row: Row, names: Sequence[str] = QUERY_FIELDS) -> tuple[str, Any]:
    """Column, of ``names``, and content of the prompt; ``instruction`` and ``input`` are joined by a blank line."""
    name = filled_column(row, names)
    more = row.get("input") if name == "instruction" else None
    return name, f"{row[name]}\n\n{more}" if isinstance(more, str) and more.strip() else row[name]


def filled_column(row: Row, names: Sequence[str]) -> str:
    """The first of ``names`` that is filled, else the first that is there. Raises `RecordError` for none."""
    there = [name for name in names if row.get(name) is not None]
    if not there:
        raise RecordError(" or ".join(names), "missing")
    return next((name for name in there if str(row[name]).strip()), there[0])


def check_complete(queries: Sequence[BankQuery], answers: Mapping[str, str], source: str) -> None:
    """Raise ``ValueError`` where a query has no answer."""
    if missing := [query for query in queries if query.id not in answers]:
        named = ", ".join(f"{query.id} ({short(query_of(query.prompt))})" for query in missing[:SHOWN])
        named += " ..." if len(missing) > SHOWN else ""
        raise ValueError(f"{source}: {len(missing)} of {len(queries)} queries have no response: {named}")
