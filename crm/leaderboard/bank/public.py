"""Banks of published responses (`crm.votes.public.banks`), and smaller ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from crm.io.words import first_words
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.schema import prompt_key
from crm.votes.public.banks import FOLDERS, UNTAGGED, read_published
from crm.votes.sampling import fraction, turn

__all__ = ["BASELINES", "FOLDERS", "UNTAGGED", "in_turns", "read_public_bank", "smaller_bank"]
BASELINES = {"alpacaeval": "gpt4_1106_preview", "justeval": "gpt-3.5-turbo-0301"}
"""Those of the sets' own leaderboards."""


def read_public_bank(name: str, root: str) -> Bank:
    """The `Bank` of published responses under ``root``. Raises ``ValueError`` as `read_published` does."""
    published = read_published(name, root)
    queries, topics = published.queries, published.topics
    return Bank(
        name,
        BASELINES[name],
        tuple(BankQuery(key, turn("user", query), topics.get(query, UNTAGGED)) for key, query in queries.items()),
        {author: {key: texts[query] for key, query in queries.items()} for author, texts in published.answers.items()},
    )


def smaller_bank(bank: Bank, *, without: Collection[str] = (), queries: int = 0, max_words: int = 0, seed: int) -> Bank:
    """The bank without the queries whose `prompt_key` is in ``without``; of the others at most ``queries`` (0: all).

    They are drawn by ``seed``, in turns over topics, so that topics are as even as they can be.
    ``max_words`` cuts every response to its first words (0: none); judges then see less than people would. Raises
    ``ValueError`` where no query is left.
    """
    allowed = [query for query in bank.queries if prompt_key(query.prompt) not in without]
    kept = in_turns(allowed, seed, "bank")[: queries or None]
    if not kept:
        raise ValueError(f"bank.without: all queries of bank {bank.name!r} are left out; name fewer banks")
    order = {query.id: place for place, query in enumerate(bank.queries)}
    kept.sort(key=lambda query: order[query.id])
    responses = {
        author: {query.id: first_words(texts[query.id], max_words) if max_words else texts[query.id] for query in kept}
        for author, texts in bank.responses.items()
    }
    return replace(bank, queries=tuple(kept), responses=responses)


def in_turns(queries: Sequence[BankQuery], seed: int, name: str) -> list[BankQuery]:
    """The queries in an order drawn by ``seed`` and ``name``, one of every topic, then another of every topic."""
    by_topic: Counter[str] = Counter()
    places: list[tuple[int, int, BankQuery]] = []
    for query in sorted(queries, key=lambda row: (fraction(seed, name, row.id), row.id)):
        places.append((by_topic[query.topic], len(places), query))
        by_topic[query.topic] += 1
    return [query for _, _, query in sorted(places, key=lambda place: place[:2])]
