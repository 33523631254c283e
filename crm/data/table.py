"""A table of one's own: CSV, TSV, JSON Lines or Parquet with named columns.

A field is read from the column that ``columns`` names for it, or else from the column of its own name. A table has one
of two layouts: `VOTES`, two responses and a winner, or `PAIRS`, a chosen and a rejected response. Only the required
fields must have a column. Responses and prompt are plain text (one turn) or a list of messages; ``id`` is text or a
whole number, or else a digest of the row. Columns that nothing is read from are counted (``unread_column_<name>``).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from crm.config import escaped, hydra_text
from crm.data.fields import asked, criteria_cell, identity, optional_text, records_of, require, turns
from crm.data.public.pairs import chosen_pair
from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.rows import data_files, printable
from crm.schema import SIDES, Preference, RecordError, folded


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
"""Rows whose keys are the columns of a file."""
MOST = 40
"""Columns that a sentence names, and unread ones that are counted."""
KNOWN = {
    **dict.fromkeys(("a", "model_a", "response_a", "left"), "a"),
    **dict.fromkeys(("b", "model_b", "response_b", "right"), "b"),
    **dict.fromkeys(("tie", "draw", "both"), "tie"),
    **dict.fromkeys(("tie (bothbad)", "tie (both bad)", "both_bad", "both bad", "bothbad"), "tie"),
}
"""Cells of a winner column."""
MAX_CELLS = 12
"""Unknown cells that one sentence maps; a column with more of them is most likely not the winner's."""
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d+)?")
_PLAIN_KEY = re.compile(r"(?!null$)[a-z]\w*( \w+)*|-?\d+(\.\d+)?", re.ASCII | re.IGNORECASE)


def first_rows(file: Path) -> list[dict[str, Any]]:
    """Some rows, as many as are objects."""
    return [row for _, row in islice(formats.rows(file), LOOK_AHEAD) if isinstance(row, dict)]


def read(
    path: Path, reading: Intake, *, columns: Mapping[str, str], winners: Mapping[str, str]
) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder; ids are unique in each file.

    ``columns`` maps our fields to the file's columns, ``winners`` cells of the winner column to ``a``, ``b``, ``tie``.
    """
    for field in columns:
        if field not in FIELDS:
            near = _nearest(field, FIELDS)
            raise ValueError(f"data.columns.{field}: no such field{near}; there are {', '.join(FIELDS)}")
    repeats: Counter[str] = Counter()
    for file in data_files(path):
        first = first_rows(file)
        names = list(dict.fromkeys(name for row in first for name in row))
        layout = _layout(columns, winners, names)
        used = _columns(file, columns, layout, names)
        reading.counts.update(
            {f"unread_column_{printable(name)}": 1 for name in [*names][:MOST] if name not in used.values()}
        )
        sides = None
        if layout is VOTES:
            cells = [row.get(used["winner"]) for row in first]
            sides = Winners(winners, used["winner"], (used["response_a"], used["response_b"]), cells)
        null = "an empty cell" if file.name.lower().removesuffix(".gz").endswith((".csv", ".tsv")) else "null"

        def parse(row: dict[str, Any], line: int) -> Preference:
            try:
                require(row, [used[field] for field in layout.required], null)  # noqa: B023 - used at once
                return _record(row, used, layout, sides, repeats)  # noqa: B023 - used at once
            except RecordError:
                raise
            except ValueError as error:  # the file as a whole cannot be trusted
                raise ValueError(f"{file}:{line}: {error}") from None  # noqa: B023 - used at once

        yield from records_of(file, reading, parse)


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


def _columns(file: Path, given: Mapping[str, str], layout: Layout, names: list[str]) -> dict[str, str]:
    """Field to column: as given, or else of the field's own name, unless that column was given to another field."""
    used = {field: field for field in layout.fields if field not in given.values()} | dict(given)
    for field in layout.required:
        if field not in used:
            raise ValueError(f"data.columns gives the column {field!r} to another field; add data.columns.{field}=...")
    for field in dict.fromkeys((*given, *layout.required)) if names else ():
        if used[field] not in names:
            raise ValueError(
                f"{file}: no column {used[field]!r}{_nearest(used[field], names)} for {field}; name one of the file's "
                f"with data.columns.{field}=...; it has {', '.join(map(printable, names[:MOST]))}"
            )
    return used


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
    return chosen_pair(
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


class Winners:
    """Who won, as one winner column ``field`` spells it: ``a``, ``b`` or ``tie``.

    Cells are compared without case and outer white space. What ``mapped`` (``data.winners``) says decides; then
    `KNOWN`, the names of the response ``columns`` A and B, and the row's own authors. ``1`` and ``2`` are known where
    the column's ``first`` cells hold no other number.
    """

    def __init__(
        self, mapped: Mapping[str, str], field: str, columns: tuple[str, str], first: Iterable[Any] = ()
    ) -> None:
        for cell, side in mapped.items():
            if side not in SIDES:
                raise ValueError(f"data.winners={{{cell}: {side}}}: {side!r} is not one of {', '.join(SIDES)}")
        self._field = field
        self._mapped = {_key(cell): side for cell, side in mapped.items()}
        self._by_column = {_key(name): side for name, side in zip(columns, "ab", strict=True)}
        self._first = dict.fromkeys(_key(cell) for cell in first if cell is not None)
        numbers = set(filter(_NUMBER.fullmatch, (*self._first, *self._mapped)))
        self._numerals = {"1": "a", "2": "b"} if numbers <= {"1", "2"} else {}

    def side(self, cell: Any, authors: tuple[str | None, str | None]) -> str:
        """The side of one cell.

        Raises `RecordError` for a cell that is not known, and ``ValueError`` for a number that is not mapped: then
        nobody knows what the other numbers mean.
        """
        if isinstance(cell, (list, dict)):
            raise RecordError(self._field, "expected a text or a number, got a list")
        if not (key := _key(cell)):
            raise RecordError(self._field, "blank")
        if side := self._mapped.get(key):
            return side
        readings = {KNOWN.get(key), self._by_column.get(key), self._numerals.get(key)}
        readings |= {side for author, side in zip(authors, "ab", strict=True) if author and _key(author) == key}
        found = [side for side in readings if side is not None]
        if len(found) == 1:
            return found[0]
        if found:
            raise RecordError(self._field, f"{key!r} can be read in two ways; map it: {self._typed([key])}")
        if _NUMBER.fullmatch(key):
            raise ValueError(f"{self._field}: {self._advice(key)}")
        raise RecordError(self._field, self._advice(key, named=any(authors)))

    def _advice(self, key: str, named: bool = False) -> str:
        known = {"", *self._mapped, *KNOWN, *self._by_column, *self._numerals}
        unknown = [key] if named else [key, *(cell for cell in self._first if cell not in known and cell != key)]
        if len(unknown) > MAX_CELLS:
            return (
                f"{printable(key, 40)!r} is not known, nor are {len(unknown) - 1} other cells; if they name models, "
                "name the columns that say whose each response is: data.columns.author_a=... "
                "data.columns.author_b=...; if not, name another column: data.columns.winner=..."
            )
        shown = ", ".join(repr(printable(cell, 40)) for cell in unknown)
        return f"{shown}: not known; say what each means, {', '.join(SIDES)}, such as {self._typed(sorted(unknown))}"

    def _typed(self, cells: list[str]) -> str:
        """The word of a command line that maps these cells as well as those mapped so far, quoted for the shell."""
        whole = self._mapped | dict(zip(cells, cycle(SIDES), strict=False))
        if all(map(_PLAIN_KEY.fullmatch, whole)):
            value = "{" + ", ".join(f"{cell}: {side}" for cell, side in whole.items()) + "}"
        else:
            value = "[" + ",".join(hydra_text(escaped(f"{cell}={side}")) for cell, side in whole.items()) + "]"
        return shlex.quote(f"data.winners={value}")


def _key(cell: Any) -> str:
    key = folded(format(cell, "g") if isinstance(cell, float) else str(cell))
    return f"{float(key):.15g}" if _NUMBER.fullmatch(key) else key
