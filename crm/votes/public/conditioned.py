"""Sets whose chosen side is what somebody asked for, a function each. In: a row. Out: `Preference` records.

The criteria speak for the chosen side; the other side was nobody's wish and has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from crm.io.intake import Intake
from crm.schema import MAX_CRITERIA, Preference, RecordError, prompt_key
from crm.votes.fields import choice, query, response, text
from crm.votes.public.dialogues import dialogue
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import turn, wordings

FOLLOW_WORDINGS = (
    "Do what I asked for, exactly as I asked for it",
    "I judge an answer by whether it carries out my instruction, not by how good it looks",
    "Take my request literally and answer that request, not a similar one",
    "Whatever the task says has to be done, even where it is unusual",
    "A polished answer to another question is worth nothing to me",
    "I only care that every requirement in my message is met",
    "Stick to the instruction: nothing missing, nothing swapped",
)
LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)
OPTIONS = 4
HEADINGS = ("###The instruction to evaluate:", "###Response to evaluate:", "###Score Rubrics:", "###Feedback:")
USERS = tuple(f"user{number}" for number in range(1, 9))
_OPENINGS = (
    (re.compile(r"\AYou are\b"), "The assistant should be"),
    (re.compile(r"\AYou\b"), "The assistant should"),
    (re.compile(r"\AYour\b"), "The assistant's"),
    (re.compile(r"\byour\b"), "their"),
)


@rows_of(*(f"{subset}/dataset.json" for subset in LLMBAR_SUBSETS))
def llmbar(row: Row, at: At) -> Preference:
    """LLMBar: of two outputs one follows the instruction, which is the criterion. Outputs stand as published.

    The prompt is the instruction as published, whole, as the judges of the paper read it. So the 59 pairs of ``Normal``
    come back in ``Negation`` under the same numbers, where the prompt first asks for an unhelpful answer and the other
    output wins; ``Base_9`` and ``Base_10`` are one set of sums in two number systems. Only a judge that reads the
    prompt is right in both. Read are the 419 pairs of LLMBar itself (labels of people) and the 315 case studies (true
    by construction). The folder ``Processed`` holds other authors' sets and is not read. The topic is the subset.
    """
    subset = at.file.parent.name
    name = f"llmbar-{subset}-{at.number}"
    chosen, rejected = choice(row, "label", {1: ("output_1", "output_2"), 2: ("output_2", "output_1")})
    return chosen_pair(
        name,
        query(row, "input"),
        response(row, chosen),
        response(row, rejected),
        first=chosen == "output_1",
        source=f"llmbar/{'construction' if at.file.parent.parent.name == 'CaseStudy' else 'human'}",
        topic=subset,
        criteria=wordings(FOLLOW_WORDINGS, 0, name),
        criteria_topic="instruction following",
    )


@rows_of("mcq_options", drop_repeated="dropped_repeated_questions")
def prefeval(row: Row, at: At) -> list[Preference]:
    """PrefEval: a user states a preference and asks a question; of four options only the first follows the preference.

    It makes a pair with each of the others, and the user's statement, in their own words, is its criterion. The topic
    is the file's name. One file is published twice ("travel_hotel copy").
    """
    field, topic = "classification_task_options", at.stem.removesuffix(" copy")
    given = row.get(field)
    if not isinstance(given, list) or len(given) != OPTIONS:
        raise RecordError(field, f"expected a list of {OPTIONS} options, the first of which follows the preference")
    options = [text({field: option}, field) for option in given]
    if options[0] in options[1:]:
        raise RecordError(field, "the first option is repeated, so that it does not tell who follows the preference")
    preference, question = text(row, "preference"), text(row, "question")
    name = f"prefeval-{topic}-{prompt_key(turn('user', f'{preference}|{question}'))}"
    return [
        chosen_pair(
            f"{name}-{other}",
            turn("user", question),
            turn("assistant", options[0]),
            turn("assistant", options[other]),
            source="prefeval/llm",
            topic=topic,
            criteria=(preference,),
            criteria_topic=topic,
        )
        for other in range(1, OPTIONS)
    ]


@rows_of("hhh_alignment_eval.json.gz")
def prometheus_hhh(row: Row, at: At) -> Preference:
    """HHH alignment with rubrics: a row holds two prompts to a judge, with the chosen and with the rejected response.

    Instruction, response and rubric stand in them under `HEADINGS`. The question that the rubric asks is the criterion,
    its kind the topic. An instruction may be a dialogue so far.
    """
    kind = choice(row, "source", {kind: kind for kind in ("harmless", "helpful", "honest", "other")})
    instruction, chosen, question = _judged(row, "chosen_instruction")
    other_instruction, rejected, other_question = _judged(row, "rejected_instruction")
    if (instruction, question) != (other_instruction, other_question):
        raise RecordError("rejected_instruction", "asks about another instruction or rubric than chosen_instruction")
    return chosen_pair(
        f"prometheus_hhh-{at.number}",
        dialogue(instruction),
        turn("assistant", chosen),
        turn("assistant", rejected),
        source="prometheus_hhh/human",
        topic=kind,
        criteria=(question,),
        criteria_topic=kind,
    )


def _judged(row: Row, field: str) -> tuple[str, str, str]:
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


def personas8(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Eight personas: an LLM told to be one of them chose between two responses, 1,000 pairs a persona.

    A persona is a text that speaks to an assistant ("You are ... Your tone ..."). Its sentences, turned into what a
    user asks of an assistant, are the criteria; their topic is the user's name, so that users can be held out whole.
    Rows read are the eight persona texts and the pairs.
    """
    personas = dict(reading.lines(folder / "user_prompts.jsonl", _persona, key=lambda item: item[0]))
    pairs = rows_of(*(f"{user}_test.json.gz" for user in USERS), drop_identical=True)
    yield from pairs(partial(_as_persona, personas))(folder, reading)


def as_criteria(persona: str) -> tuple[str, ...]:
    """The sentences of a persona, as a user would ask for them."""
    sentences = [sentence for sentence in re.split(r"(?<=[.!?])\s+", persona.strip()) if sentence]
    for pattern, ours in _OPENINGS:
        sentences = [pattern.sub(ours, sentence) for sentence in sentences]
    return tuple(sentence.removesuffix(".") for sentence in sentences if sentence.strip("."))


def _persona(row: Row, _line: int) -> tuple[str, tuple[str, ...]]:
    criteria = as_criteria(text(row, "prompt"))
    if not 0 < len(criteria) <= MAX_CRITERIA:
        raise RecordError("prompt", f"{len(criteria)} sentences; expected 1 to {MAX_CRITERIA}")
    return choice(row, "user", {user: user for user in USERS}), criteria


def _as_persona(personas: dict[str, tuple[str, ...]], row: Row, at: At) -> Preference:
    user = at.stem.removesuffix("_test")
    if user not in personas:
        raise RecordError("row", f"user_prompts.jsonl has no row of {user} that can be read")
    return chosen_pair(
        f"personas8-{user}-{at.number}",
        query(row, "prompt"),
        response(row, "chosen"),
        response(row, "rejected"),
        source="personas8/llm",
        criteria=personas[user],
        criteria_topic=user,
    )
