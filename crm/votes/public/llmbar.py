"""LLMBar. In: ``llmbar/<subset>/dataset.json``. Out: `Preference` records; the criterion is to follow the instruction.

Of two outputs one follows the instruction: objectively, and agreed on by the authors. The prompt is the instruction as
published, whole, as the judges of the paper read it. So the 59 pairs of ``Normal`` come back in ``Negation`` under the
same numbers, where the prompt first asks for an unhelpful answer and the other output wins; ``Base_9`` and ``Base_10``
are one set of sums in two number systems. Only a judge that reads the prompt is right in both.

Read are the 419 pairs of LLMBar itself (labels of people) and the 315 case studies (true by construction). The folder
``Processed`` holds other authors' sets and is not read. The topic is the subset.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference
from crm.votes.fields import choice, response, text
from crm.votes.sampling import turn, wordings

SUBSETS = {
    "LLMBar/Natural": "human",
    "LLMBar/Adversarial/GPTInst": "human",
    "LLMBar/Adversarial/GPTOut": "human",
    "LLMBar/Adversarial/Manual": "human",
    "LLMBar/Adversarial/Neighbor": "human",
    "CaseStudy/Normal": "construction",
    "CaseStudy/Negation": "construction",
    "CaseStudy/Base_9": "construction",
    "CaseStudy/Base_10": "construction",
    "CaseStudy/Constraint": "construction",
}
"""Folder to who labelled it."""
ASPECT = "instruction following"
WORDINGS = (
    "Do what I asked for, exactly as I asked for it",
    "I judge an answer by whether it carries out my instruction, not by how good it looks",
    "Take my request literally and answer that request, not a similar one",
    "Whatever the task says has to be done, even where it is unusual",
    "A polished answer to another question is worth nothing to me",
    "I only care that every requirement in my message is met",
    "Stick to the instruction: nothing missing, nothing swapped",
)


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """Records of all subsets; ids are ``llmbar-<subset>-<item of the file>``. Outputs stand as published."""
    for subset in SUBSETS:
        yield from reading.array(folder / subset / "dataset.json", partial(_parse, subset=subset))


def _parse(row: dict[str, Any], number: int, *, subset: str) -> Preference:
    side = choice(row, "label", {1: "a", 2: "b"})
    short = subset.rsplit("/", 1)[-1]
    name = f"llmbar-{short}-{number}"
    criteria = wordings(WORDINGS, 0, name)
    topics = (ASPECT,) * len(criteria)
    return Preference(
        id=name,
        prompt=turn("user", text(row, "input")),
        response_a=response(row, "output_1"),
        response_b=response(row, "output_2"),
        winner=side,
        criteria_a=criteria if side == "a" else (),
        criteria_b=criteria if side == "b" else (),
        topic=short,
        criteria_topics_a=topics if side == "a" else (),
        criteria_topics_b=topics if side == "b" else (),
        source=f"llmbar/{SUBSETS[subset]}",
    )
