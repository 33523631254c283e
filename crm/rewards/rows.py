"""What a row asks to be scored: its criteria, its prompt, and one response or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crm.data.fields import items, optional_text, pair_parts, split_shared, talk, under
from crm.io.draws import turn
from crm.leaderboard.bank.responses import prompt_cell
from crm.rewards.scoring import Group, Turns, criteria_texts
from crm.schema import RecordError, check_response

PROMPTS = ("prompt", "question", "query", "instruction", "input")
RESPONSES = ("response", "answer", "output", "completion")
SIDES = (("_a", "_b"), ("_1", "_2"), ("1", "2"))
PAIRS = (("chosen", "rejected"), *((name + a, name + b) for name in RESPONSES for a, b in SIDES))


@dataclass(frozen=True)
class Asked:
    """A row's responses; ``kind`` is ``single``, ``pair`` or ``list``, which says what its scores are called."""

    group: Group
    kind: str


def read_row(row: Any, criteria: Sequence[str]) -> Asked:
    """The row's responses for its own criteria, or else for ``criteria``. Raises `RecordError` naming the field."""
    if not isinstance(row, Mapping):
        raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
    row = {name if name.lower() in row else name.lower(): each for name, each in row.items()}
    kind, named = _responses(row)
    own = criteria_texts(given, "criteria") if (given := row.get("criteria")) not in (None, "") else tuple(criteria)
    prompt, *responses = _conversations(row, named)
    for field, response in zip(named, responses, strict=True):
        check_response(response, field)
    prompt = under(optional_text(row.get("system"), "system"), prompt)
    return Asked(Group(own, prompt, tuple(responses)), kind)


def _responses(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a row, and its responses by the names of their fields."""
    if row.get("responses") is not None:
        if not (several := items(row["responses"], "responses")):
            raise RecordError("responses", "expected a list of one response or more")
        return "list", {f"responses[{place}]": each for place, each in enumerate(several)}
    for pair in PAIRS:
        if row.get(pair[0]) is not None and row.get(pair[1]) is not None:
            return "pair", {name: row[name] for name in pair}
    for name in (*RESPONSES, "messages", "text"):
        if name in row and name != _prompt_name(row):
            if row[name] is None:
                raise RecordError(name, 'null, or an empty cell; an empty response is "" in JSON Lines')
            return "single", {name: row[name]}
    expected = f"{', '.join(RESPONSES)}, responses or messages, or two such as chosen and rejected"
    raise RecordError("row", f"has no response; expected a column {expected}, got {', '.join(map(str, row))}")


def _prompt_name(row: Mapping[str, Any]) -> str | None:
    return next((name for name in PROMPTS if row.get(name) is not None), None)


def _conversations(row: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[Turns, ...]:
    """Prompt and responses; these may be whole conversations that share it, and are without a prompt."""
    if _prompt_name(row) is not None:
        name, prompt = prompt_cell(row, PROMPTS)
        blank = isinstance(prompt, str) and not prompt.strip()
        if len(named) == 2 and not blank:
            return pair_parts((prompt, name), *((each, field) for field, each in named.items()))
        responses = (talk(each, field, "assistant", marks=False) for field, each in named.items())
        return turn("user", prompt) if blank else talk(prompt, name, "user"), *responses
    given = {field: talk(each, field, "assistant") for field, each in named.items()}
    fields, whole = list(given), all(each[0].role != "assistant" for each in given.values())
    if not whole or len(fields) > 2:
        raise RecordError("prompt", f"not there; expected one of {', '.join(PROMPTS)}, or whole conversations")
    if len(fields) == 2:
        return split_shared(given[fields[0]], given[fields[1]], (fields[0], fields[1]))
    return given[fields[0]][:-1], given[fields[0]][-1:]
