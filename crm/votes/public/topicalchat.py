"""Topical-Chat. In: ``topicalchat/topical_chat.json``, mean ratings of six replies to each of 60 dialogues. Out: pairs.

The prompt is the dialogue so far and the text that the reply may draw on, where there was one. Five aspects were rated,
and the reply as a whole, which decides who wins. All pairs of replies to one dialogue are made (see
`crm.votes.public.rated`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.schema import Preference, prompt_key
from crm.votes.fields import inner, number, text
from crm.votes.public.rated import Rated, RatedInPlace, pairs_within, rated_pair
from crm.votes.sampling import turn

RANGES = {
    "understandability": (0, 1),
    "naturalness": (1, 3),
    "coherence": (1, 3),
    "engagingness": (1, 3),
    "groundedness": (0, 1),
}
OVERALL = (1, 5)
WORDINGS: dict[str, tuple[str, ...]] = {
    "understandability": (
        "I must be able to tell at once what the reply means",
        "Say something I can make sense of without guessing",
        "A reply that leaves me puzzled about its meaning is a bad reply",
        "Plain and clear enough that nobody has to ask what was meant",
        "The point of the message should be obvious on first reading",
        "I dislike replies that I have to decipher",
    ),
    "naturalness": (
        "It should sound like something a real person would say in a chat",
        "I do not want to notice that a machine is talking",
        "Prefer the reply with the easy tone of everyday talk",
        "Stiff or odd phrasing puts me off",
        "Choose the one a friend could have typed",
        "Talk the way people talk, without awkward turns of phrase",
    ),
    "coherence": (
        "The reply has to pick up what was just said",
        "Stay with the subject of our conversation",
        "I want an answer that continues the talk, not one that starts another",
        "Show that you followed the dialogue up to this point",
        "Nothing that contradicts or ignores the previous messages",
        "It must fit in where it stands in the chat",
    ),
    "engagingness": (
        "Say something that makes me want to keep chatting",
        "I like surprising facts and lively opinions in a reply",
        "Dull small talk bores me, give me something to react to",
        "Prefer the message that is more fun to answer",
        "The more curious it makes me the better",
        "A generic yes-or-me-too answer is not enough for me",
    ),
    "groundedness": (
        "Bring in something from the text you were given",
        "I want the background reading to show in the reply",
        "Use the facts at hand rather than talking in general",
        "A good reply mentions a detail from the article",
        "Prefer the one that makes use of the supplied information",
        "Base what you say on the material provided",
    ),
}
INSTRUCTION = "Write the next message of this chat."
READING = "You may use what the article says."
NO_ARTICLE = "_nofact"
"""Stands for the article in 8 of the 60 dialogues, where there was nothing to draw on."""


def rated(folder: Path, reading: Intake) -> Iterator[RatedInPlace]:
    """Every reply to every dialogue."""
    return reading.array(folder / "topical_chat.json", _parse, key=lambda row: (row.group, row.rated.author))


def read(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs; ids are ``topicalchat-<key of the prompt>-<system>-<system>``."""
    for first, second in pairs_within(rated(folder, reading), lambda reply: reply.group):
        name = f"topicalchat-{first.group}-{first.rated.author}-{second.rated.author}"
        yield rated_pair(name, first.prompt, first.rated, second.rated, WORDINGS, source="topicalchat/human")


def _parse(row: dict[str, Any], _line: int) -> RatedInPlace:
    scores = inner(row, "scores")
    article, chat = text(row, "context").strip(), text(row, "source").strip()
    known = "" if article == NO_ARTICLE else f" {READING}\n\nArticle:\n{article}"
    prompt = turn("user", f"{INSTRUCTION}{known}\n\nChat:\n{chat}")
    response = Rated(
        text(row, "system_output"),
        text(row, "system_id"),
        {aspect: number(scores, f"scores.{aspect}", *RANGES[aspect]) for aspect in RANGES},
        number(scores, "scores.overall", *OVERALL),
    )
    return RatedInPlace(prompt_key(prompt), prompt, response)
