"""Who won, as the winner column of a table spells it: ``a``, ``b`` or ``tie``, or a refusal that shows how to map it.

Cells are compared without case, outer and repeated white space. What ``data.winners`` maps decides; then these are
known: the values of `KNOWN`, the name of a response's own column, and the row's own author of a response. A cell that
is none of these, or that two of them read differently, is refused: a guess would turn labels round.

``1`` and ``2`` are known where they are the only numbers. Beside any other number, in the column or in
``data.winners``, they may mean anything, so every number has to be mapped.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, cycle
from typing import Any

from crm.quoting import escaped, hydra_text
from crm.schema import SIDES, RecordError, folded

KNOWN = {
    **dict.fromkeys(("a", "1", "model_a", "response_a", "left"), "a"),
    **dict.fromkeys(("b", "2", "model_b", "response_b", "right"), "b"),
    **dict.fromkeys(("tie", "draw", "both"), "tie"),
    **dict.fromkeys(("tie (bothbad)", "tie (both bad)", "both_bad", "both bad", "bothbad"), "tie"),
}
NUMERALS = {"1", "2"}
MAX_WORDS = 12
"""Cells that one sentence maps; a column with more of them is most likely not the winner's."""
MAX_LETTERS = 100
CODE = 0.1
"""Refused cells for one that is read, from which on they are most likely a side's own word and not rubbish."""
_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d+)?")
_PLAIN_KEY = re.compile(r"(?!null$)[a-z]\w*( \w+)*|-?\d+(\.\d+)?", re.ASCII | re.IGNORECASE)


class Votes:
    """The reading of one winner column ``field``; ``columns`` are the names of the response columns A and B.

    ``cells`` gives every cell of the column, in all files; it is called only to word a refusal.
    """

    def __init__(
        self,
        winners: Mapping[str, str],
        field: str,
        columns: tuple[str, str],
        cells: Callable[[], Iterable[Any]] = tuple,
    ) -> None:
        """Raises ``ValueError`` for a side that there is not and for a cell that is mapped twice."""
        self._field, self._cells = field, cells
        self._mapped: dict[str, str] = {}
        self._by_column = {_key(name): side for name, side in zip(columns, "ab", strict=True)}
        for cell, side in winners.items():
            if side not in SIDES:
                raise ValueError(f"data.winners={{{cell}: {side}}}: {side!r} is not one of {', '.join(SIDES)}")
            if self._mapped.setdefault(_key(cell), side) != side:
                raise ValueError(f"data.winners={{{cell}: {side}}}: the same cell is also mapped to another side")
        self._numbers = set(filter(_NUMBER.fullmatch, self._mapped))
        self._sides: Counter[str] = Counter()
        self._refused: dict[str, str] = {}
        self._refusals = 0
        self._unknown: dict[str, str] | None = None

    def look_ahead(self, cells: Iterable[Any]) -> None:
        """Learn from the first rows which numbers there are."""
        self._numbers.update(filter(_NUMBER.fullmatch, map(_key, cells)))

    def side(self, cell: Any, authors: tuple[str | None, str | None]) -> str:
        """The side of one cell.

        Raises `RecordError` for a cell that is not known, and ``ValueError`` for a number that is not mapped where 1
        and 2 are not the only ones: the whole file is in doubt then.
        """
        if cell is None or isinstance(cell, (list, dict)):
            raise RecordError(self._field, f"expected a text or a number, got {'null' if cell is None else 'a list'}")
        key = _key(cell)
        side = self._mapped.get(key)
        if side is None:
            self.look_ahead([cell])
            if key in self._numbers and self._doubtful():
                raise ValueError(f"{self._field}: {self._doubt()}")
            side = self._known(cell, key, authors)
        self._sides[side] += 1
        return side

    def check_sides(self) -> None:
        """Raise ``ValueError`` where one side wins every vote and many cells, so the other's, were refused."""
        decided = self._sides.keys() & {"a", "b"}
        if len(decided) == 1 and self._refusals > max(1, CODE * self._sides.total()):
            raise ValueError(
                f"{self._field}: {decided.pop()} wins every vote that can be read; {self._advice(self._refused)}"
            )

    def _doubtful(self) -> bool:
        unmapped = self._numbers - self._mapped.keys()
        return bool(unmapped & NUMERALS) and bool(self._numbers - NUMERALS or self._mapped.keys() & NUMERALS)

    def _doubt(self) -> str:
        numbers = sorted(self._numbers | set(filter(_NUMBER.fullmatch, map(_key, self._cells()))), key=float)
        low, high = float(numbers[0]), float(numbers[-1])
        if len(numbers) > 2 * MAX_WORDS:
            return f"{len(numbers):,} numbers from {low:g} to {high:g} are no winners; expected {', '.join(SIDES)}"
        middle = 0.0 if low < 0 < high else (low + high) / 2
        rising = {key: "a" if float(key) < middle else "b" if float(key) > middle else "tie" for key in numbers}
        falling = {key: {"a": "b", "b": "a"}.get(side, side) for key, side in rising.items()}
        fit = [
            f"{self._typed(sides)} if small numbers are for {side}"
            for side, sides in (("A", rising), ("B", falling))
            if all(sides.get(key, own) == own for key, own in self._mapped.items())
        ]
        fit = fit or [self._typed({**rising, "1": "a", "2": "b", **self._mapped})]
        unmapped = [key for key in numbers if key not in self._mapped]
        return (
            f"holds or maps the numbers {', '.join(numbers)}, which may be any code, and {', '.join(unmapped)} "
            f"{'is' if len(unmapped) == 1 else 'are'} not mapped; say what each of them means: {', '.join(fit)}"
        )

    def _known(self, cell: Any, key: str, authors: tuple[str | None, str | None]) -> str:
        readings = {KNOWN.get(key), self._by_column.get(key)}
        readings |= {side for author, side in zip(authors, "ab", strict=True) if author and _key(author) == key}
        readings.discard(None)
        if len(readings) == 1:
            return str(readings.pop())
        if not key:
            raise RecordError(self._field, "blank")
        word = _shown(cell)
        self._refusals += 1
        if len(self._refused) <= MAX_WORDS:
            self._refused[key] = word
        if readings:
            raise RecordError(
                self._field, f"{word!r} can be read in two ways; map it: {self._typed({word: 'a'})} (or b, or tie)"
            )
        raise RecordError(self._field, self._advice({key: word} if any(authors) else self._all_unknown() | {key: word}))

    def _all_unknown(self) -> dict[str, str]:
        """Every cell of the column that is not known, so that one mapping is enough."""
        if self._unknown is None:
            known = {"", *self._mapped, *KNOWN, *self._by_column}
            found = {_key(cell): _shown(cell) for cell in self._cells() if cell is not None}
            self._unknown = {key: word for key, word in found.items() if key not in known}
        return self._unknown

    def _advice(self, words: Mapping[str, str]) -> str:
        first, *others = words.values()
        if any(len(word) > MAX_LETTERS for word in words.values()):
            return f"{first[:40]!r} is not known, and too long for a winner; name the column: data.columns.winner=..."
        if len(words) > MAX_WORDS:
            return (
                f"{first!r} is not known, nor are {len(others):,} other cells; if they name models, name the columns "
                "that say whose each response is: data.columns.author_a=... data.columns.author_b=...; if not, name "
                f"another column: data.columns.winner=...; a cell is mapped by {self._typed({first: 'a'})}"
            )
        if not others:
            return f"{first!r} is not known; map it: {self._typed({first: 'a'})} (or b, or tie)"
        listed = ", ".join(map(repr, words.values()))
        return (
            f"{listed} are not known; say what each means, a, b or tie, such as {self._typed(_example(words.values()))}"
        )

    def _typed(self, mapping: Mapping[str, str]) -> str:
        """The word of a command line that maps these cells as well as those mapped so far, quoted for the shell."""
        whole = {**{key: side for key, side in self._mapped.items() if key not in map(_key, mapping)}, **mapping}
        if all(map(_PLAIN_KEY.fullmatch, whole)):
            value = "{" + ", ".join(f"{cell}: {side}" for cell, side in whole.items()) + "}"
        else:
            value = "[" + ",".join(_word(f"{cell}={side}") for cell, side in whole.items()) + "]"
        return shlex.quote(f"data.winners={value}")


def _word(text: str) -> str:
    """A text as Hydra and OmegaConf take it: ``${`` is no reference."""
    return hydra_text(escaped(text))


def _example(words: Iterable[str]) -> dict[str, str]:
    """A side for each word, as one of its parts hints, or else in turns."""
    parts = {word: folded(word).replace("_", " ").split() for word in words}
    hints = {word: {KNOWN[part] for part in found if part in KNOWN} for word, found in parts.items()}
    sure = {word: min(sides) for word, sides in hints.items() if len(sides) == 1}
    turns = chain((side for side in SIDES if side not in sure.values()), cycle(SIDES))
    return {word: sure.get(word) or next(turns) for word in parts}


def _shown(cell: Any) -> str:
    """A cell on one line, without what a terminal cannot show."""
    text = format(cell, "g") if isinstance(cell, float) else str(cell)
    return " ".join("".join(char for char in text if char.isprintable() or char.isspace()).split())


def _key(cell: Any) -> str:
    key = folded(_shown(cell))
    return f"{float(key):.15g}" if _NUMBER.fullmatch(key) else key
