"""A growing prediction file. In: its path and a fingerprint. Out: which (comparison, order) stand in it, each once.

Several processes write a share each, ``<name>.<rank>.part`` beside the file. Shares are added to the file when all are
written, or by the next run where this one was killed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from glob import escape
from pathlib import Path

from crm.io.files import read_records, replace_file
from crm.schema import Comparison, Prediction, to_json

Key = tuple[str, str]


def reading_digest(judge_digest: str, comparisons: Sequence[Comparison]) -> str:
    """16 hex digits of the judge and every byte of the comparisons, in any order of them."""
    rows = sorted(hashlib.sha256(to_json(row).encode("utf-8", "surrogatepass")).hexdigest() for row in comparisons)
    return hashlib.sha256("|".join([judge_digest, *rows]).encode()).hexdigest()[:16]


def share_of(path: Path, rank: int) -> Path:
    """Where the process ``rank`` writes its part of ``path``."""
    return path.with_name(f"{path.name}.{rank}.part")


def finished(path: Path, digest: str) -> set[Key]:
    """(comparison id, order) of all predictions in ``path``, after its shares were added and cut lines removed.

    Raises ``ValueError`` when the file, or a share, holds predictions of another fingerprint.
    """
    shares = sorted(path.parent.glob(f"{escape(path.name)}.*.part"))
    done = {_key(row): row for row in _rows(path, digest)}
    before = len(done)
    for share in shares:
        for row in _rows(share, digest):
            # A kill between writing the file and removing the shares leaves rows in both.
            done.setdefault(_key(row), row)
    if len(done) > before:
        replace_file(path, "".join(to_json(row) + "\n" for row in done.values()))
    for share in shares:
        share.unlink()
    return set(done)


def _key(row: Prediction) -> Key:
    return row.comparison_id, row.order


def _rows(path: Path, digest: str) -> list[Prediction]:
    if not path.exists():
        return []
    _drop_cut_line(path)
    rows = read_records(path, Prediction)
    others = {row.fingerprint for row in rows} - {digest}
    if others:
        raise ValueError(
            f"{path}: holds predictions of {', '.join(sorted(others))}, this run is {digest}; move it away"
        )
    return rows


def _drop_cut_line(path: Path) -> None:
    """Cut the file after its last line break: what follows was being written when the run was killed."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end != len(content):
        with path.open("r+b") as file:
            file.truncate(end)
