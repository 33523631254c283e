"""Models that people add to a running server. In: a file, or the endpoint of the configuration. Out: a larger bank.

What was added is kept in a folder, a file a model, and is there again after a restart.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.io.chat.cache import ReplyCache
from crm.io.chat.endpoint import Endpoint
from crm.io.files import replace_file
from crm.io.untrusted import Limits
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank.collecting import Collector
from crm.leaderboard.bank.responses import check_complete, read_responses, with_author, without_author
from crm.page.index_ranker import AnyRanker
from crm.sealed import read_sealed, sealed_text

MAX_MODELS = 100
"""Of a bank; more are not compared in a table that people can read."""
LIMITS = Limits(decompressed_bytes=50_000_000, rows=100_000, columns=1_000)
"""Of a file that somebody sends."""
ARRAY_LIMITS = Limits(decompressed_bytes=10_000_000, rows=100_000, columns=1_000)
"""Of one that is a JSON array: it is held whole, and takes some 30 times its bytes."""
REPLIES = "replies.sqlite"
NEXT_STEP = "move it away, and add the model again"
"""What to do about a file that cannot be used."""
FORMAT = 2
"""Of a file of an added model."""


class TokenError(ValueError):
    """Whoever asks is not the one who added the model."""


@dataclass(frozen=True)
class Added:
    """The bank with a model more; whoever has ``token`` may remove it."""

    model: str
    bank: Bank
    token: str


class Additions:
    """Adds models to ``ranker``'s bank; ``folder`` belongs to that bank alone.

    ``endpoint`` may be asked for responses; it is named by whoever runs the server, never by a visitor.
    """

    def __init__(self, ranker: AnyRanker, folder: Path, endpoint: Endpoint | None = None) -> None:
        self.ranker, self.folder, self.endpoint = ranker, folder, endpoint
        self._lock = threading.Lock()

    def restore(self) -> list[str]:
        """Add what was added before; the names.

        Raises ``ValueError`` that names the file, for one that is damaged or no longer fits the bank.
        """
        names = []
        for path in self._paths():
            kept = _read(path)
            ids = {query.id for query in self.ranker.bank.queries}
            answers = {key: text for key, text in kept["responses"].items() if key in ids}
            try:
                check_complete(self.ranker.bank.queries, answers, "responses")
                self.ranker.use(with_author(self.ranker.bank, kept["author"], answers))
            except ValueError as error:
                raise ValueError(f"{path}: {error}; {NEXT_STEP}") from None
            names.append(kept["author"])
        return names

    def add_file(self, author: str, path: Path) -> Added:
        """Add a model by a file of its responses, which nobody has to trust: it is read within `LIMITS`.

        Raises ``ValueError`` as `read_responses` and `with_author` do.
        """
        array = path.name.lower().removesuffix(".gz").endswith(".json")
        limits = ARRAY_LIMITS if array else LIMITS
        return self._add(author, read_responses(path, self.ranker.bank.queries, limits))

    def ask(self, author: str) -> Generator[tuple[int, int] | Added]:
        """Ask the endpoint for every response: how many of how many are there; at the end what was added.

        Replies are kept as they come: after an interruption only what is missing is asked for. Raises ``ValueError``
        without an endpoint, for a name that cannot be used, and where responses are missing in the end.
        """
        if self.endpoint is None:
            raise ValueError("endpoint: none is configured; start the server with endpoint.base_url and endpoint.model")
        queries = self.ranker.bank.queries
        with_author(self.ranker.bank, author, {query.id: "" for query in queries})  # before anything is paid for
        self.folder.mkdir(parents=True, exist_ok=True)
        cache = ReplyCache(self.folder / REPLIES)
        answers: dict[str, str] = {}
        try:
            for portion in Collector(self.endpoint, cache).collect(queries):
                answers |= portion
                yield len(answers), len(queries)
        finally:
            cache.close()
        check_complete(queries, answers, "endpoint")
        yield self._add(author, answers)

    def remove(self, author: str, token: str) -> Bank:
        """The bank without a model that was added. Raises `TokenError` unless ``token`` is the one given for it."""
        with self._lock:
            path, kept = next(((path, kept) for path, kept in self._sound() if kept["author"] == author), (None, {}))
            if path is None or not secrets.compare_digest(_digest(token), kept.get("token", "")):
                raise TokenError("token: this is not the token that was given when a model of this name was added")
            path.unlink()
            self.ranker.use(without_author(self.ranker.bank, author))
            return self.ranker.bank

    def _paths(self) -> list[Path]:
        """Files of what was added, the first first: those that have a number as their name."""
        return sorted((path for path in self.folder.glob("*.json") if path.stem.isdecimal()), key=_number)

    def _sound(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Them and what they hold; one that is damaged meanwhile is told at the next start."""
        for path in self._paths():
            with suppress(ValueError):
                yield path, _read(path)

    def _add(self, author: str, answers: Mapping[str, str]) -> Added:
        with self._lock:
            if len(self.ranker.bank.authors) >= MAX_MODELS:
                raise ValueError(f"author: the bank has {MAX_MODELS} models, which is the most that are compared")
            bank = with_author(self.ranker.bank, author, answers)
            token = secrets.token_urlsafe(16)
            kept = {"format": FORMAT, "author": author.strip(), "responses": dict(answers), "token": _digest(token)}
            # Named by number: an author's name is not a file's name.
            number = 1 + max(map(_number, self._paths()), default=-1)
            self.folder.mkdir(parents=True, exist_ok=True)
            replace_file(self.folder / f"{number:03d}.json", sealed_text(kept, indent=None))
            self.ranker.use(bank)
            return Added(author.strip(), bank, token)


def _number(path: Path) -> int:
    return int(path.stem)


def _read(path: Path) -> dict[str, Any]:
    """What a file holds. Raises ``ValueError`` that names it, for one that is damaged."""
    kept = read_sealed(path, NEXT_STEP, version=FORMAT)
    author, responses = kept.get("author"), kept.get("responses")
    if not isinstance(author, str) or not isinstance(responses, dict):
        raise ValueError(f"{path}: expected an object with author and responses; {NEXT_STEP}")
    if not all(isinstance(text, str) for text in responses.values()):
        raise ValueError(f"{path}: expected responses that are texts; {NEXT_STEP}")
    return kept


def _digest(token: str) -> str:
    """What is kept of a token: it cannot be found again from it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
