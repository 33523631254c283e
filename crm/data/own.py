"""Votes in this project's own fields, in the published formats and in LMArena's; a function each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet as pq

from crm.data.fields import (
    At,
    Conversation,
    Row,
    any_text,
    criteria_cell,
    identity,
    items,
    pair_parts,
    require,
    rows_of,
    split_shared,
    string_list,
)
from crm.data.public.pairs import two_sided
from crm.data.splits import Splits
from crm.data.table import KNOWN
from crm.io.files import drafted
from crm.schema import Preference, RecordError, Side, messages, short

TRAIN_FIELDS = (
    *("model_a", "model_b", "human_winner", "a_criteria", "b_criteria"),
    *("a_broad_criteria_topic", "b_broad_criteria_topic"),
)
EVAL_FIELDS = ("idx", "prompt", "model_a", "model_b", "criteria", "preference")
MODELS, TALKERS = ("model_a", "model_b"), ("user", "assistant")
FLAGS = {"winner_model_a": "a", "winner_model_b": "b", "winner_tie": "tie"}
_TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_NESTED = {"prompt": _TURNS, "response_a": _TURNS, "response_b": _TURNS} | dict.fromkeys(
    ("criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b"), pa.list_(pa.string())
)


def load_prepared(folder: Path) -> Splits:
    """The parts of a folder that ``prepare.py`` wrote; a suite without rows is left out."""
    if not (folder / "splits").is_dir():
        raise ValueError(f"data.path={folder}: holds no folder splits; make the dataset with prepare.py")
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
    """Published training rows: whole conversations on both sides, no id."""
    require(row, TRAIN_FIELDS)
    criteria_a, criteria_b = (string_list(row[name], name) for name in TRAIN_FIELDS[3:5])
    prompt, response_a, response_b = pair_parts((None, "prompt"), *((row[name], name) for name in MODELS))
    topics_a, topics_b = (criteria_cell(row[name], name) for name in TRAIN_FIELDS[5:])
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
    prompt, response_a, response_b = pair_parts((row["prompt"], "prompt"), *((row[name], name) for name in MODELS))
    name = f"eval-{identity(row['idx'], 'idx', at.repeats)}"
    of_a, of_b = (criteria if side in (own, "tie") else () for own in "ab")
    return two_sided(name, prompt, (response_a, of_a, (), None), (response_b, of_b, (), None), side, "eval_rows")


def _winner(value: object, field: str) -> Side:
    if not isinstance(value, str) or value not in KNOWN:
        raise RecordError(field, f"{short(value)} is not one of {', '.join(KNOWN)}")
    return KNOWN[value]


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
        # Others on the question, as of several judges, have a digest of their row behind it.
        digest = int(hashlib.sha256(json.dumps(row, default=str).encode()).hexdigest()[:16], 16)
        name += f"-{digest:016x}" * (at.repeats.setdefault(name, digest) != digest)
    author_a, author_b = (any_text(row[model], model) for model in MODELS)
    return two_sided(name, prompt, (response_a, (), (), author_a), (response_b, (), (), author_b), side, "arena/human")


def _until(talk: Conversation, replies: int) -> Conversation:
    """A conversation up to a reply of the assistant, counted from 1."""
    ends = [place for place, turn in enumerate(talk, start=1) if turn.role == "assistant"]
    return talk[: ends[replies - 1]] if 0 < replies <= len(ends) else talk


def _answered(asked: Any, answers: Any, field: str) -> Conversation:
    """User and assistant in turns, from two lists of texts."""
    questions, replies = items(asked, "prompt"), items(answers, field)
    if len(questions) != len(replies):
        raise RecordError(field, f"{len(replies)} turns, the prompt has {len(questions)}")
    turns = chain.from_iterable(zip(questions, ("" if text is None else text for text in replies), strict=True))
    return messages([{"role": who, "content": text} for who, text in zip(cycle(TALKERS), turns, strict=False)], field)


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
