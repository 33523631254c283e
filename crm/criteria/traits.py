"""A first guess at criteria without a language model: measurable traits in which two responses clearly differ.

A deterministic baseline for tests, demonstrations and a first look at data. It counts words, list items, question
marks and the like and turns each clear difference into a criterion, in opposite directions for the two sides. It knows
nothing of content or truth, its word lists are English, and a model trained on its criteria learns to count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from crm.criteria.counting import MEASURES, Text
from crm.criteria.extraction import Extraction, has_criteria
from crm.io.draws import generator
from crm.schema import Message, Preference

MAX_TRAITS = 4
"""Criteria a side at most: those of the traits that differ most, in units of their thresholds."""
TRAITS: dict[str, dict[str, list[str]]] = yaml.safe_load(
    Path(__file__).with_name("traits.yaml").read_text(encoding="utf-8")
)
"""Some of `MEASURES`: criteria of users who want ``more``, or ``less``, of it."""


def differences(response_a: str, response_b: str) -> list[tuple[str, int]]:
    """Traits in which two texts clearly differ, the strongest first, with 1 where A has more of it and -1 where B."""
    found, a, b = [], Text(response_a), Text(response_b)
    for name in TRAITS:
        gap = (MEASURES[name](a) - MEASURES[name](b)) / MEASURES[name].clear
        # The margin keeps a gap of exactly the threshold on the same side in either order.
        if abs(gap) >= 1 - 1e-9:
            found.append((abs(gap), name, 1 if gap > 0 else -1))
    found.sort(key=lambda item: -item[0])
    return [(name, sign) for _, name, sign in found]


def describe(preference: Preference, seed: int) -> Extraction:
    """Criteria and their topics (names of traits) for a preference without criteria.

    ``status`` is ``described``, ``given`` (it has some) or ``no_difference``. The wordings depend on (seed, preference
    id) only.
    """
    if has_criteria(preference):
        return Extraction(preference, "given")
    found = differences(_text(preference.response_a), _text(preference.response_b))[:MAX_TRAITS]
    if not found:
        return Extraction(preference, "no_difference")
    names = tuple(name for name, _ in found)
    described = replace(
        preference,
        criteria_a=tuple(_wording(seed, preference.id, name, sign) for name, sign in found),
        criteria_b=tuple(_wording(seed, preference.id, name, -sign) for name, sign in found),
        criteria_topics_a=names,
        criteria_topics_b=names,
    )
    return Extraction(described, "described")


def _wording(seed: int, identifier: str, name: str, sign: int) -> str:
    """Drawn without regard to the side, so that swapping the responses swaps the criteria."""
    sentences = TRAITS[name]["more" if sign > 0 else "less"]
    return generator(seed, 0, identifier, f"trait {name} {sign}").choice(sentences)


def _text(messages: Sequence[Message]) -> str:
    return "\n\n".join(turn.content for turn in messages if turn.role == "assistant")
