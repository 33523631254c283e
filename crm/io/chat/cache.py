"""Replies that were valid once, kept in one SQLite file. In: the key of a request. Out: the JSON text stored for it.

Several processes may write one file at a time. What was put stays when the process is killed; a loss of power may cost
the last few. Failures and replies that broke a rule are never put here. A reply whose bytes have changed is none.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from crm.io.chat.endpoint import Endpoint
from crm.schema import Message
from crm.sealed import seal

log = logging.getLogger(__name__)
FORMAT = 2
"""Of the file (its ``user_version``)."""
BUSY_S = 30.0
"""Seconds to wait for another writer."""


class ReplyCache:
    """A file of replies, made where it is missing. Raises ``ValueError`` where the file cannot be used or written."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        try:
            self._run("PRAGMA journal_mode=WAL")
            self._run("PRAGMA synchronous=NORMAL")
            self._run("BEGIN IMMEDIATE")  # two processes may come here at once
            if not self._run("SELECT 1 FROM sqlite_master WHERE name = 'replies'"):
                self._run("CREATE TABLE replies (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal TEXT)")
                self._run(f"PRAGMA user_version={FORMAT}")
            self._run("COMMIT")
            if (found := self._run("PRAGMA user_version")[0][0]) != FORMAT:
                raise self._unusable(f"its format is {found}, this version reads {FORMAT}")
        except ValueError:
            self.close()
            raise

    def get(self, key: str) -> str | None:
        """The value stored under ``key``, or ``None``, also where its bytes have changed, which the log says."""
        rows = self._run("SELECT value, seal FROM replies WHERE key = ?", key)
        if not rows:
            return None
        value, sealed = rows[0]
        if sealed != _seal(key, value):
            log.warning("%s: the reply of %.12s... was damaged and is asked for again", self.path, key)
            return None
        return str(value)

    def put(self, key: str, value: str) -> None:
        """Store ``value``; one that is there already gives way."""
        self._run("INSERT OR REPLACE INTO replies (key, value, seal) VALUES (?, ?, ?)", key, value, _seal(key, value))

    def __len__(self) -> int:
        return int(self._run("SELECT COUNT(*) FROM replies")[0][0])

    def close(self) -> None:
        """Let go of the file; the cache is of no use afterwards."""
        self._database.close()

    def _run(self, statement: str, *values: str) -> list[Any]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: object) -> ValueError:
        return ValueError(f"{self.path}: cannot be used as a cache of replies ({error}); mend it or name another file")


def _seal(key: str, value: object) -> str:
    return seal({"key": key, "value": str(value)})


def request_key(endpoint: Endpoint, messages: Sequence[Message], version: str) -> str:
    """SHA-256, 64 hex digits, over all that decides what a reply says or means.

    These are the address, the model and its parameters, the messages, whether the schema is sent along, and
    ``version`` (see `code_version`). Concurrency, deadlines, attempts, budgets and the API key do not count.
    """
    content = {
        "url": endpoint.url,
        "parameters": endpoint.parameters(),
        "messages": [[turn.role, turn.content] for turn in messages],
        "schema_sent": endpoint.json_schema,
        "version": version,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def code_version(modules: Iterable[ModuleType]) -> str:
    """Digest (64 hex digits) over the source text of modules: of those that write the prompts and read the replies.

    A change in any of them, be it a comment, makes old replies unreachable: asking again costs less than being wrong.
    """
    sources = sorted((module.__name__, inspect.getsource(module)) for module in modules)
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()
