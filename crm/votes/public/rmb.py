"""RMB. In: ``rmb/Pairwise_set/Helpfulness/<task>/<scenario>.json.gz``. Out: `Preference` records without criteria.

Real users' prompts, two LLMs' responses, and which one a stronger LLM scored higher. Only the tasks where taste decides
are read (`SUBJECTIVE`); classification, closed questions, code, reasoning and translation have right answers and are
left alone. The topic is ``<task>/<scenario>``. Which side stands as A is drawn; pairs of equal texts are dropped and
counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.io.rows import data_files
from crm.schema import Preference, RecordError, messages
from crm.votes.fields import inner, response, text
from crm.votes.public.pairs import chosen_pair

SUBJECTIVE = ("Brainstorming", "Chat", "Generation", "Open QA", "Rewrite", "Role Playing", "Summarization")


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Records of the subjective tasks; ids are ``rmb-<pair_uid>``."""
    for task in SUBJECTIVE:
        for file in data_files(folder / "Pairwise_set" / "Helpfulness" / task):
            topic = f"{task}/{file.name.split('.json')[0]}"
            for row in reading.array(file, partial(_parse, topic=topic)):
                if row.response_a == row.response_b:
                    reading.counts["dropped_identical_responses"] += 1
                else:
                    yield row


def _parse(row: dict[str, Any], _number: int, *, topic: str) -> Preference:
    prompt = messages(row.get("conversation_input"), "conversation_input")
    if prompt[-1].role != "user":
        raise RecordError("conversation_input", f"ends with a turn of the {prompt[-1].role}, expected the user's")
    chosen, rejected = inner(row, "chosen"), inner(row, "reject")
    return chosen_pair(
        f"rmb-{text(row, 'pair_uid')}",
        prompt,
        response(chosen, "answer"),
        response(rejected, "answer"),
        source="rmb/llm",
        topic=topic,
        authors=(text(chosen, "llm_name"), text(rejected, "llm_name")),
    )
