"""Scores that were made once, for everybody, in one SQLite file. In: judge, criteria, comparison, order. Out: logits.

A comparison is known by its text, so that scores of a response that has changed are never used for the new one. What
was kept stays when the process is killed; a loss of power may cost the last few.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from crm.model.encoding import Order
from crm.schema import Comparison

BUSY_S = 30.0
"""Seconds to wait for another writer."""
Key = tuple[str, Order]
"""`comparison_key` and which response stands first."""
_KNOWN = "SELECT comparison, shown, logit FROM scores WHERE judge = ? AND criteria = ? AND comparison IN"
_PARTS = 400
"""Keys asked for at a time; SQLite allows a statement some thousand values."""


def comparison_key(row: Comparison) -> str:
    """32 hex digits of the conversation and both responses; criteria, names and ids do not count."""
    texts = [[[turn.role, turn.content] for turn in part] for part in (row.prompt, row.response_a, row.response_b)]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:32]


def criteria_key(criteria: Sequence[str]) -> str:
    """32 hex digits of the criteria, in their order: another order is another prompt."""
    return hashlib.sha256(json.dumps(list(criteria)).encode()).hexdigest()[:32]


class ScoreStore:
    """A file of scores, made where it is missing; for any number of threads, and for several processes.

    Raises ``ValueError`` where the file cannot be used.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
            self._database.execute("PRAGMA journal_mode=WAL")
            self._database.execute("PRAGMA synchronous=NORMAL")
            self._database.execute(
                "CREATE TABLE IF NOT EXISTS scores (judge TEXT, criteria TEXT, comparison TEXT, shown TEXT, "
                "logit REAL, PRIMARY KEY (judge, criteria, comparison, shown)) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise ValueError(f"scores={self.path}: cannot be used ({error}); mend it or name another file") from None

    def known(self, judge: str, criteria: str, keys: Collection[str]) -> dict[Key, float | None]:
        """The scores of these comparisons that are there, in either order; ``None`` for a judge's failure."""
        wanted, found = list(keys), dict[Key, float | None]()
        for start in range(0, len(wanted), _PARTS):
            part = wanted[start : start + _PARTS]
            marks = ",".join("?" * len(part))
            statement = f"{_KNOWN} ({marks})"
            with self._lock:
                rows = self._database.execute(statement, (judge, criteria, *part)).fetchall()
            found.update({(key, shown): logit for key, shown, logit in rows})
        return found

    def keep(self, judge: str, criteria: str, scores: Iterable[tuple[Key, float | None]]) -> None:
        """Put scores into the file, all or none; one that is there already stays."""
        rows = [(judge, criteria, key, shown, logit) for (key, shown), logit in scores]
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany("INSERT OR IGNORE INTO scores VALUES (?, ?, ?, ?, ?)", rows)
            except sqlite3.Error:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")

    def __len__(self) -> int:
        with self._lock:
            return int(self._database.execute("SELECT COUNT(*) FROM scores").fetchone()[0])

    def close(self) -> None:
        """Let go of the file; the store is of no use afterwards."""
        with self._lock:
            self._database.close()
