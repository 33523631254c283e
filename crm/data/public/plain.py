"""Public sets of a chosen response and another, a function each."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from crm.data.fields import At, PublicRow, Row, Text, any_text, asked, identity, optional_text, require, rows_of
from crm.data.public.pairs import chosen_pair, wordings_of
from crm.data.sampling import turn, wordings
from crm.schema import Preference, RecordError, messages

LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)
SUBJECTIVE = ("Brainstorming", "Chat", "Generation", "Open QA", "Rewrite", "Role Playing", "Summarization")
"""RMB's tasks in which taste decides."""
Annotation = Literal[0, 1, 2]


class _LLMBar(PublicRow):
    input: Text
    output_1: str
    output_2: str
    label: Literal[1, 2]


@rows_of(*(f"{subset}/dataset.json" for subset in LLMBAR_SUBSETS), model=_LLMBar)
def llmbar(row: _LLMBar, at: At) -> Preference:
    """LLMBar: of two outputs one follows the instruction, which is the criterion. Sides are as published.

    The 59 pairs of ``Normal`` come back in ``Negation``, where the prompt first asks for an unhelpful answer and the
    other output wins. The topic is the subset. The folder ``Processed`` has other authors' sets and is not read.
    """
    subset = at.file.parent.name
    name = f"llmbar-{subset}-{at.number}"
    outputs = (row.output_1, row.output_2) if row.label == 1 else (row.output_2, row.output_1)
    return chosen_pair(
        name,
        row.input,
        *outputs,
        first=row.label == 1,
        source=f"llmbar/{'construction' if at.file.parent.parent.name == 'CaseStudy' else 'human'}",
        topic=subset,
        criteria=wordings(wordings_of("llmbar")["instruction following"], 0, name),
        criteria_topic="instruction following",
    )


class _Answer(PublicRow):
    answer: str
    llm_name: Text


class _RMB(PublicRow):
    pair_uid: Text
    conversation_input: list[Any]
    chosen: _Answer
    reject: _Answer


@rows_of(*(f"Pairwise_set/Helpfulness/{task}" for task in SUBJECTIVE), model=_RMB, drop_identical=True)
def rmb(row: _RMB, at: At) -> Preference:
    """RMB: real users' prompts, two LLMs' responses, and which one a stronger LLM scored higher.

    Tasks with right answers (code, reasoning, ...) are not read. The topic is ``<task>/<scenario>``.
    """
    prompt = messages(row.conversation_input, "conversation_input")
    if (role := prompt[-1].role) != "user":
        raise RecordError("conversation_input", f"ends with a turn of the {role}, expected the user's")
    return chosen_pair(
        f"rmb-{row.pair_uid}",
        prompt,
        row.chosen.answer,
        row.reject.answer,
        source="rmb/llm",
        topic=f"{at.file.parent.name}/{at.file.name.split('.json')[0]}",
        authors=(row.chosen.llm_name, row.reject.llm_name),
    )


def _word(value: Any) -> Any:
    return str(value) if isinstance(value, bool) else value


class _PandaLM(PublicRow):
    idx: int
    instruction: str
    input: str
    motivation_app: Text
    cmp_key: Annotated[str, Field(pattern=r"^[^_]*_[^_]*$")]
    """Names of two models with one _ between them."""
    response1: Annotated[str, BeforeValidator(_word)]
    response2: Annotated[str, BeforeValidator(_word)]
    annotator1: Annotation
    annotator2: Annotation
    annotator3: Annotation


@rows_of("testset-v1.json", model=_PandaLM)
def pandalm(row: _PandaLM, at: At) -> Preference:
    """PandaLM's test: three annotators' votes; two of three decide, and where all differ it is a tie.

    The topic is the application that the instruction was made for, the authors are the models. A response that JSON
    spells as ``true`` or ``false`` was the word.
    """
    parts = [part for part in (row.instruction, row.input) if part.strip()]
    if not parts:
        raise RecordError("instruction", "blank, and so is input; expected text in one of them")
    votes = Counter((row.annotator1, row.annotator2, row.annotator3))
    at.counts.update(unanimous=len(votes) == 1, three_way_splits=len(votes) == 3)
    ((side, most),) = votes.most_common(1)
    winner = ("tie", "a", "b")[side] if most > 1 else "tie"
    first, second = row.cmp_key.split("_")
    given = f"pandalm-{row.idx}", "\n\n".join(parts), row.response1, row.response2
    topic, authors = row.motivation_app, (first, second)
    return chosen_pair(*given, first=True, winner=winner, source="pandalm/human", topic=topic, authors=authors)


@rows_of(drop_identical=True)
def rewardbench(row: Row, at: At) -> Preference:
    """RewardBench (arXiv 2403.13787). The topic is the subset. Which side is A is drawn."""
    sides = ("chosen", "rejected")
    require(row, ("prompt", *sides))
    if "num_correct" in row or isinstance(row["chosen"], list):
        raise RecordError("chosen", "a list, as in RewardBench 2, which evaluate.py suite=reward_bench_2 reads")
    prompt = asked(row["prompt"], "prompt")
    chosen, rejected = (turn("assistant", any_text(row[side], side)) for side in sides)
    name = f"rewardbench-{identity(row.get('id'), 'id', at.repeats, prompt, chosen, rejected)}"
    author, other = (optional_text(row.get(f"{side}_model"), f"{side}_model") for side in sides)
    topic = optional_text(row.get("subset"), "subset")
    return chosen_pair(name, prompt, chosen, rejected, source="rewardbench", topic=topic, authors=(author, other))
