"""A bank: responses of many LLMs to the same queries, in memory and as a folder of three files.

The folder holds ``bank.json`` (name, baseline), ``queries.jsonl`` (id, prompt, topic) and ``responses.jsonl`` (author,
query_id, text). Every author must answer every query; what is missing is named, never scored as a loss.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, StringConstraints
from pydantic.dataclasses import dataclass

from crm.config import nearest
from crm.io.files import replace_file
from crm.io.rows import Intake
from crm.schema import Message, RecordError, Turns, short, validated

HEAD, QUERIES, RESPONSES = "bank.json", "queries.jsonl", "responses.jsonl"
Name = Annotated[str, StringConstraints(pattern=r"\S")]
"""Not blank."""
EXACT = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=EXACT)
class BankQuery:
    """One query of a bank: a prompt (non-empty) and the topic it belongs to."""

    id: Name
    prompt: Turns
    topic: Name


@dataclass(frozen=True, config=EXACT)
class _Response:
    author: Name
    query_id: Name
    text: str


@dataclass(frozen=True, config=EXACT)
class _Head:
    name: Name
    baseline: Name


@dataclasses.dataclass(frozen=True)
class Bank:
    """``responses[author][query id]`` is the text of an author's response; ``baseline`` is one of the authors.

    Raises `RecordError` (a ``ValueError``; its field is ``baseline``, ``queries`` or ``responses``) for no queries,
    duplicate query ids, an unknown baseline, and missing or surplus responses.
    """

    name: str
    baseline: str
    queries: tuple[BankQuery, ...] = dataclasses.field(repr=False)
    responses: Mapping[str, Mapping[str, str]] = dataclasses.field(repr=False)
    folder: Path | None = dataclasses.field(default=None, repr=False, compare=False)
    """Where `load_bank` found it."""

    def __post_init__(self) -> None:
        ids = [query.id for query in self.queries]
        if not ids:
            raise RecordError("queries", "the bank holds none; give at least one query")
        if twice := [name for name in ids if ids.count(name) > 1] if len(set(ids)) < len(ids) else []:
            raise RecordError("queries", f"the id {short(twice[0])} occurs twice; every query needs an id of its own")
        if self.baseline not in self.responses:
            why = f"{short(self.baseline)} has no responses in bank {short(self.name)}; choose one of"
            raise RecordError("baseline", f"{why} {', '.join(self.authors) or '(no authors)'}")
        for author, texts in self.responses.items():
            if missing := sorted(set(ids) - texts.keys()):
                raise RecordError(
                    "responses",
                    f"{short(author)} lacks {len(missing)} of {len(ids)} queries (first: {short(missing[0])});"
                    " add them, or leave the author or these queries out of the bank",
                )
            if more := sorted(texts.keys() - set(ids)):
                why = f"{short(author)} answers {short(more[0])}, which is not a query of the bank"
                raise RecordError("responses", why)

    @property
    def authors(self) -> tuple[str, ...]:
        """All authors, sorted, the baseline included."""
        return tuple(sorted(self.responses))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the queries, sorted, each once."""
        return tuple(sorted({query.topic for query in self.queries}))

    def select(self, topics: Sequence[str]) -> Bank:
        """The bank with the queries of some topics only; of none, the whole. Unknown ones raise ``ValueError``."""
        for topic in topics:
            if topic not in self.topics:
                known = f"{', '.join(self.topics)}{nearest(topic, self.topics)}"
                raise ValueError(f"topics: {topic!r} is not in the bank, there are {known}")
        return self.of_queries([query for query in self.queries if not topics or query.topic in topics])

    def of_queries(self, queries: Sequence[BankQuery]) -> Bank:
        """The bank with these of its queries only."""
        responses = {who: {query.id: texts[query.id] for query in queries} for who, texts in self.responses.items()}
        return dataclasses.replace(self, queries=tuple(queries), responses=responses)

    def save(self, folder: Path) -> None:
        """Write the three files into ``folder``, made if needed; existing ones are replaced."""
        responses = (
            {"author": author, "query_id": query.id, "text": self.responses[author][query.id]}
            for author in self.authors
            for query in self.queries
        )
        # The head last: a folder without it is no bank, and can be written again.
        for name, rows in {
            QUERIES: map(dataclasses.asdict, self.queries),
            RESPONSES: responses,
            HEAD: [{"name": self.name, "baseline": self.baseline}],
        }.items():
            replace_file(folder / name, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def text_key(prompt: Sequence[Message], response: str) -> str:
    """32 hex digits of a conversation; names and ids do not count."""
    turns = [[turn.role, turn.content] for turn in prompt]
    return hashlib.sha256(json.dumps([turns, response]).encode()).hexdigest()[:32]


def load_bank(folder: Path) -> Bank:
    """Read a bank from a folder.

    A bad line or a missing file raises ``ValueError`` with ``file:line: field: why``; what is wrong with a file as a
    whole comes as ``file: field: why``.
    """
    for name in (HEAD, QUERIES, RESPONSES):
        if not (folder / name).is_file():
            raise ValueError(f"{folder / name}: no such file; a bank is {HEAD}, {QUERIES} and {RESPONSES}")
    responses: dict[str, dict[str, str]] = {}

    def add(row: Any, _line: int) -> None:
        given: _Response = validated(_Response, row)
        if given.query_id in responses.setdefault(given.author, {}):
            why = f"{short(given.author)} answers {short(given.query_id)} twice; keep one answer"
            raise RecordError("query_id", why)
        responses[given.author][given.query_id] = given.text

    intake = Intake(strict=True)
    queries = tuple(intake.rows(folder / QUERIES, lambda row, _: validated(BankQuery, row)))
    list(intake.rows(folder / RESPONSES, add))
    (head,) = intake.rows(folder / HEAD, lambda row, _: validated(_Head, row))
    try:
        return Bank(head.name, head.baseline, queries, responses, folder)
    except RecordError as error:
        file = {"queries": QUERIES, "responses": RESPONSES}.get(error.field, HEAD)
        raise ValueError(f"{folder / file}: {error}") from None
