"""A bank: responses of many LLMs to the same queries. In: a folder of three files or plain data. Out: a checked `Bank`.

The folder holds ``bank.json`` (name, baseline), ``queries.jsonl`` (id, prompt, topic) and ``responses.jsonl`` (author,
query_id, text). What `Bank.save` writes has a seal in every line, so that a changed byte is found; lines that people
write need none. Every author must answer every query; what is missing is named, never scored as a loss. A bank in
memory holds nothing that its files could not bring back.
"""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crm.io.files import replace_file
from crm.io.intake import Intake
from crm.io.rows import check_text, decode, printable
from crm.schema import Message, RecordError, messages, short
from crm.sealed import SEAL, check_line, sealed_line

HEAD, QUERIES, RESPONSES = "bank.json", "queries.jsonl", "responses.jsonl"


@dataclass(frozen=True, slots=True)
class BankQuery:
    """One query of a bank: a prompt (non-empty) and the topic it belongs to.

    Raises `RecordError` for an id or a topic that is blank or no text, and for lone surrogates anywhere.
    """

    id: str
    prompt: tuple[Message, ...]
    topic: str

    def __post_init__(self) -> None:
        for name in ("id", "topic"):
            _check_string(name, getattr(self, name))
        object.__setattr__(self, "prompt", messages(self.prompt, "prompt"))
        for index, turn in enumerate(self.prompt):
            check_text(f"prompt[{index}].content", turn.content)


@dataclass(frozen=True)
class Bank:
    """``responses[author][query id]`` is the text of an author's response; ``baseline`` is one of the authors.

    Raises `RecordError` (a ``ValueError``; its field is ``name``, ``baseline``, ``queries`` or ``responses``) for
    duplicate query ids, an unknown baseline, missing, surplus or non-text responses, names that are blank or no text,
    and for lone surrogates anywhere.
    """

    name: str
    baseline: str
    queries: tuple[BankQuery, ...]
    responses: Mapping[str, Mapping[str, str]] = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))
        _check_string("name", self.name)
        _check_string("baseline", self.baseline)
        _check_queries(self.queries)
        if self.baseline not in self.responses:
            authors = printable(", ".join(sorted(map(str, self.responses)))) or "(no authors)"
            why = f"{short(self.baseline)} has no responses in bank {short(self.name)}; choose one of {authors}"
            raise RecordError("baseline", why)
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
        return self.of_queries([query for query in self.queries if query.topic in wanted])

    def of_queries(self, queries: Sequence[BankQuery]) -> Bank:
        """The bank with these of its queries only."""
        responses = {who: {query.id: texts[query.id] for query in queries} for who, texts in self.responses.items()}
        return Bank(self.name, self.baseline, tuple(queries), responses)

    def save(self, folder: Path) -> None:
        """Write the three files into ``folder``, made if needed; existing ones are replaced, each in one step.

        Raises ``ValueError``, before anything is written, for a response too long to be read back.
        """
        queries = (
            {"id": query.id, "prompt": [asdict(turn) for turn in query.prompt], "topic": query.topic}
            for query in self.queries
        )
        responses = (
            {"author": author, "query_id": query.id, "text": self.responses[author][query.id]}
            for author in self.authors
            for query in self.queries
        )
        files = {QUERIES: _lines(queries), RESPONSES: _lines(responses)}
        # The head last: without it there is no bank, and a folder in which it is missing can be written again.
        files[HEAD] = sealed_line({"name": self.name, "baseline": self.baseline})
        for name, content in files.items():
            replace_file(folder / name, content)


def load_bank(folder: Path) -> Bank:
    """Read a bank from a folder.

    A bad line or a missing file raises ``ValueError`` with ``file:line: field: why``; what is wrong with a file as a
    whole comes as ``file: field: why``.
    """
    for name in (HEAD, QUERIES, RESPONSES):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file; a bank is {HEAD}, {QUERIES} and {RESPONSES}")
    name, baseline = _read_head(folder / HEAD)
    queries = _read_queries(folder / QUERIES)
    responses = _read_responses(folder / RESPONSES)
    if not responses:
        raise ValueError(f"{folder / RESPONSES}: holds no responses; fetch the file again, or save the bank again")
    try:
        return Bank(name, baseline, queries, responses)
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


def _check_queries(queries: tuple[BankQuery, ...]) -> None:
    if not queries:
        raise RecordError("queries", "the bank holds none; give at least one query")
    seen: set[str] = set()
    for query in queries:
        if query.id in seen:
            raise RecordError("queries", f"the id {short(query.id)} occurs twice; every query needs an id of its own")
        seen.add(query.id)


def _check_author(author: str, texts: Mapping[str, str], ids: set[str]) -> None:
    _check_string("responses", author)
    who = short(author)
    missing, surplus = sorted(ids - texts.keys()), sorted(map(short, texts.keys() - ids))
    if missing:
        raise RecordError(
            "responses",
            f"{who} lacks {len(missing)} of {len(ids)} queries (first: {short(missing[0])});"
            " add them, or leave the author or these queries out of the bank",
        )
    if surplus:
        raise RecordError("responses", f"{who} answers {surplus[0]}, which is not a query of the bank")
    for query_id, text in texts.items():
        try:
            _check_string("text", text, blank=True)
        except RecordError as error:
            raise RecordError("responses", f"{who} on {short(query_id)}: {error.why}") from None


def _check_string(name: str, value: object, *, blank: bool = False) -> None:
    if not isinstance(value, str) or not (blank or value.strip()):
        raise RecordError(name, f"expected {'' if blank else 'non-blank '}text, got {short(value)}")
    check_text(name, value)


def _check_fields(row: object, names: tuple[str, ...]) -> None:
    if not isinstance(row, dict) or set(row) - {SEAL} != set(names):
        found = ", ".join(sorted(row)) if isinstance(row, dict) else type(row).__name__
        raise RecordError("row", f"expected exactly the fields {', '.join(names)}; found {printable(found) or 'none'}")
    try:
        check_line(row)
    except ValueError as error:
        raise RecordError(SEAL, f"{error}; fetch the file again, or remove the seal of what you changed") from None


def _lines(rows: Iterable[dict[str, Any]]) -> str:
    return "".join(map(sealed_line, rows))


def _read_head(path: Path) -> tuple[str, str]:
    """Name and baseline of a bank."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path")
    try:
        row = decode(path.read_bytes().removeprefix(codecs.BOM_UTF8))
        _check_fields(row, ("name", "baseline"))
        for name, value in row.items():
            _check_string(name, value)
    except RecordError as error:
        raise ValueError(f"{path}: {printable(error.field)}: {printable(error.why)}; save the bank again") from None
    return row["name"], row["baseline"]


def _read_queries(path: Path) -> tuple[BankQuery, ...]:
    first: dict[str, int] = {}

    def parse(row: dict[str, Any], line: int) -> BankQuery:
        _check_fields(row, ("id", "prompt", "topic"))
        query = BankQuery(row["id"], row["prompt"], row["topic"])
        if first.setdefault(query.id, line) != line:
            raise RecordError("id", f"{short(query.id)} is already on line {first[query.id]}; give each query its own")
        return query

    return tuple(Intake(strict=True).lines(path, parse))


def _read_responses(path: Path) -> dict[str, dict[str, str]]:
    responses: dict[str, dict[str, str]] = {}

    def parse(row: dict[str, Any], _line: int) -> None:
        _check_fields(row, ("author", "query_id", "text"))
        _check_string("author", row["author"])
        _check_string("query_id", row["query_id"])
        _check_string("text", row["text"], blank=True)
        answers = responses.setdefault(row["author"], {})
        if row["query_id"] in answers:
            why = f"{short(row['author'])} answers {short(row['query_id'])} twice; keep one answer"
            raise RecordError("query_id", why)
        answers[row["query_id"]] = row["text"]

    for _ in Intake(strict=True).lines(path, parse):
        pass
    return responses
