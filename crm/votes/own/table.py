"""A table of one's own. In: CSV, TSV, JSON Lines or Parquet with named columns. Out: `Preference` records.

A field is read from the column that ``columns`` names for it, or else from the column of its own name. Required are
`REQUIRED`; the others may lack a column, and their cells may be empty. Cells:

- ``prompt``, ``response_a``, ``response_b``: plain text (one turn) or a list of messages (or its JSON text).
- ``winner``: see `crm.votes.own.votes`.
- ``criteria_a``, ``criteria_b``: a list of texts (or its JSON text), or text with one criterion a line; text of one
  line is split at its semicolons. A single criterion that holds a semicolon is written as a list.
- ``id``: text or a whole number; where there is none, a digest of the row's fields, so an exact copy is a duplicate.
- ``topic``, ``author_a``, ``author_b``, ``reason``: text.

Columns that nothing is read from are counted, each once, as ``unread_column_<name>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.rows import data_files, printable
from crm.schema import Preference, RecordError, texts
from crm.votes.own.votes import Votes
from crm.votes.public.pairs import asked, identity, optional_text, turns
from crm.votes.public.published import require, string_list

REQUIRED = ("prompt", "response_a", "response_b", "winner")
OPTIONAL = ("id", "criteria_a", "criteria_b", "topic", "author_a", "author_b", "reason")
FIELDS = (*REQUIRED, *OPTIONAL)
LOOK_AHEAD = 100
"""Rows read before the first record, to learn a file's columns; only JSON Lines can have others later on."""
MAX_COUNTED = 100
"""Names of columns that are shown or counted."""


def read(
    path: Path, reading: Intake, *, columns: Mapping[str, str], winners: Mapping[str, str]
) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder; ids are unique in each file.

    ``columns`` maps our fields to the file's columns, ``winners`` cells of the winner column to ``a``, ``b``, ``tie``.
    Raises ``ValueError`` for a field that there is not and for a column that the file does not have.
    """
    used = _columns(columns)
    votes = Votes(winners, used["winner"], (used["response_a"], used["response_b"]))
    for file in data_files(path):
        first = [row for _, row in islice(formats.rows(file), LOOK_AHEAD) if isinstance(row, dict)]
        names = list(dict.fromkeys(name for row in first for name in row))
        if names:
            _check(file, columns, used, names)
        for name in [name for name in names if name not in used.values()][:MAX_COUNTED]:
            reading.counts[f"unread_column_{printable(name)}"] = 1
        votes.look_ahead(row.get(used["winner"]) for row in first)
        yield from _records(file, reading, used, votes)


def _columns(given: Mapping[str, str]) -> dict[str, str]:
    """Field to column: as given, or else of the field's own name, unless that column was given to another field."""
    for field in given:
        if field not in FIELDS:
            raise ValueError(
                f"data.columns.{field}: no such field{_nearest(field, FIELDS)}; there are {', '.join(FIELDS)}"
            )
    used = {field: field for field in FIELDS if field not in given.values()} | dict(given)
    for field in REQUIRED:
        if field not in used:
            raise ValueError(f"data.columns gives the column {field!r} to another field; add data.columns.{field}=...")
    return used


def _check(file: Path, given: Mapping[str, str], used: dict[str, str], names: list[str]) -> None:
    shown = ", ".join(printable(name) for name in names[:MAX_COUNTED])
    for field in dict.fromkeys((*given, *REQUIRED)):
        if used[field] not in names:
            nearest = _nearest(used[field], names)
            raise ValueError(
                f"{file}: no column {used[field]!r}{nearest} for {field}; "
                f"name one of the file's with data.columns.{field}=...; it has {shown}"
            )


def _nearest(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, words, n=1)
    return f" (nearest is {printable(close[0])!r})" if close else ""


def _records(file: Path, reading: Intake, used: dict[str, str], votes: Votes) -> Iterator[Preference]:
    def parse(row: dict[str, Any], line: int) -> tuple[Preference, dict[str, Any]]:
        try:
            return _record(row, used, votes), row
        except RecordError:
            raise
        except ValueError as error:  # the file as a whole cannot be trusted
            raise ValueError(f"{file}:{line}: {error}") from None

    for record, row in reading.rows(file, parse, key=lambda parsed: parsed[0].id):
        given = [row.get(used.get(field, "")) for field in ("criteria_a", "criteria_b")]
        reading.counts["criteria_given_as_text"] += any(isinstance(cell, str) and cell.strip() != "" for cell in given)
        reading.counts["ties"] += record.winner == "tie"
        yield record


def _record(row: dict[str, Any], used: dict[str, str], votes: Votes) -> Preference:
    require(row, tuple(used[field] for field in REQUIRED))
    prompt = asked(row[used["prompt"]], used["prompt"])
    a, b = (turns(row[used[field]], used[field], "assistant") for field in ("response_a", "response_b"))
    own = {field: (row.get(column), column) for field, column in used.items()}
    none = (None, "")
    topic, author_a, author_b, reason = (
        optional_text(*own.get(field, none)) for field in ("topic", "author_a", "author_b", "reason")
    )
    for_a, for_b = (_criteria(*own.get(field, none)) for field in ("criteria_a", "criteria_b"))
    side = votes.side(own["winner"][0], (author_a, author_b))
    content = (prompt, a, b, side, for_a, for_b, topic, author_a, author_b, reason)
    given, column = own.get("id", none)
    given = None if given == "" else given
    name = identity(given, column, content)
    return Preference(
        id=f"table-{name}" if given is None else name,
        prompt=prompt,
        response_a=a,
        response_b=b,
        winner=side,
        criteria_a=for_a,
        criteria_b=for_b,
        topic=topic,
        author_a=author_a,
        author_b=author_b,
        source="table",
        reason=reason,
    )


def _criteria(value: Any, column: str) -> tuple[str, ...]:
    if not isinstance(value, str):
        return texts(value, column)
    if value.strip().startswith("["):
        return string_list(value, column)
    pieces = value.strip().split("\n" if "\n" in value.strip() else ";")
    return texts([piece for piece in pieces if piece.strip()], column)
