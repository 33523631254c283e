"""Scores that were made once, for everybody, in one SQLite file. In: judge, criteria, comparison, order. Out: logits.

A comparison is known by its text, so that scores of a response that has changed are never used for the new one. What
was kept stays when the process is killed; a loss of power may cost the last few. A score whose bytes have changed is
none. The file has a bound: what was asked for first gives way.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import logging
import math
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from crm.model.encoding import Order
from crm.schema import Comparison

log = logging.getLogger(__name__)
FORMAT = 2
"""Of the file (its ``user_version``). Before 2 a score had no seal; those are taken over as they stand."""
MOST_BYTES = 1_000_000_000
"""Of the file: some 14 million scores. Beyond it, those under the criteria that were asked for first are removed."""
BUSY_S = 30.0
"""Seconds to wait for another writer."""
Key = tuple[str, Order]
"""`comparison_key` and which response stands first."""
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "cell_size_check=ON", "trusted_schema=OFF")
_TABLES = (
    "CREATE TABLE wishes (id INTEGER PRIMARY KEY, judge TEXT, criteria TEXT, UNIQUE (judge, criteria))",
    "CREATE TABLE logits (wish INTEGER, comparison TEXT, shown TEXT, logit REAL, seal BLOB, "
    "PRIMARY KEY (wish, comparison, shown)) WITHOUT ROWID",
)
"""A wish is a judge and criteria; the later it was first asked for, the higher its number."""
_EARLIER = "SELECT judge, criteria, comparison, shown, logit FROM scores ORDER BY judge, criteria"
_KNOWN = "SELECT comparison, shown, logit, seal FROM logits WHERE wish = ? AND comparison IN"
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

    It grows to ``most_bytes``. Raises ``ValueError`` where the file cannot be used: SQLite cannot read it, or a later
    version wrote it.
    """

    def __init__(self, path: Path | str, most_bytes: int = MOST_BYTES) -> None:
        self.path, self._most_bytes = Path(path), most_bytes
        self._lock = threading.Lock()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            for pragma in _PRAGMAS:
                self._database.execute(f"PRAGMA {pragma}")
            if (said := self._number("PRAGMA quick_check(1)")) != "ok":
                raise sqlite3.DatabaseError(said)
            self._bring_up_to_date()
        except (sqlite3.Error, ValueError) as error:
            self._database.close()
            raise self._unusable(error) from None

    def known(self, judge: str, criteria: str, keys: Collection[str]) -> dict[Key, float | None]:
        """The scores of these comparisons that are there, in either order; ``None`` for a judge's failure.

        What a damaged file does not give is not there.
        """
        with self._lock:
            try:
                return self._sound(judge, criteria, keys)
            except sqlite3.Error as error:
                log.warning("%s: scores cannot be read and are made again (%s)", self.path, error)
                return {}

    def keep(self, judge: str, criteria: str, scores: Iterable[tuple[Key, float | None]]) -> None:
        """Put scores into the file, all or none; a sound one that is there already stays.

        Where the file does not take them the log says so: they are made again when they are asked for.
        """
        with self._lock:
            try:
                with self._transaction():
                    self._put(judge, criteria, dict(scores))
            except sqlite3.Error as error:
                log.warning("%s: scores were not kept (%s)", self.path, error)

    def __len__(self) -> int:
        with self._lock:
            return int(self._number("SELECT COUNT(*) FROM logits"))

    def close(self) -> None:
        """Let go of the file; the store is of no use afterwards."""
        with self._lock:
            self._database.close()

    def _bring_up_to_date(self) -> None:
        """Make the tables, take over what an earlier version kept, and see that they are whole and can be written."""
        with self._transaction():  # two processes may come here at once
            version = self._number("PRAGMA user_version")
            if version > FORMAT:
                raise ValueError(f"its format is {version}, this version reads up to {FORMAT}")
            if version < FORMAT:
                for table in _TABLES:
                    self._database.execute(table)
                self._take_over()
            self._database.execute(f"PRAGMA user_version={FORMAT}")
            if not set(_TABLES) <= {sql for (sql,) in self._database.execute("SELECT sql FROM sqlite_master")}:
                raise ValueError("its tables are not those that this version makes")

    def _take_over(self) -> None:
        if not self._number("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'scores'"):
            return
        log.info("%s: scores of an earlier version are taken over", self.path)
        rows = self._database.execute(_EARLIER)
        for (judge, criteria), part in itertools.groupby(rows, key=lambda row: row[:2]):
            self._put(judge, criteria, {(key, shown): logit for *_, key, shown, logit in part if _fits(logit)})
        self._database.execute("DROP TABLE scores")

    def _put(self, judge: str, criteria: str, scores: Mapping[Key, float | None]) -> None:
        known = self._sound(judge, criteria, {key for key, _ in scores})
        self._database.execute("INSERT OR IGNORE INTO wishes (judge, criteria) VALUES (?, ?)", (judge, criteria))
        wish, seal = self._wish(judge, criteria), _Seal(judge, criteria)
        rows = []
        for (key, shown), given in scores.items():
            logit = None if given is None or math.isnan(given) else float(given)
            if (key, shown) not in known:
                rows.append((wish, key, shown, logit, seal.of(key, shown, logit)))
        self._database.executemany("INSERT OR REPLACE INTO logits VALUES (?, ?, ?, ?, ?)", rows)
        self._make_room(wish)

    def _sound(self, judge: str, criteria: str, keys: Collection[str]) -> dict[Key, float | None]:
        """What is there and has not changed since it was kept."""
        wish, seal = self._wish(judge, criteria), _Seal(judge, criteria)
        wanted, found = list(keys), dict[Key, float | None]()
        for start in range(0, len(wanted), _PARTS):
            part = wanted[start : start + _PARTS]
            statement = f"{_KNOWN} ({','.join('?' * len(part))})"
            for key, shown, logit, sealed in self._database.execute(statement, (wish, *part)):
                if sealed == seal.of(key, shown, logit):
                    found[key, shown] = logit
        return found

    def _wish(self, judge: str, criteria: str) -> int:
        """Its number, or -1, which none has."""
        ask = "SELECT id FROM wishes WHERE judge = ? AND criteria = ?"
        row = self._database.execute(ask, (judge, criteria)).fetchone()
        return int(row[0]) if row else -1

    def _make_room(self, wish: int) -> None:
        """Remove what was asked for first until the file fits; what ``wish`` has stays."""
        while self._used() > self._most_bytes:
            oldest = self._number("SELECT MIN(id) FROM wishes WHERE id != ?", wish)
            if oldest is None:
                return
            self._database.execute("DELETE FROM logits WHERE wish <= ? AND wish != ?", (oldest, wish))
            self._database.execute("DELETE FROM wishes WHERE id = ?", (oldest,))

    def _used(self) -> int:
        """Bytes of the file that hold something; the others are written again before it grows."""
        pages = self._number("PRAGMA page_count") - self._number("PRAGMA freelist_count")
        return int(pages * self._number("PRAGMA page_size"))

    def _number(self, statement: str, *values: Any) -> Any:
        return self._database.execute(statement, values).fetchone()[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def _unusable(self, error: Exception) -> ValueError:
        return ValueError(
            f"scores={self.path}: cannot be used ({error}); move it away, and what it held is scored again, or name "
            "another folder with predictions=<folder>"
        )


def _fits(logit: Any) -> bool:
    """Whether a value of a file without seals can be a score at all."""
    return logit is None or isinstance(logit, float)


class _Seal:
    """Digests (8 bytes) of scores under one judge and criteria: they find damage, not malice."""

    def __init__(self, judge: str, criteria: str) -> None:
        self._begun = hashlib.blake2b(json.dumps([judge, criteria]).encode(), digest_size=8)

    def of(self, key: str, shown: str, logit: Any) -> bytes:
        """Of one score."""
        whole = self._begun.copy()
        whole.update(f"{key} {shown} {logit!r}".encode())
        return whole.digest()
