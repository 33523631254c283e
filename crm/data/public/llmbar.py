"""LLMBar: pairs of a chosen response and another."""

from __future__ import annotations

from typing import Literal

from crm.data.fields import At, PublicRow, Text, rows_of
from crm.data.public.pairs import chosen_pair, wordings_of
from crm.io.draws import wordings
from crm.schema import Preference

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
def read(row: _LLMBar, at: At) -> Preference:
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
