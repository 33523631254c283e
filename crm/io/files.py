"""Text, bytes or JSONL in; whole files and validated records out: a reader never meets half a file."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from crm.schema import Match, Prediction, RecordError
from crm.sealed import SEAL, check_line, sealed_line

AnyRecord = TypeVar("AnyRecord", Prediction, Match)
_NUMBERS = ("preference_logit", "score_a", "score_b", "score_candidate", "score_baseline")
_COUNTS = ("length_candidate", "length_baseline", "tokens")
_OPTIONAL = ("preference_logit", "score_a", "score_b", "score_candidate", "score_baseline", "failure", "tokens")
"""May be null; a record that cannot do without one says so itself."""


def shown_path(path: str | Path) -> str:
    """A path as somebody here would type it: relative where it lies below the working folder."""
    place = Path(path).absolute()
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(path)


def replace_file(path: Path | str, content: str | bytes) -> Path:
    """Write ``content`` beside ``path`` and move it there in one step; parent folders are made. Text is UTF-8, LF."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with drafted(Path(path)) as draft:
        draft.write_bytes(data)
    return Path(path)


def with_nulls(value: Any) -> Any:
    """A value of nested dicts and lists for JSON, which has no NaN and no infinity: those are null."""
    if isinstance(value, dict):
        return {key: with_nulls(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_nulls(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def drafted(path: Path) -> Iterator[Path]:
    """The name of a draft beside ``path``, to be written inside the block; it becomes ``path`` when the block ends.

    Where the block fails, ``path`` stays as it was and no draft is left. Parent folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # By name, not with mkstemp, so that the usual mask applies and others can read the results.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield draft
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def record_line(record: Prediction | Match) -> str:
    """A line of the file that `read_records` reads: a flipped byte of it is found."""
    return sealed_line(record.to_dict())


def read_records(path: Path | str, record: type[AnyRecord]) -> list[AnyRecord]:
    """Read a JSONL file of `Prediction` or `Match`; blank lines are skipped.

    A bad line, and one that is not what its seal says, raises ``ValueError`` as ``file:line: field: why``. One
    exception: a last line without its newline that is not JSON was cut off by a kill; it is left out, and a warning
    names it and how many rows are kept.
    """
    path = Path(path)
    lines = path.read_bytes().split(b"\n")
    kept: list[AnyRecord] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                warnings.warn(
                    f"{path}:{number}: unfinished last line left out, {len(kept)} rows kept; run again to complete it",
                    stacklevel=2,
                )
                break
            raise ValueError(f"{path}:{number}: row: not JSON ({error})") from None
        try:
            kept.append(_record(row, record))
        except RecordError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
    return kept


def _record(row: Any, record: type[AnyRecord]) -> AnyRecord:
    if not isinstance(row, dict):
        raise RecordError("row", f"expected an object, got {type(row).__name__}")
    try:
        check_line(row)
    except ValueError as error:
        raise RecordError(SEAL, f"{error}; remove the line and run again: it alone is read anew") from None
    row = {name: value for name, value in row.items() if name != SEAL}
    for name, value in row.items():
        if value is None and name in _OPTIONAL:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if name in _NUMBERS:
            if not number:
                raise RecordError(name, f"expected a finite number, got {value!r:.80}")
        elif name in _COUNTS:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise RecordError(name, f"expected a count, got {value!r:.80}")
        elif not isinstance(value, str):
            raise RecordError(name, f"expected text, got {value!r:.80}")
    built: AnyRecord = record.from_dict(row)
    return built
