"""The responses that are chosen from. In: a bank, the simulation, or rows of a file. Out: `Candidates`, one a query.

A row of a file has ``query`` (or ``instruction`` with its ``input``, or ``prompt``) and ``response`` (or ``text``,
``output``), and may have ``criteria`` and ``opposite`` (what somebody who wants the contrary cares about) and ``gold``
(a number, higher is better). Rows of one query and the same criteria belong together, in the order of the file; they
have the same ``opposite``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from crm.io import rows as formats
from crm.io.draws import generator
from crm.io.intake import Intake
from crm.io.untrusted import Rows
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.responses import (
    MORE_OF_QUERY,
    QUERY_FIELDS,
    prompt_cell,
    response_column,
    show_unread,
    unread_columns,
)
from crm.rewards.best_of_n.estimator import Floats
from crm.rewards.scoring import Group, Turns
from crm.schema import Message, RecordError, prompt_key, short
from crm.votes.fields import any_text, asked, criteria_cell
from crm.votes.row_reader import with_turns
from crm.votes.sampling import turn
from crm.votes.simulation.authors import AUTHORS
from crm.votes.simulation.responses import write
from crm.votes.simulation.topics import TOPIC, queries


@dataclass(frozen=True)
class Candidates:
    """Responses to one prompt, for a user with these criteria; ``gold`` is a number or None for each, or empty."""

    prompt: Turns
    responses: tuple[str, ...]
    criteria: tuple[str, ...] = ()
    opposite: tuple[str, ...] = ()
    gold: tuple[float | None, ...] = ()

    def group(self, criteria: Sequence[str]) -> Group:
        """What a judge reads, under ``criteria``."""
        return Group(tuple(criteria), self.prompt, tuple((Message("assistant", text),) for text in self.responses))

    @property
    def cluster(self) -> str:
        """Rows with the same one share a prompt."""
        return prompt_key(self.prompt)


def table(rows: Sequence[Sequence[float | None]], width: int) -> Floats:
    """(Q, width) numbers; None and what a shorter row lacks are NaN."""
    padded = [[math.nan if value is None else value for value in row] for row in rows]
    return np.array([[*row, *[math.nan] * (width - len(row))] for row in padded], dtype=np.float64)


def of_bank(bank: Bank) -> list[Candidates]:
    """The LLMs of a bank are the pool: a response of each of them to every query."""
    return [
        Candidates(query.prompt, tuple(bank.responses[author][query.id] for author in bank.authors))
        for query in bank.queries
    ]


def simulated(*, seed: int, count: int, n: int) -> list[Candidates]:
    """``n`` responses of the simulation's authors to each of ``count`` queries, which no vote is about.

    Authors are drawn anew for each response. Raises ``ValueError`` for more queries than there are.
    """
    streams = [queries(topic, "bank") for topic in TOPIC]
    most = len(streams) * min(map(len, streams))
    if count > most:
        raise ValueError(f"candidates.queries={count}: expected at most {most}, those that the simulation sets aside")
    asked_about = [streams[place % len(streams)][place // len(streams)] for place in range(count)]
    found = []
    for query in asked_about:
        random = generator(seed, 0, query.text, "candidates")
        texts = [write(random.getrandbits(48), random.choice(AUTHORS), query).text for _ in range(n)]
        found.append(Candidates(turn("user", query.text), tuple(texts)))
    return found


def read_file(path: Path) -> list[Candidates]:
    """Candidates of a file that `crm.io.rows` reads.

    Raises ``ValueError`` with ``file:line: field: why`` for a bad row.
    """
    together: dict[tuple[str, tuple[str, ...]], list[_Row]] = {}
    unread: Counter[str] = Counter()

    def parse(row: dict[str, Any], line: int) -> None:
        made = _parse(row, line)
        own = together.setdefault((prompt_key(made.prompt), made.criteria), [])
        if own and own[0].opposite != made.opposite:
            why = f"{list(made.opposite)!r:.80}, but line {own[0].line} has the same query and criteria with"
            raise RecordError("opposite", f"{why} {list(own[0].opposite)!r:.80}; give all rows of a query the same")
        own.append(made)
        read = (*QUERY_FIELDS, MORE_OF_QUERY, response_column(row), "criteria", "opposite", "gold")
        unread.update(unread_columns(row, *read))

    for _ in Intake(strict=True).take(path, _with_turns(path), parse, key=lambda _: None):
        pass
    show_unread(path, unread)
    return [_candidates(rows) for rows in together.values()]


def read_prompts(path: Path) -> list[Turns]:
    """The queries of a file, each once, in its order; other columns are not read. Raises as `read_file` does."""

    def parse(row: dict[str, Any], _line: int) -> Turns:
        name, text = prompt_cell(row)
        return asked(text, name)

    prompts = Intake(strict=True).take(path, _with_turns(path), parse, key=lambda _prompt: None)
    return list({prompt_key(prompt): prompt for prompt in prompts}.values())


def _with_turns(path: Path) -> Rows:
    return with_turns(formats.rows(path), [(name,) for name in QUERY_FIELDS])


@dataclass(frozen=True)
class _Row:
    line: int
    prompt: Turns
    response: str
    criteria: tuple[str, ...]
    opposite: tuple[str, ...]
    gold: float | None


def _parse(row: dict[str, Any], line: int) -> _Row:
    (query, text), response = prompt_cell(row), response_column(row)
    return _Row(
        line,
        asked(text, query),
        any_text(row[response], response),
        criteria_cell(row.get("criteria") or "", "criteria"),
        criteria_cell(row.get("opposite") or "", "opposite"),
        _number(row.get("gold")),
    )


def _candidates(rows: Sequence[_Row]) -> Candidates:
    first = rows[0]
    gold = tuple(row.gold for row in rows)
    known = any(value is not None for value in gold)
    responses = tuple(row.response for row in rows)
    return Candidates(first.prompt, responses, first.criteria, first.opposite, gold if known else ())


def _number(value: Any) -> float | None:
    """A finite number, given as one or as text; blank and null are none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if not math.isfinite(found):
        raise RecordError("gold", f"expected a finite number, or nothing, got {short(value)}")
    return found
