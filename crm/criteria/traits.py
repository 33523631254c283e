"""A first guess at criteria without any language model. In: preferences. Out: criteria from traits that can be counted.

What this is: a deterministic baseline for tests, demonstrations and a first look at data. It counts surface traits of
the two responses (words, list items, question marks and the like), takes those in which they clearly differ and words
each as a wish, in opposite directions for the two sides. Swapping the responses swaps the sides.

What it is not: it does not read. It knows nothing of content, truth, tone or why anybody chose; its word lists are
English. Criteria made here repeat what the counts say, so a model trained on them learns these counts, and results on
them say nothing about what people care about. The paper's way is `crm.criteria.extraction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria.counting import FIRST_TRAITS
from crm.criteria.trait_wordings import OF_ANNOTATOR, wording
from crm.io.draws import generator
from crm.schema import Message, Preference

MAX_TRAITS = 4
"""Criteria a side at most: those of the traits that differ most, in units of their thresholds."""


@dataclass(frozen=True, slots=True)
class Described:
    """A preference with criteria from traits. ``status``: ``described``, ``given`` (had some) or ``no_difference``."""

    preference: Preference
    status: str


def describe(preferences: Sequence[Preference], seed: int) -> list[Described]:
    """Criteria and their topics (names of traits) for every preference without criteria, in the order given.

    The wordings depend on (seed, preference id) only. Where nothing differs clearly a row stays without criteria.
    """
    return [_describe(preference, seed) for preference in preferences]


def differences(response_a: str, response_b: str) -> list[tuple[str, int]]:
    """Traits in which two texts clearly differ, the strongest first, with 1 where A has more of it and -1 where B."""
    found = []
    for trait in FIRST_TRAITS:
        gap = (trait.measure(response_a) - trait.measure(response_b)) / trait.threshold
        # The margin keeps a gap of exactly the threshold on the same side in either order.
        if abs(gap) >= 1 - 1e-9:
            found.append((abs(gap), trait.name, 1 if gap > 0 else -1))
    found.sort(key=lambda item: -item[0])
    return [(name, sign) for _, name, sign in found]


def _describe(preference: Preference, seed: int) -> Described:
    if preference.criteria_a or preference.criteria_b:
        return Described(preference, "given")
    found = differences(_text(preference.response_a), _text(preference.response_b))[:MAX_TRAITS]
    if not found:
        return Described(preference, "no_difference")
    names = tuple(name for name, _ in found)
    described = replace(
        preference,
        criteria_a=tuple(_wording(seed, preference.id, name, sign) for name, sign in found),
        criteria_b=tuple(_wording(seed, preference.id, name, -sign) for name, sign in found),
        criteria_topics_a=names,
        criteria_topics_b=names,
    )
    return Described(described, "described")


def _wording(seed: int, identifier: str, name: str, sign: int) -> str:
    """Drawn without regard to the side, so that swapping the responses swaps the criteria."""
    sentences = wording(name, sign).unseen[:OF_ANNOTATOR]
    return generator(seed, 0, identifier, f"trait {name} {sign}").choice(sentences)


def _text(messages: Iterable[Message]) -> str:
    return "\n\n".join(turn.content for turn in messages if turn.role == "assistant")
