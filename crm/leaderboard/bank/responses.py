"""One more model for a bank. In: a file of its responses. Out: a text for every query, or a list of what is missing.

A row names its query by ``query_id``, or repeats its text (``query``, ``instruction`` or ``prompt``); the response is
``text``, ``output`` or ``response``. Any format that `crm.io.rows` reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crm.io.chat.replies import split_thoughts
from crm.io.intake import Intake
from crm.io.untrusted import Limits
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.schema import RecordError, prompt_key, query_of, short
from crm.votes.sampling import turn

QUERY_FIELDS = ("query", "instruction", "prompt")
TEXT_FIELDS = ("text", "output", "response")
SHOWN = 10
"""Missing queries that a message names."""
MAX_NAME = 80


def read_responses(path: Path, queries: Sequence[BankQuery], limits: Limits | None = None) -> dict[str, str]:
    """Response by query id, for every query; rows about other queries are passed over.

    Thoughts before a response (`split_thoughts`) are left out. Raises ``ValueError`` naming file and line for a row
    that cannot be read or answers a query twice, and the queries that are not answered, the first `SHOWN` of them in
    words; and a file beyond ``limits``, which belong wherever a stranger sends the file.
    """
    by_text = {prompt_key(query.prompt): query.id for query in queries if len(query.prompt) == 1}
    ids = {query.id for query in queries}
    answers: dict[str, str] = {}

    def parse(row: dict[str, Any], _line: int) -> tuple[str | None, str]:
        key = row.get("query_id")
        if key is None:
            text = _first(row, QUERY_FIELDS)
            return by_text.get(prompt_key(turn("user", text))), _first(row, TEXT_FIELDS)
        if not isinstance(key, str):
            raise RecordError("query_id", f"expected text, got {short(key)}")
        return key, _first(row, TEXT_FIELDS)

    for query_id, text in Intake(strict=True).rows(path, parse, limits=limits):
        if query_id not in ids or query_id is None:
            continue
        thoughts, text = split_thoughts(text)
        if thoughts and not text.strip():
            raise ValueError(
                f"{path.name}: the response to {query_id!r} ends with the model's thoughts; give its answer"
            )
        if query_id in answers and answers[query_id] != text:
            raise ValueError(f"{path.name}: {query_id!r} is answered twice, and differently; keep one answer")
        answers[query_id] = text
    check_complete(queries, answers, path.name)
    return answers


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


def without_author(bank: Bank, author: str) -> Bank:
    """The bank without one of its authors, who is not the baseline."""
    return replace(bank, responses={name: texts for name, texts in bank.responses.items() if name != author})


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if isinstance(row.get(name), str):
            return str(row[name])
    raise RecordError(" or ".join(names), "missing or not text")
