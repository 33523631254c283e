"""Rows that become records one by one. In: what a row means, and where the rows are. Out: the ``read`` of a source.

Every row is counted, whatever is dropped too; so are ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference

Row = dict[str, Any]
Read = Callable[[Path, Intake], Iterator[Preference]]


class At(NamedTuple):
    """Where a row stands: what the source was read from (a folder or a file), the file in it, the row's number."""

    source: Path
    file: Path
    number: int

    @property
    def stem(self) -> str:
        """The file's name without the ending that tells its format."""
        return self.file.name.split(".json")[0]


Parse = Callable[[Row, At], Preference | Sequence[Preference]]
Count = Callable[[Row, Sequence[Preference]], Mapping[str, int]]


def rows_of(
    *places: str, count: Count | None = None, drop_identical: bool = False, drop_repeated: str | None = None
) -> Callable[[Parse], Read]:
    """Make a ``read`` of a function that turns a row into its record or records, or raises `RecordError`.

    ``places`` are files and folders of the source, in the order of reading; the source itself where there is none.
    ``count`` says what is to be counted of a row that was read. Ids are unique in each file, unless ``drop_repeated``
    gives the name under which rows that were read before are dropped. ``drop_identical`` drops pairs of equal texts.
    """

    def reader(parse: Parse) -> Read:
        def read(source: Path, reading: Intake) -> Iterator[Preference]:
            seen: set[object] = set()
            for file in _files(source, places):
                whole = partial(_parsed, parse, source, file)
                for row, records in reading.rows(file, whole, key=None if drop_repeated else _name):
                    for name, number in count(row, records).items() if count else ():
                        reading.counts[name] += number
                    if drop_repeated and _name((row, records)) in seen:
                        reading.counts[drop_repeated] += 1
                        continue
                    if drop_repeated:
                        seen.add(_name((row, records)))
                    for record in records:
                        if drop_identical and record.response_a == record.response_b:
                            reading.counts["dropped_identical_responses"] += 1
                        else:
                            reading.counts["ties"] += record.winner == "tie"
                            yield record

        return read

    return reader


def _files(source: Path, places: Sequence[str]) -> Iterator[Path]:
    for place in [source / place for place in places] or [source]:
        if not place.exists():
            raise ValueError(f"{place}: no such file; check the path, or fetch a public set (crm-prepare fetch=<set>)")
        yield from data_files(place)


def _parsed(parse: Parse, source: Path, file: Path, row: Row, number: int) -> tuple[Row, Sequence[Preference]]:
    parsed = parse(row, At(source, file, number))
    return row, [parsed] if isinstance(parsed, Preference) else parsed


def _name(kept: tuple[Row, Sequence[Preference]]) -> object:
    """What must be unique; a row without records has no name."""
    return kept[1][0].id if kept[1] else None
