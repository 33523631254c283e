"""Published responses of many LLMs. In: folders as their authors publish them. Out: a `Bank`; smaller ones.

``alpacaeval``: a file an LLM (``instruction``, ``output``); the queries that all of them answered. ``justeval``: the
queries of ``tags_list.json.gz``, with topics; 442 of them are AlpacaEval's, which have their topics from there.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crm.io.intake import Intake
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.schema import RecordError, prompt_key
from crm.votes.fields import text
from crm.votes.sampling import first_words, fraction, turn

log = logging.getLogger(__name__)
FOLDERS = {"alpacaeval": "bank_alpacaeval", "justeval": "bank_justeval"}
BASELINES = {"alpacaeval": "gpt4_1106_preview", "justeval": "gpt-3.5-turbo-0301"}
"""Those of the sets' own leaderboards."""
UNTAGGED = "untagged"
"""Topic of a query that nobody gave one."""
Answers = dict[str, dict[str, str]]
"""Responses by author, then by query."""


def read_public_bank(name: str, root: str) -> Bank:
    """A bank of `FOLDERS` under ``root``; how many distinct queries are left out of it is logged.

    Ids are ``<name>-<prompt_key>``, so that equal queries are one, with the answers to the first of them. A query's
    topic is the first of its tags. Raises ``ValueError`` where the folder is missing or a file is malformed.
    """
    folder = Path(root) / FOLDERS[name]
    if not folder.is_dir():
        raise ValueError(
            f"bank.root={root!r}: has no folder {FOLDERS[name]!r}, which bank={name} is read from; see "
            "docs/data_formats.md for its files, or set CRM_DATA_ROOT to a folder that has them"
        )
    topics = _topics(Path(root) / FOLDERS["justeval"] / "tags_list.json.gz")
    if name == "justeval":
        answers = {path.name.partition(".to_eval.")[0]: _outputs(path) for path in _files(folder / "outputs")}
        wanted = set(topics)
    else:
        answers = {path.name.partition(".json")[0]: _outputs(path) for path in _files(folder)}
        wanted = set().union(*answers.values())
    shared = wanted.intersection(*answers.values())
    queries: dict[str, str] = {}
    for query in sorted(shared):
        queries.setdefault(f"{name}-{prompt_key(turn('user', query))}", query)
    left_out = {"not_answered_by_all": len(wanted) - len(shared), "equal_queries": len(shared) - len(queries)}
    log.info("bank %s: %d queries, left out: %s", name, len(queries), left_out)
    return Bank(
        name,
        BASELINES[name],
        tuple(BankQuery(key, turn("user", query), topics.get(query, UNTAGGED)) for key, query in queries.items()),
        {author: {key: texts[query] for key, query in queries.items()} for author, texts in answers.items()},
    )


def smaller_bank(bank: Bank, *, without: Collection[str] = (), queries: int = 0, max_words: int = 0, seed: int) -> Bank:
    """The bank without the queries whose `prompt_key` is in ``without``; of the others at most ``queries`` (0: all).

    They are drawn by ``seed``, in turns over topics, so that topics stand side by side as evenly as they can.
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


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.glob("*.json*") if path.suffix in (".json", ".gz"))
    if not files:
        raise ValueError(f"{folder}: no file *.json or *.json.gz, one an LLM")
    return files


def _outputs(path: Path) -> dict[str, str]:
    """Response by query; of a query that is asked twice, the first."""
    answers: dict[str, str] = {}
    for query, response in Intake(strict=True).array(path, _answer):
        answers.setdefault(query, response)
    return answers


def _answer(row: dict[str, Any], _line: int) -> tuple[str, str]:
    if not isinstance(row.get("output"), str):
        raise RecordError("output", "missing or not a string")
    return text(row, "instruction"), row["output"]


def _topics(path: Path) -> Mapping[str, str]:
    """Topic by query, of one that is there twice the first; nothing where the file is missing."""
    if not path.is_file():
        return {}
    topics: dict[str, str] = {}
    for query, topic in Intake(strict=True).array(path, _tag):
        topics.setdefault(query, topic)
    return topics


def _tag(row: dict[str, Any], _line: int) -> tuple[str, str]:
    tags = row.get("topics")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise RecordError("topics", "expected a list of texts")
    return text(row, "instruction"), next(iter(tags), UNTAGGED)
