"""A bank: responses of many LLMs to the same queries, in memory and as a folder of three files.

The folder holds ``bank.json`` (name, baseline), ``queries.jsonl`` (id, prompt, topic) and ``responses.jsonl`` (author,
query_id, text). Every author must answer every query; what is missing is named, never scored as a loss.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from crm.io.files import replace_file
from crm.schema import Message, RecordError, messages, short

HEAD, QUERIES, RESPONSES = "bank.json", "queries.jsonl", "responses.jsonl"
Name = Annotated[str, StringConstraints(pattern=r"\S")]
"""Not blank."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Head(_Line):
    name: Name
    baseline: Name


class _Query(_Line):
    id: Name
    prompt: list[dict[str, str]]
    topic: Name


class _Response(_Line):
    author: Name
    query_id: Name
    text: str


AnyLine = TypeVar("AnyLine", bound=_Line)


@dataclass(frozen=True, slots=True)
class BankQuery:
    """One query of a bank: a prompt (non-empty) and the topic it belongs to."""

    id: str
    prompt: tuple[Message, ...]
    topic: str

    def __post_init__(self) -> None:
        for name in ("id", "topic"):
            _check_name(name, getattr(self, name))
        object.__setattr__(self, "prompt", messages(self.prompt, "prompt"))


@dataclass(frozen=True)
class Bank:
    """``responses[author][query id]`` is the text of an author's response; ``baseline`` is one of the authors.

    Raises `RecordError` (a ``ValueError``; its field is ``name``, ``baseline``, ``queries`` or ``responses``) for
    duplicate query ids, an unknown baseline, missing, surplus or non-text responses, and blank names.
    """

    name: str
    baseline: str
    queries: tuple[BankQuery, ...]
    responses: Mapping[str, Mapping[str, str]] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        _check_name("name", self.name)
        ids = [query.id for query in self.queries]
        if not ids:
            raise RecordError("queries", "the bank holds none; give at least one query")
        if len(set(ids)) < len(ids):
            twice = next(name for name in ids if ids.count(name) > 1)
            raise RecordError("queries", f"the id {short(twice)} occurs twice; every query needs an id of its own")
        if self.baseline not in self.responses:
            authors = ", ".join(sorted(map(str, self.responses))) or "(no authors)"
            why = f"{short(self.baseline)} has no responses in bank {short(self.name)}; choose one of {authors}"
            raise RecordError("baseline", why)
        for author, texts in self.responses.items():
            _check_responses(author, texts, set(ids))

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
        return self.of_queries([query for query in self.queries if query.topic in wanted])

    def of_queries(self, queries: Sequence[BankQuery]) -> Bank:
        """The bank with these of its queries only."""
        responses = {who: {query.id: texts[query.id] for query in queries} for who, texts in self.responses.items()}
        return Bank(self.name, self.baseline, tuple(queries), responses)

    def save(self, folder: Path) -> None:
        """Write the three files into ``folder``, made if needed; existing ones are replaced, each in one step."""
        queries = (
            {"id": query.id, "prompt": [asdict(turn) for turn in query.prompt], "topic": query.topic}
            for query in self.queries
        )
        responses = (
            {"author": author, "query_id": query.id, "text": self.responses[author][query.id]}
            for author in self.authors
            for query in self.queries
        )
        replace_file(folder / QUERIES, _lines(queries))
        replace_file(folder / RESPONSES, _lines(responses))
        # The head last: without it there is no bank, and a folder in which it is missing can be written again.
        replace_file(folder / HEAD, _lines([{"name": self.name, "baseline": self.baseline}]))


def load_bank(folder: Path) -> Bank:
    """Read a bank from a folder.

    A bad line or a missing file raises ``ValueError`` with ``file:line: field: why``; what is wrong with a file as a
    whole comes as ``file: field: why``.
    """
    for name in (HEAD, QUERIES, RESPONSES):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file; a bank is {HEAD}, {QUERIES} and {RESPONSES}")
    head = _parsed(_Head, (folder / HEAD).read_bytes(), str(folder / HEAD))
    queries: list[BankQuery] = []
    for place, query in _read(folder / QUERIES, _Query):
        try:
            queries.append(BankQuery(query.id, query.prompt, query.topic))  # type: ignore[arg-type]
        except RecordError as error:
            raise ValueError(f"{place}: {error}") from None
    responses: dict[str, dict[str, str]] = {}
    for place, row in _read(folder / RESPONSES, _Response):
        if row.query_id in responses.setdefault(row.author, {}):
            why = f"{short(row.author)} answers {short(row.query_id)} twice; keep one answer"
            raise ValueError(f"{place}: query_id: {why}")
        responses[row.author][row.query_id] = row.text
    try:
        return Bank(head.name, head.baseline, tuple(queries), responses)
    except RecordError as error:
        file = {"queries": QUERIES, "responses": RESPONSES}.get(error.field, HEAD)
        raise ValueError(f"{folder / file}: {error}") from None


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


def _check_name(name: str, value: object) -> None:
    if not isinstance(value, str) or not value.strip():
        raise RecordError(name, f"expected non-blank text, got {short(value)}")


def _check_responses(author: str, texts: Mapping[str, str], ids: set[str]) -> None:
    _check_name("responses", author)
    who, missing = short(author), sorted(ids - texts.keys())
    if missing:
        raise RecordError(
            "responses",
            f"{who} lacks {len(missing)} of {len(ids)} queries (first: {short(missing[0])});"
            " add them, or leave the author or these queries out of the bank",
        )
    for key, text in texts.items():
        if key not in ids:
            raise RecordError("responses", f"{who} answers {short(key)}, which is not a query of the bank")
        if not isinstance(text, str):
            raise RecordError("responses", f"{who} on {short(key)}: expected text, got {short(text)}")


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _read(path: Path, kind: type[AnyLine]) -> Iterator[tuple[str, AnyLine]]:
    """Place (``file:line``) and content of every line that is not blank."""
    for number, line in enumerate(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield f"{path}:{number}", _parsed(kind, line, f"{path}:{number}")


def _parsed(kind: type[AnyLine], line: bytes, place: str) -> AnyLine:
    """Raises ``ValueError`` as ``place: field: why, got value``."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"])) or "row"
        why = "expected non-blank text" if first["type"] == "string_pattern_mismatch" else first["msg"]
        raise ValueError(f"{place}: {field}: {why}, got {short(first['input'])}") from None
