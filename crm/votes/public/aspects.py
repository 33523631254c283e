"""Topical-Chat and data-to-text: people's ratings of several aspects, of which all pairs within a prompt are made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from crm.io.intake import Intake
from crm.schema import Preference, prompt_key
from crm.votes.fields import PublicRow, Text
from crm.votes.public.pairs import Rated, RatedInPlace, flips, pairs_within, rated_pair, wordings_of
from crm.votes.sampling import turn

OneToSix = Annotated[float, Field(ge=1, le=6)]
OneToThree = Annotated[float, Field(ge=1, le=3)]
Share = Annotated[float, Field(ge=0, le=1)]
NO_ARTICLE = "_nofact"
"""The article of 8 of the 60 dialogues, where there was nothing to draw on."""
PLACES = {"sfres": "restaurant", "sfhot": "hotel"}


class _ChatScores(PublicRow):
    understandability: Share
    naturalness: OneToThree
    coherence: OneToThree
    engagingness: OneToThree
    groundedness: Share
    overall: Annotated[float, Field(ge=1, le=5)]


class _Chat(PublicRow):
    context: Text
    source: Text
    system_output: Text
    system_id: Text
    scores: _ChatScores


def chats(folder: Path, reading: Intake) -> Iterator[RatedInPlace]:
    """Every rated reply of Topical-Chat, six to each dialogue.

    The prompt is the dialogue so far and the article that the reply may draw on, where there was one.
    """
    return reading.array(folder / "topical_chat.json", _chat, key=lambda row: (row.group, row.rated.author))


def topicalchat(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of replies to one dialogue; ids are ``topicalchat-<key of the prompt>-<system>-<system>``."""
    bank = wordings_of("topicalchat")
    for first, second in pairs_within(chats(folder, reading), lambda reply: reply.group):
        name = f"topicalchat-{first.group}-{first.rated.author}-{second.rated.author}"
        yield rated_pair(name, first.prompt, first.rated, second.rated, bank, source="topicalchat/human")


def _chat(given: dict[str, Any], _line: int) -> RatedInPlace:
    row = _Chat.model_validate(given)
    article = row.context.strip()
    known = "" if article == NO_ARTICLE else f" You may use what the article says.\n\nArticle:\n{article}"
    prompt = turn("user", f"Write the next message of this chat.{known}\n\nChat:\n{row.source.strip()}")
    scores = row.scores.model_dump()
    overall = scores.pop("overall")
    return RatedInPlace(prompt_key(prompt), prompt, Rated(row.system_output, row.system_id, scores, overall))


class _SentenceScores(PublicRow):
    informativeness: OneToSix
    naturalness: OneToSix
    quality: OneToSix = Field(alias="overall")
    """Of the language, as Novikova et al. (2017) asked for it."""


class _Sentence(PublicRow):
    doc_id: int
    source: Text
    system_output: Text
    scores: _SentenceScores


def d2t(folder: Path, reading: Intake) -> Iterator[Preference]:
    """All pairs of sentences for one dialogue act; ids are ``d2t-<file>-<doc_id>-<doc_id>``.

    A dialogue act such as ``inform(name=x,area=y)`` was put into words by two systems, which are not named. Pairs of
    equal texts, whose ratings differ by chance alone, are dropped and counted.
    """
    bank = wordings_of("d2t")
    for file, place in PLACES.items():
        rows = reading.array(
            folder / f"{file}.json", lambda row, _: _Sentence.model_validate(row), lambda row: row.doc_id
        )
        for first, second in pairs_within(rows, lambda row: row.source.strip()):
            act = first.source.strip()
            prompt = turn("user", f"Say this in one sentence to a customer who is looking for a {place}:\n\n{act}")
            a, b = (Rated(side.system_output, None, side.scores.model_dump()) for side in (first, second))
            name = f"d2t-{file}-{first.doc_id}-{second.doc_id}"
            row = rated_pair(name, prompt, a, b, bank, source="d2t/human", topic=f"{place}s")
            if row.response_a != row.response_b:
                yield row
            else:
                reading.counts["dropped_identical_responses"] += 1
                reading.counts["dropped_identical_responses_that_flip"] += flips(row)
