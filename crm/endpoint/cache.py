"""Replies in one SQLite file, so that none is paid for twice."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from crm.endpoint.replies import Reply


class ReplyCache:
    """One file, which several processes may write. Raises ``ValueError`` where it cannot be used."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._run("PRAGMA journal_mode=WAL")
        self._run("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, value TEXT NOT NULL)")

    def get(self, key: str) -> Reply | None:
        """The reply stored under ``key``."""
        rows = self._run("SELECT value FROM replies WHERE key = ?", key)
        if not rows:
            return None
        stored = json.loads(rows[0][0])
        return Reply(stored["text"], stored["tokens"])

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply; one that is there already is replaced."""
        value = json.dumps({"text": reply.text, "tokens": reply.tokens})
        self._run("INSERT OR REPLACE INTO replies (key, value) VALUES (?, ?)", key, value)

    def _run(self, statement: str, *values: str) -> list[Any]:
        try:
            with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            why = f"cannot be used as a cache of replies ({error}); name another file"
            raise ValueError(f"{self.path}: {why}") from None
