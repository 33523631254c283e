"""What a model's reply holds: its text, thoughts, or one JSON object under a schema; a cache of replies."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

UNANSWERED = frozenset({"rate_limited", "server_error", "timeout", "connection", "not_completion"})
"""Kinds in which no model answered; many in a row mean that the endpoint is down"""
Schema = TypeVar("Schema", bound=BaseModel)

_THOUGHTS = re.compile(r"\s*<(think|thinking)>(.*?)(</\1>|\Z)", re.DOTALL)
_THOUGHTS_END = "</think>"
_REFUSAL = re.compile(
    r"(i['’]?m|i am) (very |so |really )?(sorry|unable|not able)\b|sorry\b"
    r"|i (can['’]?t|cannot|can not|won['’]?t|will not|must decline)\b|as an ai\b",
    re.IGNORECASE,
)


class CallFailed(Exception):  # noqa: N818 - an outcome on its way, not an error that a user meets
    """A call without a usable reply: its ``kind`` and one line of ``detail``.

    ``rate_limited``, ``server_error``, ``timeout``, ``connection`` and ``not_completion`` are no reply (`UNANSWERED`);
    ``rejected``: the endpoint does not take this request. Not sent: ``endpoint_down`` after many calls without an
    answer, ``budget`` when the calls allowed are used up. Of a reply: ``empty``, ``refusal``, ``truncated``,
    ``not_json``, ``wrong_schema``, or the reader's own.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, " ".join(detail.split())[:400]


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a completion, and the tokens of the call."""

    text: str
    tokens: int | None = None


class ReplyCache:
    """Replies in one SQLite file, so that none is paid for twice; several processes may write it.

    Raises ``ValueError`` where it cannot be used.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._run("PRAGMA journal_mode=WAL")
        self._run("CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, value TEXT NOT NULL)")

    def get(self, key: str) -> Reply | None:
        """The reply stored under ``key``."""
        rows = self._run("SELECT value FROM replies WHERE key = ?", key)
        return Reply(**json.loads(rows[0][0])) if rows else None

    def put(self, key: str, reply: Reply) -> None:
        """Store a reply; one that is there already is replaced."""
        self._run("INSERT OR REPLACE INTO replies (key, value) VALUES (?, ?)", key, json.dumps(asdict(reply)))

    def _run(self, statement: str, *values: str) -> list[Any]:
        try:
            with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as database:
                return database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            why = f"cannot be used as a cache of replies ({error}); name another file"
            raise ValueError(f"{self.path}: {why}") from None


def reply_of(completion: Any) -> Reply:
    """The first choice. Raises `CallFailed`: not_completion, refusal, truncated or empty."""
    try:
        if not completion.choices:
            raise CallFailed("empty", "the completion has no choices")
        choice, usage = completion.choices[0], completion.usage
        message, text = choice.message, (choice.message.content or "").strip()
    except (AttributeError, TypeError) as error:
        raise CallFailed("not_completion", str(error)) from None
    if message.refusal or choice.finish_reason == "content_filter":
        raise CallFailed("refusal", message.refusal or "stopped by a content filter")
    if choice.finish_reason == "length":
        raise CallFailed("truncated", "the reply was cut; allow more max_tokens")
    if not text:
        raise CallFailed("empty", "the completion has no text")
    counts = [getattr(usage, f"{kind}_tokens", None) for kind in ("prompt", "completion")]
    known = [count for count in counts if count is not None]
    return Reply(message.content, sum(known) if len(known) == 2 else None)


def first_errors(error: ValidationError) -> str:
    """The first three broken rules, without the values (a model's text) that broke them."""
    lines = []
    for item in error.errors(include_url=False, include_input=False, include_context=False)[:3]:
        place = ".".join(map(str, item["loc"])) or "object"
        lines.append(f"{place}: {item['msg'].removeprefix('Value error, ')}")
    return "; ".join(lines)


def read_object(reply: Reply, schema: type[Schema]) -> Schema:
    """The one JSON object in a reply (bare, in a code fence or within prose; thoughts are skipped) as a ``schema``.

    Raises `CallFailed`: not_json, refusal or wrong_schema.
    """
    text = split_thoughts(reply.text)[1].strip()
    start, end = text.find("{"), text.rfind("}") + 1
    if start < 0 and refuses(text):
        raise CallFailed("refusal", text)
    if not 0 <= start < end or text.startswith("["):
        raise CallFailed("not_json", "the reply holds no JSON object, expected exactly one")
    try:
        return schema.model_validate_json(text[start:end], strict=True)
    except ValidationError as error:
        kind = "not_json" if error.errors(include_url=False)[0]["type"] == "json_invalid" else "wrong_schema"
        raise CallFailed(kind, first_errors(error)) from None


def split_thoughts(text: str) -> tuple[str, str]:
    """A model's thoughts, and what stands behind them: the text of ``<think>`` blocks at its beginning, and the rest.

    A chat template may have opened the block already: then a ``</think>`` at the end or beginning of a line ends it.
    Behind a block that does not end there is nothing. Without a block the text comes back as it is.
    """
    thoughts, end = [], 0
    while block := _THOUGHTS.match(text, end):
        thoughts.append(block[2])
        end = block.end()
    if not end and _THOUGHTS_END in text:
        before, _, after = text.partition(_THOUGHTS_END)
        alone = before.rstrip(" \t").endswith("\n") or after.lstrip(" \t")[:1] in ("", "\n", "\r")
        if alone and "<think" not in before:
            return before.strip(), after.lstrip()
    return "\n".join(thoughts).strip(), text[end:].lstrip() if end else text


def refuses(text: str) -> bool:
    """Whether a text begins as refusals in English do."""
    return _REFUSAL.match(text.strip()) is not None
