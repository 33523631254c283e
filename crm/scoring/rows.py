"""What a row asks to be scored: its criteria, its prompt, and one response or several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crm.data.fields import split_shared, turns
from crm.leaderboard.bank.responses import prompt_cell
from crm.rewards.scoring import Group, Turns, criteria_texts
from crm.schema import RecordError, check_response, messages

PROMPTS = ("prompt", "question", "query", "instruction", "input")
RESPONSES = ("response", "answer", "output", "completion")
SIDES = (("_a", "_b"), ("_1", "_2"), ("1", "2"))
PAIRS = (("chosen", "rejected"), *((name + a, name + b) for name in RESPONSES for a, b in SIDES))


@dataclass(frozen=True)
class Asked:
    """A row's responses; ``kind`` is ``single``, ``pair`` or ``list``, which says what its scores are called."""

    group: Group
    kind: str

    def named(self, scores: Sequence[float | None]) -> dict[str, Any]:
        """``score`` of a single response, else ``scores`` in their order."""
        return {"score": scores[0]} if self.kind == "single" else {"scores": list(scores)}


def read_row(row: Any, criteria: Sequence[str]) -> Asked:
    """The row's responses for its own criteria, or else for ``criteria``. Raises `RecordError` naming the field."""
    if not isinstance(row, Mapping):
        raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
    kind, named = _responses(row)
    own = criteria_texts(given, "criteria") if (given := row.get("criteria")) not in (None, "") else tuple(criteria)
    prompt, responses = _conversations(row, named)
    return Asked(Group(own, prompt, responses), kind)


def _responses(row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a row, and its responses by the names of their fields."""
    if row.get("responses") is not None:
        if not isinstance(row["responses"], list) or not row["responses"]:
            raise RecordError("responses", "expected a list of one response or more")
        return "list", {f"responses[{place}]": each for place, each in enumerate(row["responses"])}
    for pair in PAIRS:
        if row.get(pair[0]) is not None and row.get(pair[1]) is not None:
            return "pair", {name: row[name] for name in pair}
    for name in (*RESPONSES, "messages"):
        if name in row and name != _prompt_name(row):
            if row[name] is None:
                raise RecordError(name, 'null, or an empty cell; an empty response is "" in JSON Lines')
            return "single", {name: row[name]}
    expected = f"{', '.join(RESPONSES)}, responses or messages, or two such as chosen and rejected"
    raise RecordError("row", f"has no response; expected a column {expected}, got {', '.join(map(str, row))}")


def _prompt_name(row: Mapping[str, Any]) -> str | None:
    return next((name for name in PROMPTS if row.get(name) is not None), None)


def _conversations(row: Mapping[str, Any], named: Mapping[str, Any]) -> tuple[Turns, tuple[Turns, ...]]:
    """Prompt and responses; without a prompt these are whole conversations, which share it."""
    if _prompt_name(row) is not None:
        name, prompt = prompt_cell(row, PROMPTS)
        responses = {field: turns(each, field, "assistant") for field, each in named.items()}
        for field, response in responses.items():
            check_response(response, field)
        return turns(prompt, name, "user"), tuple(responses.values())
    whole = {field: messages(each, field) for field, each in named.items() if isinstance(each, list)}
    if len(whole) != len(named) or len(whole) > 2:
        raise RecordError("prompt", f"not there; expected one of {', '.join(PROMPTS)}, or whole conversations")
    fields = list(whole)
    if len(fields) == 2:
        prompt, *answers = split_shared(whole[fields[0]], whole[fields[1]], (fields[0], fields[1]))
        return prompt, tuple(answers)
    talk = whole[fields[0]]
    if len(talk) < 2 or talk[-1].role != "assistant":
        raise RecordError(fields[0], "expected a conversation that ends with a turn of the assistant")
    return talk[:-1], (talk[-1:],)
