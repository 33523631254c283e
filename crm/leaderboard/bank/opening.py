"""Open a bank by its settings, made smaller where they say so: simulated, public, and a ranking published with one."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crm.data.public.banks import FOLDERS, read_published
from crm.data.simulation.lexicon import AUTHORS, BASELINE, TOPICS, Query, queries, write
from crm.io.draws import fraction, grouped, turn
from crm.io.installed import plugin
from crm.io.words import first_words
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.config import BankConfig
from crm.schema import Message, prompt_key


@dataclass(frozen=True, slots=True)
class SimulatedBank:
    """A bank and its truth: ``levels[author][query id][axis]`` is -1, 0 or +1."""

    bank: Bank
    levels: Mapping[str, Mapping[str, Mapping[str, int]]]


def _draw_queries(seed: int, per_topic: int) -> dict[str, Query]:
    chosen = {}
    for topic in TOPICS:
        reserved = queries(topic.name, "bank")
        if not 0 < per_topic <= len(reserved):
            raise ValueError(f"queries_per_topic: {per_topic} is not between 1 and {len(reserved)}")
        slug = re.sub(r"[^a-z]+", "-", topic.name.lower())
        # Consecutive from a place of the seed's own, around the end: all different, and in an already random order.
        start = (seed * per_topic) % len(reserved)
        for index in range(per_topic):
            chosen[f"{slug}-{index:03d}"] = reserved[(start + index) % len(reserved)]
    return chosen


def simulate_bank(*, seed: int, queries_per_topic: int = 20) -> SimulatedBank:
    """Responses of all simulated LLMs to queries of all twelve topics.

    The queries are set aside for banks: no preference of the arena uses them.
    """
    chosen = _draw_queries(seed, queries_per_topic)
    written = {name: {key: write(seed, name, query) for key, query in chosen.items()} for name in AUTHORS}
    bank = Bank(
        name=f"simulation-{seed}",
        baseline=BASELINE,
        queries=tuple(BankQuery(key, (Message("user", query.text),), query.topic) for key, query in chosen.items()),
        responses={name: {key: response.text for key, response in row.items()} for name, row in written.items()},
    )
    levels = {name: {key: response.levels for key, response in row.items()} for name, row in written.items()}
    return SimulatedBank(bank, levels)


BASELINES = {"alpacaeval": "gpt4_1106_preview", "justeval": "gpt-3.5-turbo-0301"}
"""Those of the sets' own leaderboards."""


def open_bank(config: BankConfig, topics: Sequence[str] = ()) -> Bank:
    """The bank that the settings name, with their baseline, on ``topics``, without the queries that they leave out.

    Raises ``ValueError`` where there is nobody to rank, or not that baseline or topic.
    """
    if config.name == "simulated":
        bank = simulate_bank(seed=config.seed, queries_per_topic=config.queries_per_topic).bank
    elif config.name == "folder":
        bank = load_bank(Path(str(config.path)))
    elif config.name in FOLDERS:
        bank = read_public_bank(config.name, config.root)
    else:
        bank = plugin("banks", config.name)(config.path)
    if len(bank.responses) < 2:
        raise ValueError(
            f"bank {bank.name!r}: holds the responses of {bank.baseline!r} alone; add another model "
            "(python bank.py out=<folder> author=<name> responses=<file>)"
        )
    baseline = config.baseline or bank.baseline
    if baseline not in bank.responses:
        known = ", ".join(bank.authors)
        raise ValueError(f"bank.baseline={baseline!r}: not in bank {bank.name!r}; choose one of {known}")
    return smaller_bank(replace(bank, baseline=baseline).select(topics), config)


def read_public_bank(name: str, root: str) -> Bank:
    """The `Bank` of published responses under ``root``. Raises ``ValueError`` as `read_published` does."""
    queries, answers = read_published(name, root)
    asked = tuple(BankQuery(key, turn("user", text), topic) for key, (text, topic) in queries.items())
    return Bank(name, BASELINES[name], asked, answers)


def smaller_bank(bank: Bank, config: BankConfig) -> Bank:
    """The bank without the queries of the banks ``without``; of the others at most ``queries``, drawn by ``seed``.

    They are drawn in turns over topics, so that topics are as even as they can be. ``max_words`` cuts every response to
    its first words. Raises ``ValueError`` where no query is left.
    """
    others = [query for name in config.without for query in read_public_bank(name, config.root).queries]
    known = {prompt_key(query.prompt) for query in others}
    queries = [query for query in bank.queries if not known or prompt_key(query.prompt) not in known]
    if not queries:
        raise ValueError(f"bank.without: all queries of bank {bank.name!r} are left out; name fewer banks")
    if config.queries:
        drawn = {query.id for query in in_turns(queries, config.seed)[: config.queries]}
        queries = [query for query in queries if query.id in drawn]
    responses = {
        author: {query.id: first_words(texts[query.id], config.max_words) for query in queries}
        for author, texts in bank.responses.items()
    }
    return replace(bank, queries=tuple(queries), responses=responses)


def in_turns(queries: Sequence[BankQuery], seed: int) -> list[BankQuery]:
    """The queries in an order drawn by ``seed``, one of every topic, then another of every topic."""
    drawn = sorted(queries, key=lambda query: (fraction(seed, "bank", query.id), query.id))
    topics = grouped(drawn, lambda query: query.topic)
    turns = {query.id: place for own in topics.values() for place, query in enumerate(own)}
    return sorted(drawn, key=lambda query: turns[query.id])


ALPACAEVAL = "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv"


@dataclass(frozen=True)
class PublishedRanking:
    """``rates`` in [0, 1] and names to ``display``, by LLM; ``title`` says whose they are and of when."""

    title: str
    rates: dict[str, float]
    display: dict[str, str]


def published_ranking(bank: BankConfig, models: Collection[str]) -> PublishedRanking | None:
    """What is beside the bank's files about ``models``; None where nothing is, or not about all of them."""
    path = Path(bank.root) / FOLDERS["alpacaeval"] / ALPACAEVAL
    if bank.name != "alpacaeval" or not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["samples"].partition("/results/")[2].partition("/")[0]: row for row in csv.DictReader(file)}
    if not set(models) <= rows.keys():
        return None
    return PublishedRanking(
        "AlpacaEval 2's, as GPT-4 Turbo judged in 2024 (win rates at equal length)",
        {name: float(rows[name]["length_controlled_winrate"]) / 100 for name in models},
        {name: rows[name]["name"] for name in models},
    )
