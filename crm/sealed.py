"""JSON that tells when it was changed. In: an object of ours. Out: its text with a seal, and the object again.

A seal is a digest of all values but itself: other white space or another order of keys says the same and is accepted.
Lines that people write have no seal. Seals find damage, not malice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SEAL = "seal"
LINE_FORMAT = 2
"""Of a line of records."""
_LINE_DIGITS = 8


def seal(content: Mapping[str, Any]) -> str:
    """Digest (64 hex digits) of all that an object says but its seal."""
    told = {name: value for name, value in content.items() if name != SEAL}
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def sealed_text(content: Mapping[str, Any], *, indent: int | None = 2) -> str:
    """An object as JSON with its seal, readable UTF-8. Numbers that are not finite raise ``ValueError``."""
    whole = json.loads(json.dumps(content, allow_nan=False))  # keys that are numbers become texts, as they are read
    return json.dumps({**whole, SEAL: seal(whole)}, ensure_ascii=False, indent=indent) + "\n"


def read_sealed(path: Path, next_step: str, *, version: int | None = None) -> dict[str, Any]:
    """The object in a file, without its seal. Raises ``ValueError`` for anything else; it ends in ``next_step``.

    With ``version`` its ``format`` has to be that number; it is left out.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not JSON ({error!s:.100}); {next_step}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected an object, got {type(content).__name__}; {next_step}")
    if SEAL in content and content[SEAL] != seal(content):
        raise ValueError(f"{path}: was changed after it was written (its seal differs); {next_step}")
    found = {name: value for name, value in content.items() if name != SEAL}
    if version is not None and (format_ := found.pop("format", None)) != version:
        raise ValueError(f"{path}: format {format_!r:.40}, this version reads {version}; {next_step}")
    return found


def sealed_line(row: Mapping[str, Any]) -> str:
    """A record as one line of JSON, with a short seal of its own."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    return f'{text[:-1]}, "{SEAL}": "{_line_seal(row)}"}}\n'


def check_line(row: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for a row that has a seal which is not its own."""
    if SEAL not in row:
        return
    found, form = row[SEAL], f"{LINE_FORMAT}-"
    if not isinstance(found, str) or not found.startswith(form):
        raise ValueError(f"{found!r:.40}: expected {form}...; the row was changed, or another version wrote it")
    if found != _line_seal(row):
        raise ValueError("the row was changed after it was written")


def _line_seal(row: Mapping[str, Any]) -> str:
    return f"{LINE_FORMAT}-{seal(row)[:_LINE_DIGITS]}"
