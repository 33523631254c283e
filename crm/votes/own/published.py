"""The two published formats, rows of `TRAIN_FIELDS` and of `EVAL_FIELDS`.

- Training rows hold whole conversations on both sides and no id: theirs is a digest of their content, numbered where
  rows are equal. A side may have no criteria (its direction is then not defined), but not both. Broad topics are lists
  of names, or the text of such a list, or one name.
- In evaluation rows ``model_a`` and ``model_b`` are whole conversations, or only the replies where they start with the
  assistant; ``prompt`` is the first user turn. ``criteria`` speak for the preferred side, so the other side's are empty
  and only the original direction is defined. For a tie both sides have them: whichever is asked about, nobody wins.
- Criteria are a list of strings, or a string that holds such a list, which is counted. Any other string is an error:
  one criterion or several, nobody can tell.
- Other fields are ignored, as in the authors' own readers, and counted (``rows_with_unknown_fields``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial

from crm.schema import Preference, RecordError, Side, folded, messages, short
from crm.votes.fields import any_text, numbered, require, split_shared, string_list
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import turn

EVAL_FIELDS = ("idx", "prompt", "model_a", "model_b", "criteria", "preference")
TRAIN_FIELDS = (
    *("model_a", "model_b", "human_winner", "a_criteria", "b_criteria"),
    *("a_broad_criteria_topic", "b_broad_criteria_topic"),
)
WINNERS: dict[object, Side] = {"model_a": "a", "model_b": "b", "tie": "tie"}
SIDES = ("model_a", "model_b")


def _count(fields: Sequence[str], row: Row, _records: Sequence[Preference]) -> Mapping[str, int]:
    return {
        "criteria_given_as_text": any(isinstance(row.get(name), str) for name in fields if name.endswith("criteria")),
        "rows_with_unknown_fields": not row.keys() <= set(fields),
    }


@rows_of(count=partial(_count, TRAIN_FIELDS), drop_identical=True)
def read_train(row: Row, at: At) -> Preference:
    """Records of training rows, with the id ``train-<digest>``."""
    require(row, TRAIN_FIELDS)
    side = _winner(row["human_winner"], "human_winner")
    criteria_a, criteria_b = (string_list(row[name], name) for name in ("a_criteria", "b_criteria"))
    if not criteria_a and not criteria_b:
        raise RecordError("a_criteria", "empty, and b_criteria too; a training row needs criteria on one side at least")
    a, b = (messages(row[name], name) for name in SIDES)
    prompt, response_a, response_b = split_shared(a, b, SIDES)
    content = json.dumps({name: row[name] for name in TRAIN_FIELDS}, sort_keys=True, default=str)
    return Preference(
        id=f"train-{numbered(hashlib.sha256(content.encode('utf-8')).hexdigest()[:16], at.repeats)}",
        prompt=prompt,
        response_a=response_a,
        response_b=response_b,
        winner=side,
        criteria_a=criteria_a,
        criteria_b=criteria_b,
        criteria_topics_a=_topics(row["a_broad_criteria_topic"], "a_broad_criteria_topic"),
        criteria_topics_b=_topics(row["b_broad_criteria_topic"], "b_broad_criteria_topic"),
        source="train_rows",
    )


@rows_of(count=partial(_count, EVAL_FIELDS), drop_identical=True)
def read_eval(row: Row, _at: object) -> Preference:
    """Records of evaluation rows, with the id ``eval-<idx>``."""
    require(row, EVAL_FIELDS)
    if isinstance(row["idx"], bool) or not isinstance(row["idx"], (int, str)) or row["idx"] == "":
        raise RecordError("idx", f"expected a number or a name, got {type(row['idx']).__name__}")
    side = _winner(row["preference"], "preference")
    criteria = string_list(row["criteria"], "criteria")
    if not criteria:
        raise RecordError("criteria", "empty; an evaluation row needs at least one")
    query = any_text(row["prompt"], "prompt")
    response_a, response_b = (messages(row[name], name) for name in SIDES)
    prompt = turn("user", query)
    if not response_a[0].role == response_b[0].role == "assistant":
        prompt, response_a, response_b = split_shared(response_a, response_b, SIDES)
        first = next((message.content for message in prompt if message.role == "user"), None)
        if first is None or folded(first) != folded(query):
            raise RecordError("prompt", "differs from the first user turn of model_a and model_b")
    return Preference(
        id=f"eval-{row['idx']}",
        prompt=prompt,
        response_a=response_a,
        response_b=response_b,
        winner=side,
        criteria_a=criteria if side in ("a", "tie") else (),
        criteria_b=criteria if side in ("b", "tie") else (),
        source="eval_rows",
    )


def _winner(value: object, field: str) -> Side:
    if not isinstance(value, str) or value not in WINNERS:
        raise RecordError(field, f"{short(value)} is not one of model_a, model_b, tie")
    return WINNERS[value]


def _topics(value: object, field: str) -> tuple[str, ...]:
    one = isinstance(value, str) and not value.strip().startswith("[")
    return string_list([value] if one else value, field)
