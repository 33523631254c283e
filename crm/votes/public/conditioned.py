"""Sets whose chosen side is what somebody asked for, a function each; the criteria speak for the chosen side alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from crm.io.intake import Intake
from crm.schema import MAX_CRITERIA, Message, Preference, RecordError, prompt_key
from crm.votes.fields import Conversation, PublicRow, Text
from crm.votes.public.pairs import chosen_pair, wordings_of
from crm.votes.row_reader import At, rows_of
from crm.votes.sampling import turn, wordings

LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)
HEADINGS = ("###The instruction to evaluate:", "###Response to evaluate:", "###Score Rubrics:", "###Feedback:")
USERS = tuple(f"user{number}" for number in range(1, 9))
_OPENINGS = (
    (re.compile(r"\AYou are\b"), "The assistant should be"),
    (re.compile(r"\AYou\b"), "The assistant should"),
    (re.compile(r"\AYour\b"), "The assistant's"),
    (re.compile(r"\byour\b"), "their"),
)
_SPEAKER = re.compile(r"(?:\A|\n\n)(?:## )?(Human|Assistant):")


class _LLMBar(PublicRow):
    input: Text
    output_1: str
    output_2: str
    label: Literal[1, 2]


@rows_of(*(f"{subset}/dataset.json" for subset in LLMBAR_SUBSETS), model=_LLMBar)
def llmbar(row: _LLMBar, at: At) -> Preference:
    """LLMBar: of two outputs one follows the instruction, which is the criterion. Sides are as published.

    The prompt is the instruction as published, as the judges of the paper read it. So the 59 pairs of ``Normal`` come
    back in ``Negation`` under the same numbers, where the prompt first asks for an unhelpful answer and the other
    output wins; ``Base_9`` and ``Base_10`` are one set of sums in two number systems. Only a judge that reads the
    prompt is right in both. The topic is the subset. The folder ``Processed`` has other authors' sets and is not read.
    """
    subset = at.file.parent.name
    name = f"llmbar-{subset}-{at.number}"
    outputs = (row.output_1, row.output_2) if row.label == 1 else (row.output_2, row.output_1)
    return chosen_pair(
        name,
        row.input,
        outputs[0],
        outputs[1],
        first=row.label == 1,
        source=f"llmbar/{'construction' if at.file.parent.parent.name == 'CaseStudy' else 'human'}",
        topic=subset,
        criteria=wordings(wordings_of("llmbar")["instruction following"], 0, name),
        criteria_topic="instruction following",
    )


class _PrefEval(PublicRow):
    classification_task_options: Annotated[list[Text], Field(min_length=4, max_length=4)]
    preference: Text
    question: Text


@rows_of("mcq_options", model=_PrefEval, drop_repeated="dropped_repeated_questions")
def prefeval(row: _PrefEval, at: At) -> list[Preference]:
    """PrefEval: a user states a preference and asks a question; of four options only the first follows the preference.

    It makes a pair with each of the others, and the user's statement, in their own words, is its criterion. The topic
    is the file's name. One file is published twice ("travel_hotel copy").
    """
    topic, options = at.stem.removesuffix(" copy"), row.classification_task_options
    if options[0] in options[1:]:
        why = "the first option is repeated, so that it does not tell who follows the preference"
        raise RecordError("classification_task_options", why)
    name = f"prefeval-{topic}-{prompt_key(turn('user', f'{row.preference}|{row.question}'))}"
    return [
        chosen_pair(
            f"{name}-{other}",
            row.question,
            options[0],
            options[other],
            source="prefeval/llm",
            topic=topic,
            criteria=(row.preference,),
            criteria_topic=topic,
        )
        for other in range(1, 4)
    ]


class _HHH(PublicRow):
    source: Literal["harmless", "helpful", "honest", "other"]
    chosen_instruction: Text
    rejected_instruction: Text


@rows_of("hhh_alignment_eval.json.gz", model=_HHH)
def prometheus_hhh(row: _HHH, at: At) -> Preference:
    """HHH alignment with rubrics: a row holds two prompts to a judge, with the chosen and with the rejected response.

    Instruction, response and rubric are in them under `HEADINGS`. The question that the rubric asks is the criterion,
    its kind the topic. An instruction may be a dialogue so far.
    """
    instruction, chosen, question = _judged(row.chosen_instruction, "chosen_instruction")
    other_instruction, rejected, other_question = _judged(row.rejected_instruction, "rejected_instruction")
    if (instruction, question) != (other_instruction, other_question):
        raise RecordError("rejected_instruction", "asks about another instruction or rubric than chosen_instruction")
    return chosen_pair(
        f"prometheus_hhh-{at.number}",
        dialogue(instruction),
        chosen,
        rejected,
        source="prometheus_hhh/human",
        topic=row.source,
        criteria=(question,),
        criteria_topic=row.source,
    )


def _judged(rest: str, field: str) -> tuple[str, str, str]:
    """Instruction, response and the question of the rubric, without the white space around them."""
    parts = []
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


def dialogue(text: str) -> Conversation:
    """Turns of a text with ``Human:`` and ``Assistant:`` at its start or after blank lines.

    What comes before the first speaker is a turn of the user, unless it is blank. Roles need not alternate.
    """
    opening, *rest = _SPEAKER.split(text)
    roles = ("user" if name == "Human" else "assistant" for name in rest[::2])
    turns = [Message(role, content.strip()) for role, content in zip(roles, rest[1::2], strict=True)]
    return (*turn("user", opening.strip()), *turns) if opening.strip() else tuple(turns)


class _Persona(PublicRow):
    user: Literal["user1", "user2", "user3", "user4", "user5", "user6", "user7", "user8"]
    prompt: Text


class _Chosen(PublicRow):
    prompt: Text
    chosen: str
    rejected: str


def personas8(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Eight personas: an LLM in the role of one of them chose between two responses, 1,000 pairs a persona.

    A persona is a text that speaks to an assistant ("You are ... Your tone ..."). Its sentences, turned into what a
    user asks of an assistant, are the criteria; their topic is the user's name, so that users can be held out whole.
    """
    personas = dict(reading.lines(folder / "user_prompts.jsonl", _persona, key=lambda item: item[0]))
    pairs = rows_of(*(f"{user}_test.json.gz" for user in USERS), model=_Chosen, drop_identical=True)
    yield from pairs(partial(_as_persona, personas))(folder, reading)


def as_criteria(persona: str) -> tuple[str, ...]:
    """The sentences of a persona, as a user would ask for them."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+", persona.strip()) if sentence]
    for pattern, ours in _OPENINGS:
        sentences = [pattern.sub(ours, sentence) for sentence in sentences]
    return tuple(sentence.removesuffix(".") for sentence in sentences if sentence.strip("."))


def _persona(given: dict[str, object], _line: int) -> tuple[str, tuple[str, ...]]:
    row = _Persona.model_validate(given)
    criteria = as_criteria(row.prompt)
    if not 0 < len(criteria) <= MAX_CRITERIA:
        raise RecordError("prompt", f"{len(criteria)} sentences; expected 1 to {MAX_CRITERIA}")
    return row.user, criteria


def _as_persona(personas: dict[str, tuple[str, ...]], row: _Chosen, at: At) -> Preference:
    user = at.stem.removesuffix("_test")
    if user not in personas:
        raise RecordError("row", f"user_prompts.jsonl has no row of {user} that can be read")
    return chosen_pair(
        f"personas8-{user}-{at.number}",
        row.prompt,
        row.chosen,
        row.rejected,
        source="personas8/llm",
        criteria=personas[user],
        criteria_topic=user,
    )
