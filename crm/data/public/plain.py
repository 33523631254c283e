"""Public sets of a chosen response and another, a function each."""

from __future__ import annotations

from typing import Literal

from crm.data.fields import At, PublicRow, Row, Text, any_text, asked, identity, optional_text, require, rows_of
from crm.data.public.pairs import chosen_pair, wordings_of
from crm.data.sampling import turn, wordings
from crm.schema import Preference, RecordError

LLMBAR_SUBSETS = (
    "LLMBar/Natural",
    *(f"LLMBar/Adversarial/{name}" for name in ("GPTInst", "GPTOut", "Manual", "Neighbor")),
    *(f"CaseStudy/{name}" for name in ("Normal", "Negation", "Base_9", "Base_10", "Constraint")),
)


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
