"""What trainers hand over, as records. In: plain text or messages, and criteria of a data set. Out: turns and criteria.

A mistake in the data set raises ``ValueError`` and names its field; `completion_turns` alone gives None instead, since
what a policy writes is nobody's mistake.
"""

from __future__ import annotations

from typing import Any

from crm.schema import Message, RecordError, messages, texts

Turns = tuple[Message, ...]


def prompt_turns(given: Any, field: str) -> Turns:
    """Plain text is one turn of a user, a list holds ``{"role", "content"}``."""
    return (Message("user", given),) if isinstance(given, str) else messages(given, field)


def answer_turns(given: Any, field: str) -> Turns:
    """Plain text is one turn of an assistant, a list holds ``{"role", "content"}``."""
    return (Message("assistant", given),) if isinstance(given, str) else messages(given, field)


def completion_turns(given: Any) -> Turns | None:
    """As `answer_turns`, or None for what no judge here reads, such as the result of a tool."""
    try:
        return answer_turns(given, "completion")
    except RecordError:
        return None


def criteria_texts(given: Any, field: str) -> tuple[str, ...]:
    """One text or a list of them; None and an empty list are no criteria, which is the generic one."""
    return texts([given] if isinstance(given, str) else given, field)
