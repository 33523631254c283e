"""A table of one's own: CSV, TSV, JSON Lines or Parquet with named columns.

A field is read from the column that ``columns`` names for it, or else from the column of its own name. A table has one
of two layouts: `VOTES`, two responses and a winner, or `PAIRS`, a chosen and a rejected response. Fields that are not
required may lack a column, and their cells may be empty. Cells:

- ``prompt``, ``response_a``, ``response_b``, ``chosen``, ``rejected``: plain text (one turn) or a list of messages.
- ``winner``: see `crm.votes.own.winners`.
- ``criteria_a``, ``criteria_b``; ``criteria`` (of who chose) and ``criteria_rejected``: see `fields.criteria_cell`.
- ``id``: text or a whole number; where there is none, a digest of the row's fields, numbered where rows are equal: five
  people who vote alike are five votes.
- ``topic``, ``author_a``, ``author_b``, ``author_chosen``, ``author_rejected``, ``reason``: text.

Columns that nothing is read from are counted, each once, as ``unread_column_<name>``; so are pairs of equal responses,
which are left out (``dropped_identical_responses``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.rows import data_files, printable
from crm.schema import Preference, RecordError, check_responses
from crm.votes.fields import asked, criteria_cell, identity, optional_text, require, turns
from crm.votes.own.winners import Winners
from crm.votes.public.pairs import chosen_pair


class Layout(NamedTuple):
    """The fields of a table."""

    required: tuple[str, ...]
    criteria: tuple[str, str]
    """Of the first response in ``required``, and of the second."""
    authors: tuple[str, str]

    @property
    def fields(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.required, "id", *self.criteria, "topic", *self.authors, "reason")


VOTES = Layout(("prompt", "response_a", "response_b", "winner"), ("criteria_a", "criteria_b"), ("author_a", "author_b"))
PAIRS = Layout(
    ("prompt", "chosen", "rejected"), ("criteria", "criteria_rejected"), ("author_chosen", "author_rejected")
)
FIELDS = tuple(dict.fromkeys((*VOTES.fields, *PAIRS.fields)))
LOOK_AHEAD = 100
"""Rows read before the first record, to learn what a file's columns hold."""
MAX_COUNTED = 100
"""Names of columns that are shown or counted."""


def read(
    path: Path, reading: Intake, *, columns: Mapping[str, str], winners: Mapping[str, str]
) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder; ids are unique in each file.

    ``columns`` maps our fields to the file's columns, ``winners`` cells of the winner column to ``a``, ``b``, ``tie``.
    Raises ``ValueError`` for a field that there is not and for a column that the file does not have.
    """
    for field in columns:
        if field not in FIELDS:
            nearest = _nearest(field, FIELDS)
            raise ValueError(f"data.columns.{field}: no such field{nearest}; there are {', '.join(FIELDS)}")
    repeats: Counter[str] = Counter()
    for file in data_files(path):
        numbered = formats.rows(file)
        ahead = list(islice(numbered, LOOK_AHEAD))
        first = [row for _, row in ahead if isinstance(row, dict)]
        names = list(dict.fromkeys(name for row in first for name in row))
        layout = _layout(columns, winners, names)
        used = _columns(columns, layout)
        if names:
            _check(file, columns, used, names, layout)
        for name in [name for name in names if name not in used.values()][:MAX_COUNTED]:
            reading.counts[f"unread_column_{printable(name)}"] = 1
        sides = None
        if layout is VOTES:
            cells = [row.get(used["winner"]) for row in first]
            sides = Winners(winners, used["winner"], (used["response_a"], used["response_b"]), cells)
        null = "an empty cell" if file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")) else "null"

        def parse(row: dict[str, Any], line: int) -> tuple[Preference, dict[str, Any]]:
            try:
                require(row, tuple(used[field] for field in layout.required), null)  # noqa: B023 - used at once
                record = _record(row, used, layout, sides, repeats)  # noqa: B023 - used at once
                check_responses(record)
            except RecordError:
                raise
            except ValueError as error:  # the file as a whole cannot be trusted
                raise ValueError(f"{file}:{line}: {error}") from None  # noqa: B023 - used at once
            return record, row

        for record, row in reading.take(file, chain(ahead, numbered), parse, key=lambda parsed: parsed[0].id):
            given = [row.get(used.get(field, "")) for field in layout.criteria]
            reading.counts["criteria_given_as_text"] += any(isinstance(cell, str) and cell.strip() for cell in given)
            if record.response_a == record.response_b:
                reading.counts["dropped_identical_responses"] += 1
            else:
                reading.counts["ties"] += record.winner == "tie"
                yield record


def _layout(given: Mapping[str, str], winners: Mapping[str, str], names: list[str]) -> Layout:
    """As the named columns say; where they say nothing, `PAIRS` for a file that has its columns and no winner."""
    of_votes, of_pairs = (
        [field for field in given if field in set(one.fields) - set(other.fields)]
        for one, other in ((VOTES, PAIRS), (PAIRS, VOTES))
    )
    if of_votes and of_pairs:
        raise ValueError(
            f"data.columns: {of_pairs[0]} is of a table of chosen and rejected responses, {of_votes[0]} of one with a "
            f"winner; name {', '.join(PAIRS.required)}, or {', '.join(VOTES.required)}"
        )
    pairs = bool(of_pairs) or (not of_votes and {"chosen", "rejected"} <= set(names) and "winner" not in names)
    if pairs and winners:
        raise ValueError("data.winners: a table of chosen and rejected responses says who won; leave it out")
    return PAIRS if pairs else VOTES


def _columns(given: Mapping[str, str], layout: Layout) -> dict[str, str]:
    """Field to column: as given, or else of the field's own name, unless that column was given to another field."""
    used = {field: field for field in layout.fields if field not in given.values()} | dict(given)
    for field in layout.required:
        if field not in used:
            raise ValueError(f"data.columns gives the column {field!r} to another field; add data.columns.{field}=...")
    return used


def _check(file: Path, given: Mapping[str, str], used: dict[str, str], names: list[str], layout: Layout) -> None:
    shown = ", ".join(printable(name) for name in names[:MAX_COUNTED])
    for field in dict.fromkeys((*given, *layout.required)):
        if used[field] not in names:
            raise ValueError(
                f"{file}: no column {used[field]!r}{_nearest(used[field], names)} for {field}; "
                f"name one of the file's with data.columns.{field}=...; it has {shown}"
            )


def _nearest(word: str, words: Iterable[str]) -> str:
    close = get_close_matches(word, words, n=1)
    return f" (nearest is {printable(close[0])!r})" if close else ""


def _record(
    row: dict[str, Any], used: dict[str, str], layout: Layout, sides: Winners | None, repeats: Counter[str]
) -> Preference:
    cells = {field: (row.get(column), column) for field, column in used.items()}
    none = (None, "")
    prompt = asked(*cells["prompt"])
    first, second = (turns(*cells[field], "assistant") for field in layout.required[1:3])
    topic, *authors, reason = (optional_text(*cells.get(field, none)) for field in ("topic", *layout.authors, "reason"))
    of_first, of_second = (criteria_cell(*cells.get(field, none)) for field in layout.criteria)
    side = sides.side(cells["winner"][0], (authors[0], authors[1])) if sides else "a"
    content = (prompt, first, second, side, of_first, of_second, topic, *authors, reason)
    given, column = cells.get("id", none)
    given = None if given == "" else given
    name = identity(given, column, repeats, content)
    record = chosen_pair(
        f"table-{name}" if given is None else name,
        prompt,
        first,
        second,
        first=None if layout is PAIRS else True,
        source="table",
        topic=topic,
        authors=(authors[0], authors[1]),
        criteria=of_first,
        criteria_rejected=of_second,
        reason=reason,
        winner=side,
    )
    return record
