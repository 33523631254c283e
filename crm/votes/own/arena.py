"""LMArena's public votes (https://huggingface.co/lmarena-ai), in two kinds of columns.

- ``arena-human-preference-55k``: ``prompt``, ``response_a`` and ``response_b`` are JSON lists of texts, one a turn; one
  of ``winner_model_a``, ``winner_model_b`` and ``winner_tie`` is 1. A null turn of a response is an LLM that did not
  answer: it is read as empty text and counted (``rows_with_null_turns``).
- ``-100k`` and ``-140k``: ``conversation_a`` and ``conversation_b`` are lists of messages (or their JSON text) and
  ``winner`` is text. The content of a message is text, or a list of one part of the type ``text``; rows with images are
  bad rows.

The prompt is the leading turns that both conversations share; later turns, where each LLM has a history of its own, are
part of the response. Rows in which a conversation ends with the user are left out and counted (``dropped_unanswered``).
Both bad is a tie (also counted as ``ties_both_bad``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from crm.schema import Message, Preference, RecordError, messages, short
from crm.votes.fields import Conversation, any_text, identity, items, require, split_shared
from crm.votes.row_reader import At, Row, rows_of

BOTH_BAD = ("tie (bothbad)", "tie (both bad)", "both_bad")
WINNERS = {"model_a": "a", "model_b": "b", **dict.fromkeys(("tie", *BOTH_BAD), "tie")}
FLAGS = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}


def _count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    answers = ("response_a", "response_b") if "winner_tie" in row else ()
    return {
        "dropped_unanswered": not records,
        "ties_both_bad": row.get("winner") in BOTH_BAD,
        "rows_with_null_turns": any(None in items(row[name], name) for name in answers),
    }


@rows_of(count=_count, drop_identical=True)
def read(row: Row, at: At) -> Preference | tuple[()]:
    """Records of one file, or of every data file of a folder; ids are unique in each file."""
    if "winner_tie" in row:
        names = ("response_a", "response_b")
        require(row, ("id", "model_a", "model_b", "prompt", *names, *FLAGS))
        a, b = (_answered(row["prompt"], row[name], name) for name in names)
        side = _flagged(row)
    elif "conversation_a" in row:
        names = ("conversation_a", "conversation_b")
        require(row, ("model_a", "model_b", "winner", *names))
        a, b = (_conversation(row[name], name) for name in names)
        side = WINNERS.get(str(row["winner"]), "")
        if not side:
            raise RecordError("winner", f"{short(row['winner'])} is not one of {', '.join(WINNERS)}")
    else:
        raise RecordError("row", "has neither conversation_a nor winner_tie; expected the columns of an LMArena set")
    if a[-1].role == "user" or b[-1].role == "user":
        return ()
    prompt, response_a, response_b = split_shared(a, b, names)
    field = "question_id" if "question_id" in row else "id"
    return Preference(
        id=f"arena-{identity(row.get(field), field, at.repeats, a, b)}",
        prompt=prompt,
        response_a=response_a,
        response_b=response_b,
        winner=side,
        author_a=any_text(row["model_a"], "model_a"),
        author_b=any_text(row["model_b"], "model_b"),
        source="arena/human",
    )


def _answered(asked: Any, answers: Any, field: str) -> Conversation:
    """User and assistant in turns, from two lists of texts."""
    questions, replies = items(asked, "prompt"), items(answers, field)
    if not questions or len(questions) != len(replies):
        raise RecordError(field, f"{len(replies)} turns, the prompt has {len(questions)}")
    users = [Message("user", any_text(text, f"prompt[{number}]")) for number, text in enumerate(questions)]
    texts = ["" if text is None else any_text(text, f"{field}[{number}]") for number, text in enumerate(replies)]
    return tuple(chain.from_iterable(zip(users, (Message("assistant", text) for text in texts), strict=True)))


def _flagged(row: Row) -> str:
    for name in FLAGS:
        if row[name] not in (0, 1, "0", "1"):
            raise RecordError(name, f"{row[name]!r:.80} is not 0 or 1")
    sides = [side for name, side in FLAGS.items() if row[name] in (1, "1")]
    if len(sides) != 1:
        raise RecordError("winner_tie", f"{len(sides)} of {', '.join(FLAGS)} are 1, expected one")
    return sides[0]


def _conversation(value: Any, field: str) -> Conversation:
    plain = []
    for number, message in enumerate(items(value, field)):
        if isinstance(message, dict) and isinstance(message.get("content"), list):
            message = {**message, "content": _only_text(message["content"], f"{field}[{number}].content")}
        plain.append(message)
    return messages(plain, field)


def _only_text(parts: list[Any], field: str) -> str:
    for part in parts:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind != "text" or part.get("image") is not None:
            raise RecordError(field, f"holds a part of the type {kind!r:.80}; only conversations of text are read")
    if len(parts) != 1:
        raise RecordError(field, f"{len(parts)} parts of text, expected one")
    return any_text(parts[0].get("text"), field)
