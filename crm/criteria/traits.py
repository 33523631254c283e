"""A first guess at criteria without a language model: measurable traits in which two responses clearly differ.

A deterministic baseline for tests, demonstrations and a first look at data. It counts words, list items, question
marks and the like and turns each clear difference into a criterion, in opposite directions for the two sides. It knows
nothing of content or truth, its word lists are English, and a model trained on its criteria learns to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria.counting import MEASURES, Measure, Text
from crm.criteria.extraction import Extraction, has_criteria
from crm.io.draws import generator
from crm.schema import Message, Preference

MAX_TRAITS = 4
"""Criteria a side at most: those of the traits that differ most, in units of their thresholds."""


@dataclass(frozen=True, slots=True)
class Trait:
    """One of `MEASURES`; ``more`` and ``less`` are criteria of users who want more, or less, of it."""

    name: str
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()

    @property
    def measure(self) -> Measure:
        """What counts it; two responses differ if their numbers are ``clear`` or more apart. NaN never differs."""
        return MEASURES[self.name]


def describe(preferences: Iterable[Preference], seed: int) -> list[Extraction]:
    """Criteria and their topics (names of traits) for every preference without criteria, in the order given.

    ``status`` is ``described``, ``given`` (it has some) or ``no_difference``. The wordings depend on (seed, preference
    id) only.
    """
    return [_describe(preference, seed) for preference in preferences]


def differences(response_a: str, response_b: str) -> list[tuple[str, int]]:
    """Traits in which two texts clearly differ, the strongest first, with 1 where A has more of it and -1 where B."""
    found, a, b = [], Text(response_a), Text(response_b)
    for trait in TRAITS.values():
        gap = (trait.measure(a) - trait.measure(b)) / trait.measure.clear
        # The margin keeps a gap of exactly the threshold on the same side in either order.
        if abs(gap) >= 1 - 1e-9:
            found.append((abs(gap), trait.name, 1 if gap > 0 else -1))
    found.sort(key=lambda item: -item[0])
    return [(name, sign) for _, name, sign in found]


def _describe(preference: Preference, seed: int) -> Extraction:
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
    sentences = TRAITS[name].more if sign > 0 else TRAITS[name].less
    return generator(seed, 0, identifier, f"trait {name} {sign}").choice(sentences)


def _text(messages: Sequence[Message]) -> str:
    return "\n\n".join(turn.content for turn in messages if turn.role == "assistant")


# Of two traits that differ equally the earlier is the stronger.
_ALL = (
    Trait("Length",
        ("Wants a full answer that leaves nothing out", "Prefers long, detailed responses"),
        ("Wants it short", "Prefers a brief answer without padding")),
    Trait("Lists",
        ("Likes points set out as a list", "Prefers bullet points or numbered steps"),
        ("Prefers flowing paragraphs to lists", "Wants connected prose instead of bullet points")),
    Trait("Headings and emphasis",
        ("Likes headings and bold key words for orientation", "Prefers important terms to stand out"),
        ("Prefers plain text without headings or bold type", "Dislikes heavy formatting")),
    Trait("Code",
        ("Wants code to copy and try", "Prefers to be shown a program"),
        ("Prefers an explanation in words to code", "Does not want to read source code")),
    Trait("Sentence length",
        ("Enjoys long, winding sentences", "Prefers elaborate sentences that link ideas"),
        ("Prefers short sentences", "Likes a crisp style, one thought a sentence")),
    Trait("Vocabulary",
        ("Likes an advanced vocabulary", "Prefers precise technical terms to everyday ones"),
        ("Prefers simple everyday words", "Dislikes jargon and long words")),
    Trait("Questions to the reader",
        ("Likes to be asked questions in return", "Enjoys a dialogue that draws the reader in"),
        ("Wants answers, not questions", "Dislikes rhetorical questions")),
    Trait("Liveliness",
        ("Enjoys an excited, lively tone", "Likes exclamations and emoji"),
        ("Prefers a calm and sober tone", "Dislikes exclamation marks and emoji")),
    Trait("Caution",
        ("Values careful statements that admit doubt", "Wants limits and exceptions to be named"),
        ("Wants clear and firm statements", "Dislikes hedging")),
    Trait("First person",
        ("Likes an assistant that speaks of itself", "Prefers a personal voice that says I"),
        ("Prefers an impersonal style", "Dislikes an assistant that talks about itself")),
    Trait("Figures",
        ("Wants numbers and dates", "Prefers claims backed by figures"),
        ("Prefers words to numbers", "Does not care for statistics")),
    Trait("Examples",
        ("Wants examples", "Prefers ideas shown on concrete cases"),
        ("Prefers the principle without examples", "Can do without illustrations")),
    Trait("Quotations",
        ("Enjoys quotations and direct speech", "Prefers answers that quote"),
        ("Prefers an answer in its own words, without quotations", "Likes things retold rather than quoted")),
    Trait("Courtesy",
        ("Values a polite and friendly manner", "Prefers a warm, helpful tone"),
        ("Wants to get to the point without pleasantries", "Dislikes polite phrases")),
    Trait("Declining",
        ("Prefers an assistant that declines doubtful requests", "Values restraint over compliance"),
        ("Wants the request to be fulfilled", "Dislikes refusals")),
)  # fmt: skip
TRAITS = {trait.name: trait for trait in _ALL}
