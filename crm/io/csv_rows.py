"""Rows of a CSV or TSV file. In: a path. Out: column name to text, row by row; a bad row is an error of its own."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from crm.io.untrusted import MAX_LINE_BYTES, READ_ERRORS, Limits, Rows, narrow, numbered_lines, open_file, printable
from crm.schema import RecordError

DELIMITERS = ",;\t"
_SEP = re.compile(rb"""(?:\xef\xbb\xbf)?"?sep=([^"\r\n\w])"?\r?\n""", re.IGNORECASE)


def table(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a CSV or TSV file with a header: column name to text. The header tells the delimiter: comma, ; or tab, or
    a first line ``sep=;`` does, as spreadsheets write it.

    Quoted cells may hold line ends. Blank lines are skipped. Every row must have as many cells as the header.
    A blank cell is a missing value, None.
    """
    csv.field_size_limit(MAX_LINE_BYTES)
    with open_file(path, limits) as stream:
        delimiter, above = _delimiter(path, stream)
        reader = csv.reader(_text_lines(stream), delimiter=delimiter, strict=True)
        found = _cells(reader, above) if limits is None else narrow(path, _cells(reader, above), limits)
        header = _header(path, next(found, (1, []))[1])
        for number, cells in found:
            yield number, cells if isinstance(cells, RecordError) else _row(header, cells)


class _Unreadable(csv.Error):
    """The stream of a table broke; the rows before are good, those behind are not known."""


def _delimiter(path: Path, stream: IO[bytes]) -> tuple[str, int]:
    """The delimiter, and how many lines stand above the header."""
    try:
        first = stream.readline(MAX_LINE_BYTES)
        if told := _SEP.fullmatch(first):
            return told[1].decode("latin-1"), 1
        stream.seek(0)
    except READ_ERRORS as error:
        raise ValueError(f"{path}: cannot be read ({error}); fetch the file again") from None
    return max(DELIMITERS, key=lambda mark: first.count(mark.encode())), 0


def _header(path: Path, cells: list[str] | RecordError) -> list[str]:
    why = ""
    if isinstance(cells, RecordError) or not cells:
        why = str(cells) if cells else "the file is empty"
    elif not all(cell.strip() for cell in cells):
        number = next(number for number, cell in enumerate(cells, start=1) if not cell.strip())
        why = f"column {number} has none (pandas: save with index=False)"
    elif len(set(cells)) < len(cells):
        why = f"{next(cell for cell, count in Counter(cells).items() if count > 1)!r} stands twice"
    elif any(_not_utf8(cell) for cell in cells):
        why = f"{cells!s:.80} is not UTF-8; save the file with the encoding UTF-8"
    if isinstance(cells, RecordError) or why:
        raise ValueError(f"{path}:1: row: expected a header that names every column once; {printable(why)}")
    return cells


def _not_utf8(text: str) -> bool:
    """Whether bytes that are no UTF-8 were escaped in it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    for _, line in numbered_lines(stream):
        if isinstance(line, RecordError):
            raise _Unreadable(f"{line.why}; nothing behind it was read")
        yield line.decode("utf-8", "surrogateescape") + "\n"  # the reader takes "\r" for a line end or a cell's text


def _cells(reader: Any, above: int) -> Iterator[tuple[int, list[str] | RecordError]]:
    """Numbered lists of cells; ``number`` is the line on which the row starts."""
    while True:
        number = reader.line_num + 1 + above
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = str(error)
            if why == "unexpected end of data":
                why = "a quote opens a cell here and never closes"
            yield number, RecordError("row", why)
            if isinstance(error, _Unreadable):
                return
            continue
        if cells:
            yield number, cells


def _row(header: list[str], cells: list[str]) -> dict[str, str | None] | RecordError:
    if len(cells) != len(header):
        return RecordError("row", f"{len(cells)} cells, the header names {len(header)} columns")
    for name, cell in zip(header, cells, strict=True):
        if _not_utf8(cell):
            return RecordError(name, "not UTF-8; save the file with the encoding UTF-8")
    return {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True)}
