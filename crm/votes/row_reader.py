"""Readers of sources whose rows become records one by one: every row is counted, also those dropped, and ties."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference, check_responses
from crm.votes.fields import PublicRow

Row = dict[str, Any]
Read = Callable[[Path, Intake], Iterator[Preference]]


class At(NamedTuple):
    """The place of a row: what the source was read from (a folder or a file), the file in it, the row's number."""

    source: Path
    file: Path
    number: int
    repeats: Counter[str]
    """Digests of rows without an id, over all files: see `crm.votes.fields.identity`."""

    @property
    def stem(self) -> str:
        """The file's name without the ending of its format."""
        return self.file.name.split(".json")[0]


Parse = Callable[[Any, At], Preference | Sequence[Preference]]
Count = Callable[[Any, Sequence[Preference]], Mapping[str, int]]


def rows_of(
    *places: str,
    model: type[PublicRow] | None = None,
    count: Count | None = None,
    drop_identical: bool = False,
    drop_repeated: str | None = None,
) -> Callable[[Parse], Read]:
    """Make a ``read`` of a function that turns a row into its record or records, or raises `RecordError`.

    ``places`` are files and folders of the source, in the order of reading; the source itself where there is none.
    A row is a dict, or validated as ``model``. ``count`` says what is to be counted of a row that was read. Ids are
    unique in each file, unless ``drop_repeated`` gives the name under which rows that were read before are dropped.
    ``drop_identical`` drops pairs of equal responses.
    """

    def reader(parse: Parse) -> Read:
        def read(source: Path, reading: Intake) -> Iterator[Preference]:
            seen: set[object] = set()
            repeats: Counter[str] = Counter()
            for file in _files(source, places):

                def whole(row: Row, number: int, file: Path = file) -> tuple[Any, Sequence[Preference]]:
                    known = model.model_validate(row) if model else row
                    parsed = parse(known, At(source, file, number, repeats))
                    records = [parsed] if isinstance(parsed, Preference) else parsed
                    for record in records:
                        check_responses(record)
                    return known, records

                key = _nameless if drop_repeated else _name
                for row, records in reading.take(file, formats.rows(file), whole, key=key):
                    for name, number in count(row, records).items() if count else ():
                        reading.counts[name] += number
                    if drop_repeated and (own := _name((row, records))) in seen:
                        reading.counts[drop_repeated] += 1
                        continue
                    if drop_repeated:
                        seen.add(own)
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
        if not place.exists() and "*" not in place.name:
            raise ValueError(f"{place}: no such file; check the path, or fetch a public set (crm-prepare fetch=<set>)")
        yield from data_files(place)


def _name(kept: tuple[Any, Sequence[Preference]]) -> str | None:
    """What must be unique; a row without records has no name."""
    return kept[1][0].id if kept[1] else None


def _nameless(_kept: object) -> None:
    return None
