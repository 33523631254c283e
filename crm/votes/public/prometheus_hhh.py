"""HHH alignment with rubrics. In: ``prometheus_rubric_evals/hhh_alignment_eval.json.gz``. Out: `Preference` records.

A row holds two prompts to a judge, one with the chosen and one with the rejected response; instruction, response and
rubric stand in them under headings. The question that the rubric asks is the criterion of the chosen side, its kind
(harmless, helpful, honest, other) the topic. An instruction may be a dialogue so far. Which side stands as A is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, RecordError
from crm.votes.fields import choice, text
from crm.votes.public.dialogues import dialogue
from crm.votes.public.rated import Rated, rated_pair

KINDS = ("harmless", "helpful", "honest", "other")
HEADINGS = ("###The instruction to evaluate:", "###Response to evaluate:", "###Score Rubrics:", "###Feedback:")


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """One record a row; ids are ``prometheus_hhh-<item of the file>``."""
    yield from reading.array(folder / "hhh_alignment_eval.json.gz", _parse)


def _parse(row: dict[str, Any], number: int) -> Preference:
    kind = choice(row, "source", {kind: kind for kind in KINDS})
    instruction, chosen, question = _parts(row, "chosen_instruction")
    other_instruction, rejected, other_question = _parts(row, "rejected_instruction")
    if (instruction, question) != (other_instruction, other_question):
        raise RecordError("rejected_instruction", "asks about another instruction or rubric than chosen_instruction")
    return rated_pair(
        f"prometheus_hhh-{number}",
        dialogue(instruction),
        Rated(chosen, None, {kind: 1}),
        Rated(rejected, None, {kind: 0}),
        {kind: (question,)},
        source="prometheus_hhh/human",
        topic=kind,
    )


def _parts(row: dict[str, Any], field: str) -> tuple[str, str, str]:
    """Instruction, response and the question of the rubric, without the white space around them."""
    rest, parts = text(row, field), []
    for heading in HEADINGS:
        if rest.count(heading) != 1:
            raise RecordError(field, f"expected the headings {', '.join(HEADINGS)} once each, in this order")
        part, _, rest = rest.partition(heading)
        parts.append(part.strip())
    _, instruction, response, rubric = parts
    question = rubric.removeprefix("[").partition("]")[0].strip()
    if not instruction or not question or not rubric.startswith("["):
        raise RecordError(field, "expected an instruction, and a rubric that starts with [a question]")
    return instruction, response, question
