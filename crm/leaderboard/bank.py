"""A bank: responses of many LLMs to the same queries. In: a folder of three files or plain data. Out: a checked `Bank`.

The folder holds ``bank.json`` (name, baseline), ``queries.jsonl`` (id, prompt, topic) and ``responses.jsonl`` (author,
query_id, text). Every author must answer every query; what is missing is named, never scored as a loss.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crm.schema import Message, RecordError, messages


@dataclass(frozen=True, slots=True)
class BankQuery:
    """One query of a bank: a prompt (non-empty) and the topic it belongs to."""

    id: str
    prompt: tuple[Message, ...]
    topic: str

    def __post_init__(self) -> None:
        for name in ("id", "topic"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise RecordError(name, f"expected non-blank text, got {value!r}")
        object.__setattr__(self, "prompt", messages(self.prompt, "prompt"))


@dataclass(frozen=True)
class Bank:
    """``responses[author][query id]`` is the text of an author's response; ``baseline`` is one of the authors.

    Raises ``ValueError`` for duplicate query ids, an unknown baseline, and missing, surplus or non-text responses.
    """

    name: str
    baseline: str
    queries: tuple[BankQuery, ...]
    responses: Mapping[str, Mapping[str, str]] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        _check_queries(self.queries)
        if self.baseline not in self.responses:
            raise ValueError(
                f"baseline: {self.baseline!r} has no responses in bank {self.name!r};"
                f" choose one of {', '.join(sorted(self.responses)) or '(no authors)'}"
            )
        ids = {query.id for query in self.queries}
        for author, texts in self.responses.items():
            _check_author(author, texts, ids)

    @property
    def authors(self) -> tuple[str, ...]:
        """All authors, sorted, the baseline included."""
        return tuple(sorted(self.responses))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the queries, sorted, each once."""
        return tuple(sorted({query.topic for query in self.queries}))

    def select(self, topics: Sequence[str] | None) -> Bank:
        """The bank with the queries of some topics only; ``None`` keeps all. Unknown topics raise ``ValueError``."""
        if topics is None:
            return self
        wanted = check_topics(topics, self.topics)
        queries = tuple(query for query in self.queries if query.topic in wanted)
        responses = {
            author: {query.id: texts[query.id] for query in queries} for author, texts in self.responses.items()
        }
        return Bank(self.name, self.baseline, queries, responses)

    def save(self, folder: Path) -> None:
        """Write the three files into ``folder``, made if needed; existing files of these names are replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        head = json.dumps({"name": self.name, "baseline": self.baseline}, ensure_ascii=False, indent=2)
        (folder / "bank.json").write_text(head + "\n", encoding="utf-8")
        queries = (
            {"id": query.id, "prompt": [{"role": turn.role, "content": turn.content} for turn in query.prompt]}
            | {"topic": query.topic}
            for query in self.queries
        )
        _write_lines(folder / "queries.jsonl", queries)
        responses = (
            {"author": author, "query_id": query.id, "text": self.responses[author][query.id]}
            for author in self.authors
            for query in self.queries
        )
        _write_lines(folder / "responses.jsonl", responses)


def load_bank(folder: Path) -> Bank:
    """Read a bank from a folder. A bad line or a missing file raises ``ValueError`` with ``file:line: field: why``."""
    for name in ("bank.json", "queries.jsonl", "responses.jsonl"):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file; a bank is bank.json, queries.jsonl and responses.jsonl")
    head = _parse(folder / "bank.json", 0, (folder / "bank.json").read_bytes(), ("name", "baseline"))
    queries = []
    for place, row in _read_lines(folder / "queries.jsonl", ("id", "prompt", "topic")):
        try:
            queries.append(BankQuery(row["id"], row["prompt"], row["topic"]))
        except RecordError as error:
            raise ValueError(f"{place}: {error}") from None
    responses: dict[str, dict[str, str]] = {}
    for place, row in _read_lines(folder / "responses.jsonl", ("author", "query_id", "text")):
        for name, value in row.items():
            if not isinstance(value, str):
                raise ValueError(f"{place}: {name}: expected text, got {value!r:.60}")
        if row["query_id"] in responses.setdefault(row["author"], {}):
            raise ValueError(f"{place}: query_id: {row['author']!r} answers {row['query_id']!r} twice; keep one answer")
        responses[row["author"]][row["query_id"]] = row["text"]
    return Bank(str(head["name"]), str(head["baseline"]), tuple(queries), responses)


def check_baseline(bank: Bank, baseline: str) -> None:
    """Raise ``ValueError``, naming the authors there are, for a baseline that the bank lacks."""
    if baseline not in bank.responses:
        raise ValueError(
            f"bank.baseline={baseline!r}: not in bank {bank.name!r}; choose one of {', '.join(bank.authors)}"
        )


def check_topics(wanted: Sequence[str], known: Sequence[str]) -> set[str]:
    """``wanted`` as a set, if not empty and all are known; else ``ValueError`` naming the nearest known topic."""
    if isinstance(wanted, str) or not wanted:
        raise ValueError(f"topics: expected a non-empty list, got {wanted!r}; known topics: {', '.join(sorted(known))}")
    for topic in wanted:
        if topic not in known:
            near = difflib.get_close_matches(topic, known, n=1, cutoff=0.0)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"topics: {topic!r} is not in the bank; {hint}Known: {', '.join(sorted(known))}")
    return set(wanted)


def _check_queries(queries: tuple[BankQuery, ...]) -> None:
    if not queries:
        raise ValueError("queries: the bank holds none; give at least one query")
    seen: set[str] = set()
    for query in queries:
        if query.id in seen:
            raise ValueError(f"queries: the id {query.id!r} occurs twice; every query needs an id of its own")
        seen.add(query.id)


def _check_author(author: str, texts: Mapping[str, str], ids: set[str]) -> None:
    missing, surplus = sorted(ids - texts.keys()), sorted(texts.keys() - ids)
    if missing:
        raise ValueError(
            f"responses: {author!r} lacks {len(missing)} of {len(ids)} queries (first: {missing[0]!r});"
            " add them, or leave the author or these queries out of the bank"
        )
    if surplus:
        raise ValueError(f"responses: {author!r} answers {surplus[0]!r}, which is not a query of the bank")
    for query_id, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"responses: {author!r} on {query_id!r}: expected text, got {type(text).__name__}")


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _parse(path: Path, line: int, raw: bytes, names: tuple[str, ...]) -> dict[str, Any]:
    place = f"{path}:{line}" if line else str(path)
    try:
        row = json.loads(raw.decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{place}: not a line of UTF-8 JSON ({error})") from None
    if not isinstance(row, dict) or set(row) != set(names):
        found = ", ".join(sorted(row)) if isinstance(row, dict) else type(row).__name__
        raise ValueError(f"{place}: expected exactly the fields {', '.join(names)}; found {found or 'none'}")
    return row


def _read_lines(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, dict[str, Any]]]:
    # Split at \n only: str.splitlines would also cut at U+2028 inside a text.
    for line, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if raw.strip():
            yield f"{path}:{line}", _parse(path, line, raw, names)
