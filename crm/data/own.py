"""Votes in this project's own fields, in the published formats, in LMArena's and in TRL's; a function each."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from crm.data.fields import (
    At,
    Conversation,
    Row,
    any_text,
    asked,
    criteria_cell,
    identity,
    items,
    optional_text,
    require,
    rows_of,
    split_shared,
    string_list,
    turns,
)
from crm.data.public.pairs import chosen_pair, two_sided
from crm.data.splits import Splits
from crm.io.draws import turn
from crm.io.files import drafted
from crm.io.rows import printable
from crm.schema import Message, Preference, RecordError, Side, folded, messages, short

TRAIN_FIELDS = (
    *("model_a", "model_b", "human_winner", "a_criteria", "b_criteria"),
    *("a_broad_criteria_topic", "b_broad_criteria_topic"),
)
EVAL_FIELDS = ("idx", "prompt", "model_a", "model_b", "criteria", "preference")
MODELS = ("model_a", "model_b")
WINNERS: dict[str, Side] = {"model_a": "a", "model_b": "b"} | dict.fromkeys(
    ("tie", "tie (bothbad)", "tie (both bad)", "both_bad"), "tie"
)
FLAGS = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}
UNFINISHED = "splits/unfinished"
"""A file that is in a dataset while `prepare.py` writes its parts."""
MOST_UNREAD = 40
"""Columns of a row that are counted as unread."""
CHOSEN = ("chosen", "rejected")
TRL_FIELDS = ("id", "prompt", *CHOSEN, "criteria", "criteria_rejected")
TRL_MORE = ("topic", "author_chosen", "author_rejected", "reason", "system")
_MARKS = re.compile(r"(?:\A\s*|\n\n)(Human|Assistant):[ \n]?")
_TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_NESTED = {"prompt": _TURNS, "response_a": _TURNS, "response_b": _TURNS} | dict.fromkeys(
    ("criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b"), pa.list_(pa.string())
)


def load_prepared(folder: Path) -> Splits:
    """The parts of a folder that ``prepare.py`` wrote; a suite without rows is left out."""
    if not (folder / "splits").is_dir():
        raise ValueError(f"data.path={folder}: holds no folder splits; make the dataset with prepare.py")
    if (folder / UNFINISHED).is_file():
        raise ValueError(f"data.path={folder}: its last prepare.py was stopped while it wrote; run the same again")
    parts = {
        name: read_preferences(folder / "splits" / f"{name}.parquet") for name in ("train", "validation", "D", "T", "C")
    }
    return Splits.of({name: rows for name, rows in parts.items() if rows or name in ("train", "validation")})


def write_preferences(path: Path, rows: Iterable[Preference]) -> None:
    """Write records as Parquet; conversations are lists of ``{role, content}``, as viewers expect."""
    schema = pa.schema([(name, _NESTED.get(name, pa.string())) for name in Preference.__dataclass_fields__])
    with drafted(path) as draft:
        pq.write_table(pa.Table.from_pylist([row.to_dict() for row in rows], schema), draft, compression="zstd")


def read_preferences(path: Path) -> list[Preference]:
    """Records of a file that `write_preferences` wrote. Raises ``ValueError`` for any other file."""
    try:
        return [Preference.from_dict(row) for row in pq.read_table(path).to_pylist()]
    except (pa.ArrowException, OSError, RecordError) as error:
        raise ValueError(
            f"{path}: not a file of ours that can be read ({error!s:.200}); run prepare.py again"
        ) from None


@rows_of(drop_identical=True)
def records(row: Row, _at: At) -> Preference:
    """The fields of `crm.schema.Preference`; those with a default may be left out."""
    record = Preference.from_dict(row)
    if not record.id.strip():
        raise RecordError("id", "blank")
    return record


@rows_of(drop_identical=True)
def train_rows(row: Row, at: At) -> Preference:
    """Published training rows: whole conversations on both sides, criteria on one side at least, no id."""
    require(row, TRAIN_FIELDS)
    criteria_a, criteria_b = (string_list(row[name], name) for name in ("a_criteria", "b_criteria"))
    if not criteria_a and not criteria_b:
        raise RecordError("a_criteria", "empty, and b_criteria too; a training row needs criteria on one side at least")
    a, b = (messages(row[name], name) for name in MODELS)
    prompt, response_a, response_b = split_shared(a, b, MODELS)
    topics_a, topics_b = (_topics(row[name], name) for name in ("a_broad_criteria_topic", "b_broad_criteria_topic"))
    name = f"train-{identity(None, 'id', at.repeats, [row[name] for name in TRAIN_FIELDS])}"
    sides = (response_a, criteria_a, topics_a, None), (response_b, criteria_b, topics_b, None)
    return two_sided(name, prompt, *sides, _winner(row["human_winner"], "human_winner"), "train_rows")


@rows_of(drop_identical=True)
def eval_rows(row: Row, at: At) -> Preference:
    """Published evaluation rows: ``criteria`` speak for the preferred side; for a tie both sides have them.

    ``model_a`` and ``model_b`` are whole conversations, or only replies to ``prompt``.
    """
    require(row, EVAL_FIELDS)
    side = _winner(row["preference"], "preference")
    criteria = string_list(row["criteria"], "criteria")
    if not criteria:
        raise RecordError("criteria", "empty; an evaluation row needs at least one")
    query = any_text(row["prompt"], "prompt")
    response_a, response_b = (messages(row[name], name) for name in MODELS)
    prompt = turn("user", query)
    if not response_a[0].role == response_b[0].role == "assistant":
        prompt, response_a, response_b = split_shared(response_a, response_b, MODELS)
        first = next((message.content for message in prompt if message.role == "user"), None)
        if first is None or folded(first) != folded(query):
            raise RecordError("prompt", "differs from the first user turn of model_a and model_b")
    name = f"eval-{identity(row['idx'], 'idx', at.repeats)}"
    of_a, of_b = (criteria if side in (own, "tie") else () for own in "ab")
    return two_sided(name, prompt, (response_a, of_a, (), None), (response_b, of_b, (), None), side, "eval_rows")


def _winner(value: object, field: str) -> Side:
    if not isinstance(value, str) or value not in WINNERS:
        raise RecordError(field, f"{short(value)} is not one of {', '.join(WINNERS)}")
    return WINNERS[value]


def _topics(value: object, field: str) -> tuple[str, ...]:
    one = isinstance(value, str) and not value.strip().startswith("[")
    return string_list([value] if one else value, field)


@rows_of(drop_identical=True)
def arena(row: Row, at: At) -> Preference | tuple[()]:
    """LMArena's public votes (https://huggingface.co/lmarena-ai), in two kinds of columns.

    ``-55k`` has lists of texts, one a turn (a null turn of a response is an empty text, and counted); ``-100k`` and
    ``-140k`` have conversations. The prompt is the leading turns that both share. Rows in which a conversation ends
    with the user are left out and counted (``dropped_unanswered``). Both bad is a tie. ``turn`` is the reply that was
    judged: what follows is cut and counted.
    """
    if "winner_tie" in row:
        names = ("response_a", "response_b")
        require(row, ("id", "model_a", "model_b", "prompt", *names, *FLAGS))
        a, b = (_answered(row["prompt"], row[name], name) for name in names)
        at.counts["rows_with_null_turns"] += any(None in items(row[name], name) for name in names)
        won = [side for name, side in FLAGS.items() if row[name] in (1, "1")]
        if len(won) != 1:
            raise RecordError("winner_tie", f"{len(won)} of {', '.join(FLAGS)} are 1, expected one")
        side = won[0]
    elif "conversation_a" in row:
        names = ("conversation_a", "conversation_b")
        require(row, ("model_a", "model_b", "winner", *names))
        a, b = (_conversation(row[name], name) for name in names)
        if (judged := str(row.get("turn"))).isdecimal():  # in MT-bench's votes later turns follow
            whole, (a, b) = (a, b), (_until(side, int(judged)) for side in (a, b))
            at.counts["cut_to_judged_turn"] += (a, b) != whole
        side = _winner(row["winner"], "winner")
    else:
        raise RecordError("row", "has neither conversation_a nor winner_tie; expected the columns of an LMArena set")
    if a[-1].role == "user" or b[-1].role == "user":
        at.counts["dropped_unanswered"] += 1
        return ()
    prompt, response_a, response_b = split_shared(a, b, names)
    field = "question_id" if "question_id" in row else "id"
    name = f"arena-{identity(row.get(field), field, at.repeats, a, b)}"
    if field == "question_id" and row[field] is not None:
        name = _of_several(name, row, at.repeats)
    author_a, author_b = (any_text(row[model], model) for model in MODELS)
    return two_sided(name, prompt, (response_a, (), (), author_a), (response_b, (), (), author_b), side, "arena/human")


def _until(talk: Conversation, replies: int) -> Conversation:
    """A conversation up to a reply of the assistant, counted from 1."""
    ends = [place for place, turn in enumerate(talk, start=1) if turn.role == "assistant"]
    return talk[: ends[replies - 1]] if 0 < replies <= len(ends) else talk


def _of_several(name: str, row: Row, repeats: Counter[str]) -> str:
    """The name for the first vote on a question; others, as of several judges, have a digest of their row behind it."""
    digest = hashlib.sha256(json.dumps(row, default=str).encode()).hexdigest()[:16]
    if repeats[name] and not repeats[f"{name} {digest}"]:
        return f"{name}-{digest}"
    repeats.update((name, f"{name} {digest}"))
    return name


def _answered(asked: Any, answers: Any, field: str) -> Conversation:
    """User and assistant in turns, from two lists of texts."""
    questions, replies = items(asked, "prompt"), items(answers, field)
    if not questions or len(questions) != len(replies):
        raise RecordError(field, f"{len(replies)} turns, the prompt has {len(questions)}")
    users = [Message("user", any_text(text, f"prompt[{number}]")) for number, text in enumerate(questions)]
    texts = ["" if text is None else any_text(text, f"{field}[{number}]") for number, text in enumerate(replies)]
    return tuple(chain.from_iterable(zip(users, (Message("assistant", text) for text in texts), strict=True)))


def _conversation(value: Any, field: str) -> Conversation:
    """Messages; their content is text, or a list of one part of the type ``text``."""
    plain = []
    for number, message in enumerate(items(value, field)):
        if isinstance(message, dict) and isinstance(parts := message.get("content"), list):
            part = parts[0] if len(parts) == 1 and isinstance(parts[0], dict) else {}
            if part.get("type") != "text" or part.get("image") is not None:
                raise RecordError(f"{field}[{number}].content", "is not one text; only conversations of text are read")
            message = {**message, "content": part.get("text")}
        plain.append(message)
    return messages(plain, field)


@rows_of(drop_identical=True)
def trl(row: Row, at: At) -> Preference:
    """Preferences as TRL's trainers take them (https://huggingface.co/docs/trl/dataset_formats).

    With ``prompt``, ``chosen`` and ``rejected`` continue it, or are whole conversations that have it as a user's turn.
    Without, the prompt is the leading turns that both conversations share. Optional are ``id``, ``criteria`` (of the
    user who chose) and ``criteria_rejected``, and `TRL_MORE`. Which side is A is drawn.
    """
    require(row, CHOSEN)
    for name in ("image", "images"):
        if row.get(name):
            raise RecordError(name, "the row has images; only text is read")
    for name in islice(row.keys() - {*TRL_FIELDS, *TRL_MORE, "image", "images"}, MOST_UNREAD):
        at.counts[f"unread_column_{printable(name)}"] = 1
    prompt, chosen, rejected = pair_parts(row)
    topic, first, second, reason, system = (optional_text(row.get(name), name) for name in TRL_MORE)
    prompt = under(system, prompt)
    given, against = (criteria_cell(row.get(name), name) for name in ("criteria", "criteria_rejected"))
    criteria = (given, against) if given or against else ()  # two users may say different things of one pair
    name = f"trl-{identity(row.get('id'), 'id', at.repeats, prompt, chosen, rejected, *criteria)}"
    more: dict[str, Any] = {"authors": (first, second), "topic": topic, "reason": reason}
    return chosen_pair(name, prompt, chosen, rejected, source="trl", criteria=given, criteria_rejected=against, **more)


def under(system: str | None, prompt: Conversation) -> Conversation:
    """The prompt after a system turn, unless it has one."""
    return (Message("system", system), *prompt) if system and prompt[0].role != "system" else prompt


def talk(value: Any, field: str, role: str) -> Conversation:
    """As `asked` or `turns`; a text with the marks of Anthropic's hh-rlhf is their turns, but for an empty last one."""
    marked = _MARKS.split(value)[1:] if isinstance(value, str) and _MARKS.match(value) else []
    if "Assistant" not in marked[::2]:
        return asked(value, field) if role == "user" else turns(value, field, role)
    texts = zip(marked[::2], map(str.strip, marked[1::2]), strict=True)
    found = [{"role": "user" if who == "Human" else "assistant", "content": text} for who, text in texts]
    return messages(found if found[-1]["content"] or role == "assistant" else found[:-1], field)


def pair_parts(row: Row, fields: tuple[str, str] = CHOSEN) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, and both responses, which are in ``fields``."""
    chosen, rejected = (talk(row[name], name, "assistant") for name in fields)
    if row.get("prompt") is None:
        if "assistant" in (chosen[0].role, rejected[0].role):
            why = f"missing, and {' or '.join(fields)} is no whole conversation: nobody can tell where the prompt ends"
            raise RecordError("prompt", why)
        return split_shared(chosen, rejected, fields)
    prompt = talk(row["prompt"], "prompt", "user")
    if isinstance(row["prompt"], str) and chosen[0].role != "assistant":
        shared, chosen, rejected = split_shared(chosen, rejected, fields)
        questions = {folded(turn.content) for turn in shared if turn.role == "user"}
        if folded(row["prompt"]) not in questions and prompt != shared:
            raise RecordError("prompt", f"is no user turn of the conversations in {' and '.join(fields)}")
        return shared, chosen, rejected
    for name, response in zip(fields, (chosen, rejected), strict=True):
        if response[0].role != "assistant":
            why = f"starts with the {response[0].role}'s turn; leave prompt out where conversations are whole"
            raise RecordError(name, why)
    return prompt, chosen, rejected
