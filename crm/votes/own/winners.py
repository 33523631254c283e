"""Who won, as the winner column of a table spells it: ``a``, ``b`` or ``tie``, or an error that shows how to map it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

from crm.io.rows import printable
from crm.quoting import escaped, hydra_text
from crm.schema import SIDES, RecordError, folded

KNOWN = {
    **dict.fromkeys(("a", "model_a", "response_a", "left"), "a"),
    **dict.fromkeys(("b", "model_b", "response_b", "right"), "b"),
    **dict.fromkeys(("tie", "draw", "both"), "tie"),
    **dict.fromkeys(("tie (bothbad)", "tie (both bad)", "both_bad", "both bad", "bothbad"), "tie"),
}
MAX_WORDS = 12
"""Cells that one sentence maps; a column with more of them is most likely not the winner's."""
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d+)?")
_PLAIN_KEY = re.compile(r"(?!null$)[a-z]\w*( \w+)*|-?\d+(\.\d+)?", re.ASCII | re.IGNORECASE)


class Winners:
    """The reading of one winner column ``field``.

    Cells are compared without case and outer white space. What ``mapped`` (``data.winners``) says decides; then
    `KNOWN`, the names of the response ``columns`` A and B, and the row's own authors. ``1`` and ``2`` are known where
    the column's ``first`` cells hold no other number.
    """

    def __init__(
        self, mapped: Mapping[str, str], field: str, columns: tuple[str, str], first: Iterable[Any] = ()
    ) -> None:
        """Raises ``ValueError`` for a side that there is not."""
        for cell, side in mapped.items():
            if side not in SIDES:
                raise ValueError(f"data.winners={{{cell}: {side}}}: {side!r} is not one of {', '.join(SIDES)}")
        self._field = field
        self._mapped = {_key(cell): side for cell, side in mapped.items()}
        if len(self._mapped) < len(mapped):
            raise ValueError(f"data.winners={dict(mapped)}: a cell is mapped twice")
        self._by_column = {_key(name): side for name, side in zip(columns, "ab", strict=True)}
        self._first = dict.fromkeys(_key(cell) for cell in first if cell is not None)
        numbers = set(filter(_NUMBER.fullmatch, (*self._first, *self._mapped)))
        self._numerals = {"1": "a", "2": "b"} if numbers <= {"1", "2"} else {}

    def side(self, cell: Any, authors: tuple[str | None, str | None]) -> str:
        """The side of one cell.

        Raises `RecordError` for a cell that is not known, and ``ValueError`` for a number that is not mapped: then
        nobody knows what the other numbers mean.
        """
        if cell is None or isinstance(cell, (list, dict)):
            raise RecordError(self._field, f"expected a text or a number, got {'null' if cell is None else 'a list'}")
        key = _key(cell)
        if not key:
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
        if len(unknown) > MAX_WORDS:
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
