"""Which source reads a file or folder of preferences, by the columns of its first rows."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from crm.config import hydra_value
from crm.data import own
from crm.data.catalogue import place_of
from crm.data.table import MOST, PAIRS, VOTES, first_rows
from crm.io import rows as formats
from crm.io.rows import Intake, printable
from crm.schema import Preference, RecordError

log = logging.getLogger(__name__)
COLUMNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("train_rows", own.TRAIN_FIELDS),
    ("eval_rows", own.EVAL_FIELDS),
    ("arena", ("conversation_a", "conversation_b", "winner")),
    ("arena", ("prompt", "response_a", "response_b", *own.FLAGS)),
)
"""Sources and columns that their files have and others have not."""
PROMPTS = ("prompt", "question", "query", "instruction", "input", "context", "post", "user_prompt", "user_query")
RESPONSES = ("response", "answer", "output", "completion", "reply", "generation", "summary", "text", "candidate", "")
WINNERS = (
    *("winner", "preferred", "preference", "overall_preference", "choice", "chosen", "label", "vote", "better", "best"),
    *("verdict", "judgment", "selected", "human_preference", "preferred_response", "better_response_id"),
)
AUTHORS = ("author", "model", "generator", "llm")
"""What columns of a table are often called, responses and authors without the _a, 2, ... behind it; the page: a, b."""
SINGLE = (*RESPONSES, "messages", "conversation", "conversations")
HELPSTEER3 = {"context", "response1", "response2", "overall_preference"}
SIGNED = {"-3": "a", "-2": "a", "-1": "a", "0": "tie", "1": "b", "2": "b", "3": "b"}
"""HelpSteer3's preference: -3 where the first response is much better, 3 where the second is."""


@dataclass(frozen=True)
class Recognised:
    """What ``data.name`` takes, of a table ``data.columns`` and ``data.winners``, and the columns that are read."""

    name: str
    columns: dict[str, str] = field(default_factory=dict)
    winners: dict[str, str] = field(default_factory=dict)
    about: tuple[str, ...] = field(default=(), compare=False)

    def words(self) -> str:
        """What chooses this reading on a command line, beside ``data=<path>``."""
        given = {"columns": self.columns, "winners": self.winners}
        words = [shlex.quote(f"data.{name}={hydra_value(mapping)}") for name, mapping in given.items() if mapping]
        return " ".join(words) or f"data.name={self.name}"


def recognise(path: str) -> Recognised:
    """How to read a file, a folder or ``hf://owner/name``.

    Raises ``ValueError`` where no reading fits or several do, and for a folder whose files differ.
    """
    place = place_of(path, divided=True)
    if (place / "splits").is_dir():
        log.info("%s: read with data.name=dataset, a folder of prepare.py", path)
        return Recognised("dataset")
    if (place / "bank.json").is_file():
        raise ValueError(f"{path}: a bank of responses, no preferences; rank it with bank=folder bank.path={path}")
    found: Recognised | None = None
    for file in formats.data_files(place):
        each = _reading(path, str(file), first_rows(file))
        if found and each != found:
            raise ValueError(
                f"{path}: {file.name} would be read with {each.words()}, the files before it with {found.words()}; "
                "give one file, or a folder of files that are alike"
            )
        found = each
    assert found is not None, "data_files gives one at least"
    log.info("%s: read with %s (%s)", path, found.words(), ", ".join(found.about))
    return found


def _reading(path: str, file: str, rows: Sequence[dict[str, Any]]) -> Recognised:
    if not rows:
        list(Intake(strict=True).rows(Path(file), lambda row, _: row))  # raises for the first
        raise ValueError(f"{file}: holds no rows")
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = _published(names, rows) or [*_pairs(names, rows), *_votes(names)]
    if len(found) > 1:
        ways = "; ".join(f"{each.words()} ({', '.join(each.about)})" for each in found)
        raise RecordError(file, f"can be read in {len(found)} ways", f", add one: {ways}")
    if not found:
        raise RecordError(file, *_why_none(path, names))
    if found[0].name == "table" and "criteria" in names and "criteria" not in found[0].about:
        sides = (replace(found[0], columns=found[0].columns | {side: "criteria"}) for side in VOTES.criteria)
        how = (
            f" If for the winner, write rows with prompt, chosen, rejected and criteria; else add "
            f"{' or '.join(each.words() for each in sides)}; or leave it unread: {found[0].words()}"
        )
        raise RecordError(file, "which response does its column criteria speak for?", how)
    return found[0]


def _published(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[Recognised]:
    """The source whose columns no other has."""
    own_fields = {each.name for each in fields(Preference)}
    if {"id", *VOTES.required} <= set(names) <= own_fields and isinstance(rows[0].get("prompt"), list):
        return [Recognised("records", about=tuple(names))]
    for name, columns in COLUMNS:
        if set(columns) <= set(names):
            return [Recognised(name, about=columns)]
    return []


def _pairs(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[Recognised]:
    """A chosen and a rejected response: as TRL's, or as a table where the prompt has another name."""
    plain = _plain(names) | {name: name for name in names}
    if not {"chosen", "rejected"} <= {*plain}:
        return []
    used = {name: plain[name] for name in PAIRS.fields if name in plain}
    chosen = [row.get(used["chosen"]) for row in rows]
    whole = any(isinstance(each, list) or str(each).startswith("[{") for each in chosen)
    asked = [{}] if whole else [{"prompt": each} for each in _named("prompt", PROMPTS, plain)] or [{}]
    found = [_as_table(used | each, PAIRS.fields, names) for each in asked]
    return [each if each.columns else replace(each, name="trl") for each in found]


def _votes(names: Sequence[str]) -> list[Recognised]:
    """Every way to read a prompt, two responses and a winner from columns of usual names."""
    plain = _plain(name for name in names if name != "chosen" or "rejected" not in names)
    winners = SIGNED if set(names) >= HELPSTEER3 else {}
    found = []
    for prompt, (a, b), winner in product(
        _named("prompt", PROMPTS, plain), _twins(RESPONSES, plain), _named("winner", WINNERS, plain)
    ):
        used = {"prompt": prompt, "response_a": a, "response_b": b, "winner": winner}
        for sides, usual in ((VOTES.authors, AUTHORS), (VOTES.criteria, ("criteria",))):
            used |= dict(zip(sides, next(iter(_twins(usual, plain)), ()), strict=False))
        found.append(replace(_as_table(used, VOTES.fields, names), winners=winners))
    return found


def _as_table(used: Mapping[str, str], layout: Sequence[str], names: Sequence[str]) -> Recognised:
    """Fields from the columns named for them, and from columns of their own names."""
    read = {name: used.get(name, name) for name in layout if name in used or name in names}
    columns = {name: column for name, column in read.items() if name != column}
    return Recognised("table", columns, about=tuple(read.values()))


def _plain(names: Iterable[str]) -> dict[str, str]:
    """The column behind a name in small letters, with _ for what is no letter or digit."""
    return {re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_"): name for name in names}


def _named(own: str, usual: Sequence[str], plain: Mapping[str, str]) -> list[str]:
    """The column of a field's own name, or else every one of a usual name."""
    return [plain[own]] if own in plain else [plain[name] for name in usual if name in plain]


def _twins(usual: Sequence[str], plain: Mapping[str, str]) -> list[tuple[str, str]]:
    """Pairs of columns that end in a and b, 1 and 2, or, where there is no 2, in 0 and 1."""
    found = []
    for base, link in product(usual, ("_", "")):
        for first, second in ("ab", "12", "01"):
            ends = [f"{base}{link}{end}" for end in (first, second)]
            if all(end in plain for end in ends) and not (first == "0" and f"{base}{link}2" in plain):
                found.append((plain[ends[0]], plain[ends[1]]))
    return found


def _why_none(path: str, names: Sequence[str]) -> tuple[str, str]:
    """What is wrong, and what a command line can do."""
    shown = ", ".join(printable(name) for name in names[:MOST])
    single = [name for name in names if name.lower() in SINGLE]
    plain = _plain(names)
    half, two = {"chosen", "rejected"} & {*plain}, _twins([name[:-1].rstrip("_") for name in plain], plain)
    if single and not two and not half:
        why = f"has one response a row ({single[0]}), and a preference is between two; it has the columns {shown}"
        bank = f"; to rank LLMs by it: python bank.py out=my_bank author=<model> queries={path} responses={path}"
        return why, bank if {"prompt", "instruction"} & set(names) else ""
    typed = "chosen: ..., rejected: ..." if half else "response_a: ..., response_b: ..., winner: ..."
    return f"its columns are {shown}, which no format has", (
        "; pairs have chosen and rejected, with prompt where these are no whole conversations, and votes have prompt, "
        "response_a, response_b and winner. Say which column is which: "
        f"'data.columns={{prompt: ..., {typed}}}'"
    )
