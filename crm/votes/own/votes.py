"""Who won, as tables of one's own spell it. In: cells of a winner column. Out: ``a``, ``b`` or ``tie``, or a refusal.

Cells are compared without outer white space and case. What the user maps decides; then these are known: the values of
`KNOWN`, the name of a response's own column, and the row's own author of a response. A cell that is none of these, or
that two of them read differently, is refused with a sentence that says how to map it: a guess here would turn labels.

``1`` and ``2`` are known, but not beside a ``0``: 0/1 and 0/1/2 are other codes, and nobody can tell which.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crm.schema import SIDES, RecordError

KNOWN = {
    **dict.fromkeys(("a", "1", "model_a", "response_a", "left"), "a"),
    **dict.fromkeys(("b", "2", "model_b", "response_b", "right"), "b"),
    **dict.fromkeys(("tie", "draw", "both"), "tie"),
}
NUMERALS = ("1", "2")


class Votes:
    """The reading of one file's winner column ``field``; ``columns`` are the names of its response columns A and B."""

    def __init__(self, winners: Mapping[str, str], field: str, columns: tuple[str, str]) -> None:
        """Raises ``ValueError`` for a side that there is not and for a cell that is mapped twice."""
        self._field = field
        self._mapped: dict[str, str] = {}
        self._by_column = {_key(name): side for name, side in zip(columns, "ab", strict=True)}
        self._zero = self._numeral = False
        for cell, side in winners.items():
            if side not in SIDES:
                raise ValueError(f"data.winners={{{cell}: {side}}}: {side!r} is not one of {', '.join(SIDES)}")
            if self._mapped.setdefault(_key(cell), side) != side:
                raise ValueError(f"data.winners={{{cell}: {side}}}: the same cell is also mapped to another side")

    def look_ahead(self, cells: Iterable[Any]) -> None:
        """Learn from the first rows whether the file counts from 0."""
        self._zero |= any(_key(cell) == "0" for cell in cells)

    def side(self, cell: Any, authors: tuple[str | None, str | None]) -> str:
        """The side of one cell. Raises `RecordError`; ``ValueError`` where a 0 comes after a 1 or 2 was read."""
        if cell is None or isinstance(cell, (list, dict)):
            raise RecordError(self._field, f"expected a text or a number, got {'null' if cell is None else 'a list'}")
        key = _key(cell)
        if key in self._mapped:
            return self._mapped[key]
        if key == "0":
            self._refuse_zero()
        readings = {KNOWN.get(key), self._by_column.get(key)}
        readings |= {side for author, side in zip(authors, "ab", strict=True) if author and _key(author) == key}
        readings.discard(None)
        if key in NUMERALS:
            if self._zero:
                self._refuse(cell, "may count from 0 or from 1, as there is a 0 too")
            self._numeral = True
        if len(readings) != 1:
            self._refuse(cell, "can be read in two ways" if readings else "is not known")
        return str(readings.pop())

    def _refuse_zero(self) -> None:
        self._zero = True
        if self._numeral:
            raise ValueError(
                f"{self._field}: a 0, after 1 or 2 was read as a side; "
                "say what the numbers mean, such as data.winners={0: a, 1: b}"
            )
        self._refuse("0", "may be a side or a tie")

    def _refuse(self, cell: Any, why: str) -> None:
        short = f"{cell!s:.40}"
        raise RecordError(self._field, f"{short!r} {why}; map it: data.winners={{{short}: a}} (or b, or tie)")


def _key(cell: Any) -> str:
    return (format(cell, "g") if isinstance(cell, float) else str(cell)).strip().casefold()
