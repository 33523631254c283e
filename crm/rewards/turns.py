"""Conversations and criteria as trainers and clients give them, as the records that a judge reads."""

from __future__ import annotations

import re
from typing import Any

from crm.io.rows import check_text
from crm.schema import Message, RecordError, check_response, messages
from crm.votes.fields import criteria_cell

Turns = tuple[Message, ...]
EMPTY_THOUGHT = re.compile(r"\A\s*<think>\s*</think>\s*")
"""Written by templates of reasoning models before a response without thoughts."""


def prompt_turns(given: Any, field: str) -> Turns:
    """Plain text is one turn of a user, whatever template it is written in; a list holds ``{"role", "content"}``."""
    return _turns(given, field, "user")


def answer_turns(given: Any, field: str) -> Turns:
    """Plain text is one turn of an assistant, a list holds ``{"role", "content"}``."""
    turns = _turns(given, field, "assistant")
    check_response(turns, field)
    return turns


def completion_turns(given: Any) -> Turns | None:
    """As `answer_turns`, or None for what no judge here reads: the result of a tool, a lone surrogate."""
    try:
        return answer_turns(given, "completion")
    except RecordError:
        return None


def conversation(prompt: Turns, response: Turns, field: str = "prompt") -> tuple[Turns, Turns]:
    """Prompt and response of what a policy wrote after ``prompt``, whose last turn may begin the response.

    An empty thought before the response is dropped. Raises `RecordError` for a prompt without any other turn.
    """
    if prompt and prompt[-1].role == "assistant" and response[0].role == "assistant":
        whole = Message("assistant", prompt[-1].content + response[0].content)
        prompt, response = prompt[:-1], (whole, *response[1:])
    if not prompt:
        raise RecordError(field, "holds no turn before the response")
    first = response[0]
    return prompt, (Message(first.role, EMPTY_THOUGHT.sub("", first.content, count=1)), *response[1:])


def criteria_texts(given: Any, field: str) -> tuple[str, ...]:
    """A list of texts, its JSON text, or one text, read as a cell of a table (`crm.votes.fields.criteria_cell`).

    None and an empty list are the generic criterion. Raises `RecordError` for blank text.
    """
    if isinstance(given, str) and not given.strip():
        raise RecordError(f"{field}[0]", f"expected a non-blank string, got {given!r:.80}")
    found = criteria_cell(given, field)
    for place, text in enumerate(found):
        check_text(f"{field}[{place}]", text)
    return found


def _turns(given: Any, field: str, role: str) -> Turns:
    found = (Message(role, given),) if isinstance(given, str) else messages(given, field)
    for turn in found:
        check_text(field, turn.content)
    return found
