"""Rows of made-up sets, written in the format that a file's name tells."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

Files = dict[str, list[Any]]
"""Rows by path inside the set's folder."""


def write_files(folder: Path, files: Files) -> None:
    """Write every file below ``folder``."""
    for name, rows in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = _as_text(name, rows).encode("utf-8")
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)


def _as_text(name: str, rows: list[Any]) -> str:
    if ".jsonl" in name:
        return "".join(json.dumps(row) + "\n" for row in rows)
    if ".csv" in name:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return stream.getvalue()
    return json.dumps(rows)
