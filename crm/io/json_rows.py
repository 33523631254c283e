"""One JSON row, hostile until proven valid. In: the bytes of a line. Out: plain values, or `RecordError`."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

from crm.schema import RecordError

MAX_DEPTH = 32
"""Objects and lists inside one another; our deepest real format needs 4."""


def check_row(row: object) -> None:
    """Refuse what no source accepts: a row that is not an object, deep nesting, NUL, lone surrogates, infinite numbers.

    Walks with a stack of its own, so that no depth of input can exhaust Python's; it holds lists and objects only,
    because most values are neither. Raises `RecordError`.
    """
    if not isinstance(row, dict):
        raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
    stack: list[tuple[str, dict[Any, Any] | list[Any], int]] = []
    for name, value in row.items():
        _check_value("row", name)
        if isinstance(value, (dict, list)):
            stack.append((name, value, 1))
        else:
            _check_value(name, value)
    while stack:
        field, items, depth = stack.pop()
        for item in (*items.keys(), *items.values()) if isinstance(items, dict) else items:
            if not isinstance(item, (dict, list)):
                _check_value(field, item)
            elif depth == MAX_DEPTH:
                raise RecordError(field, f"nested deeper than {MAX_DEPTH} levels")
            elif item:
                stack.append((field, item, depth + 1))


def check_text(field: str, text: str) -> None:
    """Refuse, as a `RecordError` of ``field``, what no file of ours holds: NUL, and half a character."""
    if "\0" in text:
        raise RecordError(field, f"NUL character at position {text.index(chr(0))}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RecordError(field, f"lone surrogate at position {error.start}: half a character") from None


def _check_value(field: str, value: object) -> None:
    if isinstance(value, str):
        check_text(field, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RecordError(field, f"{value} is not a finite number")


def decode(line: bytes) -> Any:
    """The JSON value of one line; raises `RecordError` for anything else, whatever the bytes are."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("row", f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start}") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise RecordError("row", f"not valid JSON: {error.msg} at position {error.pos}") from None
    except RecursionError:
        raise RecordError("row", f"nested deeper than {MAX_DEPTH} levels") from None
    except RecordError:
        raise
    except ValueError:  # Python's own limit on the digits of an integer
        raise RecordError("row", "a number has too many digits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError("row", f"{name} is not valid JSON; leave the field out or use null")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        counted = Counter(name for name, _ in pairs)  # asking each name how often it stands there would be quadratic
        twice = next(name for name, count in counted.items() if count > 1)
        raise RecordError(twice, "the key stands twice in one object")
    return row
