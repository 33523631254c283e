"""A table of one's own: CSV, TSV, JSON Lines or Parquet with named columns.

A field is read from the column that ``columns`` names for it, or else from the column of its own name. A table has one
of two layouts: `VOTES`, two responses and a winner, or `PAIRS`, a chosen and a rejected response. Only the required
fields must have a column. Responses and prompt are as in `crm.data.fields.pair_parts`; ``id`` is text or a whole
number, or else a digest of the row. Columns that nothing is read from are counted (``unread_column_<name>``).
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

from crm.config import hydra_value, nearest
from crm.data.fields import criteria_cell, identity, optional_text, pair_parts, records_of, require, under
from crm.data.public.pairs import chosen_pair
from crm.io import rows as formats
from crm.io.rows import Intake, data_files, printable
from crm.schema import SIDES, Preference, RecordError, Side, folded


class Layout(NamedTuple):
    """The fields of a table."""

    responses: tuple[str, str]
    criteria: tuple[str, str]
    """Of the first response, and of the second."""
    authors: tuple[str, str]
    winner: tuple[str, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All of them."""
        more = ("id", *self.criteria, "topic", *self.authors, "reason", "system")
        return ("prompt", *self.responses, *self.winner, *more)

    @property
    def required(self) -> tuple[str, ...]:
        """Those that need a column; conversations that were compared hold their prompt."""
        return self.fields[:4] if self.winner else self.responses


VOTES = Layout(("response_a", "response_b"), ("criteria_a", "criteria_b"), ("author_a", "author_b"), ("winner",))
PAIRS = Layout(("chosen", "rejected"), ("criteria", "criteria_rejected"), ("author_chosen", "author_rejected"))
LOOK_AHEAD = 100
"""Rows whose keys are the columns of a file."""
MOST = 40
"""Columns that a sentence names, and unread ones that are counted."""
KNOWN: dict[str, Side] = {
    **dict.fromkeys(("a", "model_a", "response_a", "left"), "a"),
    **dict.fromkeys(("b", "model_b", "response_b", "right"), "b"),
    **dict.fromkeys(("tie", "draw", "both"), "tie"),
    **dict.fromkeys(("tie (bothbad)", "tie (both bad)", "both_bad", "both bad", "bothbad"), "tie"),
}
"""Cells of a winner column."""
MOST_CELLS = 12
"""Unknown cells that one sentence maps."""
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d+)?")


def first_rows(file: Path) -> list[dict[str, Any]]:
    """Some rows, as many as are objects."""
    return [row for _, row in islice(formats.rows(file), LOOK_AHEAD) if isinstance(row, dict)]


def read(
    path: Path, reading: Intake, *, columns: Mapping[str, str], winners: Mapping[str, str], source: str = "table"
) -> Iterator[Preference]:
    """Records of one file, or of every data file of a folder.

    ``columns`` maps our fields to the file's columns, ``winners`` cells of the winner column to ``a``, ``b``, ``tie``.
    ``trl`` as the ``source`` are pairs, with ids of their own.
    """
    repeats: Counter[str] = Counter()
    for file in data_files(path):
        first = first_rows(file)
        names = list(dict.fromkeys(name for row in first for name in row))
        layout = PAIRS if source == "trl" else _layout(columns, winners, names)
        used = _columns(file, columns, layout, names)
        reading.counts.update(
            {f"unread_column_{printable(name)}": 1 for name in [*names][:MOST] if name not in used.values()}
        )
        sides = None
        if layout is VOTES:
            cells = [row.get(used["winner"]) for row in first]
            sides = Winners(winners, used["winner"], (used["response_a"], used["response_b"]), cells)

        def parse(row: dict[str, Any], _line: int) -> Preference:
            require(row, [used[field] for field in layout.required])  # noqa: B023 - used at once
            return _record(row, used, layout, sides, repeats, source)  # noqa: B023 - used at once

        yield from records_of(file, reading, parse)


trl = partial(read, columns={}, winners={}, source="trl")
"""Preferences as TRL's trainers take them (https://huggingface.co/docs/trl/dataset_formats), and `PAIRS` has more."""


def _layout(given: Mapping[str, str], winners: Mapping[str, str], names: list[str]) -> Layout:
    """`PAIRS` where a field of its own is named, or where a file has its columns and no winner."""
    of_votes, of_pairs = ({*one.fields} - {*other.fields} for one, other in ((VOTES, PAIRS), (PAIRS, VOTES)))
    usual = {"chosen", "rejected"} <= {*names} and "winner" not in names
    layout = PAIRS if of_pairs & {*given} or (usual and not of_votes & {*given}) else VOTES
    for field in given:
        if field not in layout.fields:
            near = nearest(field, layout.fields)
            raise ValueError(f"data.columns.{field}: no such field, there are {', '.join(layout.fields)}{near}")
    if layout is PAIRS and winners:
        raise ValueError("data.winners: a table of chosen and rejected responses says who won; leave it out")
    return layout


def _columns(file: Path, given: Mapping[str, str], layout: Layout, names: list[str]) -> dict[str, str]:
    """Field to column: as given, or else of the field's own name, unless that column was given to another field."""
    used = {field: field for field in layout.fields if field not in given.values()} | dict(given)
    for field in layout.required:
        if field not in used:
            raise ValueError(f"data.columns gives the column {field!r} to another field; write {_mapped(given, field)}")
    for field in dict.fromkeys((*given, *layout.required)) if names else ():
        if used[field] not in names:
            why = f"no column {used[field]!r} for {field}; it has {', '.join(map(printable, names[:MOST]))}"
            near = printable(nearest(used[field], names))
            raise RecordError(str(file), why, f"; name one with data.name=table {_mapped(given, field)}{near}")
    return used


def _mapped(given: Mapping[str, str], field: str) -> str:
    """The word of a command line that names a column for one more field."""
    return shlex.quote(f"data.columns={hydra_value({**given, field: '...'})}")


def _record(
    row: dict[str, Any], used: dict[str, str], layout: Layout, sides: Winners | None, repeats: Counter[str], source: str
) -> Preference:
    for name in ("image", "images") if layout is PAIRS else ():
        if row.get(name):
            raise RecordError(name, "the row has images; only text is read")
    cells = {field: (row.get(column), column) for field, column in used.items()}
    none = (None, "")
    prompt, first, second = pair_parts(
        cells.get("prompt", (None, "prompt")), *(cells[field] for field in layout.responses)
    )
    prompt = under(optional_text(*cells.get("system", none)), prompt)
    topic, *authors, reason = (optional_text(*cells.get(field, none)) for field in ("topic", *layout.authors, "reason"))
    of_first, of_second = (criteria_cell(*cells.get(field, none)) for field in layout.criteria)
    side = sides.side(cells["winner"][0], (authors[0], authors[1])) if sides else "a"
    content: tuple[object, ...] = ((prompt, first, second, side, of_first, of_second, topic, *authors, reason),)
    if source == "trl":
        content = prompt, first, second, *((of_first, of_second) if of_first or of_second else ())
    given, column = cells.get("id", none)
    given = None if given == "" else given
    name = identity(given, column, repeats, *content)
    return chosen_pair(
        name if given is not None and source == "table" else f"{source}-{name}",
        prompt,
        first,
        second,
        first=None if layout is PAIRS else True,
        source=source,
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
    `KNOWN`, the names of the response ``columns`` A and B, and the row's own authors. ``first`` are cells of the
    column: where they hold no other number, ``1`` and ``2`` are known (``0`` and ``1`` of columns that end so), and an
    error names those that are not.
    """

    def __init__(
        self, mapped: Mapping[str, str], field: str, columns: tuple[str, str], first: Iterable[Any] = ()
    ) -> None:
        self._field = field
        self._mapped = {_key(cell): side for cell, side in mapped.items()}
        self._by_column = {_key(name): side for name, side in zip(columns, "ab", strict=True)}
        self._first = [_key(cell) for cell in first if cell is not None]
        numbers = {key for key in (*self._first, *self._mapped) if _NUMBER.fullmatch(key)}
        ends = ["".join(filter(str.isalnum, name))[-1:] for name in columns]
        pair = ends if ends == ["0", "1"] else ["1", "2"]
        self._numbers = dict(zip(pair, "ab", strict=True)) if numbers <= {*pair} else {}

    def side(self, cell: Any, authors: tuple[str | None, str | None]) -> str:
        """The side of one cell. Raises `RecordError` for a cell that is not known."""
        if isinstance(cell, (list, dict)):
            raise RecordError(self._field, "expected a text or a number, got a list")
        if not (key := _key(cell)):
            raise RecordError(self._field, "blank")
        if side := self._mapped.get(key):
            return side
        by_author = [(_key(author), side) for author, side in zip(authors, "ab", strict=True) if author]
        found = {known[key] for known in (KNOWN, self._by_column, self._numbers) if key in known}
        found |= {side for author, side in by_author if author == key}  # both where one model wrote both
        if len(found) == 1:
            return found.pop()
        if found:
            raise RecordError(self._field, f"{key!r} can be read in two ways", f"; map it: {self._typed([key])}")
        known = {"", *self._mapped, *KNOWN, *self._by_column, *self._numbers}
        others = [] if by_author else [each for each in self._first if each not in known]
        unknown = [*dict.fromkeys([key, *others])][:MOST_CELLS]
        shown = ", ".join(repr(printable(each, 40)) for each in unknown)
        models = "" if by_author else " (where these are models, name data.columns.author_a and author_b)"
        how = f"; say what each means, {', '.join(SIDES)}{models}, such as {self._typed(unknown)}"
        raise RecordError(self._field, f"{shown}: not known", how)

    def _typed(self, cells: list[str]) -> str:
        """The word of a command line that maps these cells as well as those mapped so far, quoted for the shell."""
        whole = self._mapped | dict(zip(sorted(cells), cycle(SIDES), strict=False))
        return shlex.quote(f"data.winners={hydra_value(whole)}")


def _key(cell: Any) -> str:
    key = folded(format(cell, "g") if isinstance(cell, float) else str(cell))
    return f"{float(key):.15g}" if _NUMBER.fullmatch(key) else key
