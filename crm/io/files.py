"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python


def shown_path(path: str | Path) -> str:
    """A path as somebody here would type it: relative where it lies below the working folder."""
    place = Path(path).absolute()
    return str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(path)


def typed_path(path: str | Path) -> str:
    """The same in quotes where a shell needs them."""
    return shlex.quote(shown_path(path))


def replace_file(path: Path | str, content: str | bytes) -> Path:
    """Write ``content`` beside ``path`` and move it there in one step; parent folders are made. Text is UTF-8, LF."""
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with drafted(Path(path)) as draft:
        draft.write_bytes(data)
    return Path(path)


def joined_lines(path: Path) -> list[bytes]:
    """The lines of a file and of the `part_of` each process that lies beside it, each once; they become the file's.

    A last line that was cut off, as by a kill, is none.
    """
    parts = sorted(path.parent.glob(f"{escape(path.name)}.*.part"))
    texts = (file.read_bytes().rpartition(b"\n")[0] for file in (path, *parts) if file.is_file())
    lines = list(dict.fromkeys(line for text in texts for line in text.splitlines()))
    replace_file(path, b"".join(line + b"\n" for line in lines))
    for part in parts:
        part.unlink()
    return lines


def part_of(path: Path, rank: int) -> Path:
    """Where a process writes lines of a file that all write."""
    return path.with_name(f"{path.name}.{rank}.part")


def with_nulls(value: Any) -> Any:
    """A value of nested dicts and lists for JSON, which has no NaN and no infinity: those are null."""
    return to_jsonable_python(value, inf_nan_mode="null")


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
