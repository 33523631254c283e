"""Rows that become records one by one. In: what a row means, and where the rows are. Out: the ``read`` of a source.

Every row is counted, whatever is dropped too; so are ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.io.untrusted import Rows
from crm.schema import Preference, RecordError, check_responses
from crm.votes.fields import hold_messages, items

Row = dict[str, Any]
Read = Callable[[Path, Intake], Iterator[Preference]]


class At(NamedTuple):
    """Where a row stands: what the source was read from (a folder or a file), the file in it, the row's number."""

    source: Path
    file: Path
    number: int
    repeats: Counter[str]
    """Digests of rows without an id, over all files: see `crm.votes.fields.identity`."""

    @property
    def stem(self) -> str:
        """The file's name without the ending that tells its format."""
        return self.file.name.split(".json")[0]


Parse = Callable[[Row, At], Preference | Sequence[Preference]]
Count = Callable[[Row, Sequence[Preference]], Mapping[str, int]]
LOOK_AHEAD = 100
"""Rows read before the first record, to learn what a file's columns hold."""


def rows_of(
    *places: str,
    count: Count | None = None,
    drop_identical: bool = False,
    drop_repeated: str | None = None,
    turns: Sequence[Sequence[str]] = (),
) -> Callable[[Parse], Read]:
    """Make a ``read`` of a function that turns a row into its record or records, or raises `RecordError`.

    ``places`` are files and folders of the source, in the order of reading; the source itself where there is none.
    ``count`` says what is to be counted of a row that was read. Ids are unique in each file, unless ``drop_repeated``
    gives the name under which rows that were read before are dropped. ``drop_identical`` drops pairs of equal
    responses. ``turns`` are the columns of conversations (`with_turns`).
    """

    def reader(parse: Parse) -> Read:
        def read(source: Path, reading: Intake) -> Iterator[Preference]:
            seen: set[object] = set()
            repeats: Counter[str] = Counter()
            for file in _files(source, places):
                whole = partial(_parsed, parse, source, file, repeats)
                rows = with_turns(formats.rows(file), turns)
                for row, records in reading.take(file, rows, whole, key=None if drop_repeated else _name):
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


def with_turns(numbered: Rows, turns: Sequence[Sequence[str]]) -> Rows:
    """The rows, with lists in the place of texts in columns whose texts are lists of messages.

    Each of ``turns`` are columns of one kind, such as both responses; the first `LOOK_AHEAD` rows decide for them.
    """
    first = list(islice(numbered, LOOK_AHEAD))
    rows = [row for _, row in first if isinstance(row, dict)]
    listed = [
        name for names in turns if hold_messages([row.get(name) for row in rows for name in names]) for name in names
    ]
    for number, row in chain(first, numbered):
        yield number, _listed(row, listed) if listed and isinstance(row, dict) else row


def _listed(row: Row, names: Sequence[str]) -> Row | RecordError:
    try:
        return {**row, **{name: items(row[name], name) for name in names if isinstance(row.get(name), str)}}
    except RecordError as error:
        return error


def _parsed(
    parse: Parse, source: Path, file: Path, repeats: Counter[str], row: Row, number: int
) -> tuple[Row, Sequence[Preference]]:
    parsed = parse(row, At(source, file, number, repeats))
    records = [parsed] if isinstance(parsed, Preference) else parsed
    for record in records:
        check_responses(record)
    return row, records


def _name(kept: tuple[Row, Sequence[Preference]]) -> object:
    """What must be unique; a row without records has no name."""
    return kept[1][0].id if kept[1] else None
