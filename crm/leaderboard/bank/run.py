"""`bank.py`: a bank made a model at a time, from files or from endpoints."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from filelock import FileLock
from rich.progress import Progress

from crm.endpoint.client import ChatClient
from crm.endpoint.replies import CallFailed, Reply, ReplyCache, split_thoughts
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.bank.responses import check_complete, read_queries, read_responses
from crm.leaderboard.config import BankBuildConfig

log = logging.getLogger(__name__)


def run_bank(config: BankBuildConfig) -> Bank:
    """Add ``author`` to the bank in ``out``, which is made where it is missing; the author is then its baseline.

    Raises ``ValueError`` where a query has no response; what was collected is kept, and the same command goes on.
    """
    out = Path(config.out)
    known = _bank_in(out)
    if known and config.author in known.responses:
        raise ValueError(f"author: {config.author!r} is already in bank {known.name!r}; give another name")
    if known is None and config.queries is None:
        raise ValueError(f"queries=null: {out} holds no bank yet; give a file of queries to make one")
    queries = known.queries if known else read_queries(Path(str(config.queries)))
    answers = read_responses(Path(config.responses), queries) if config.responses else _collect(config, queries)
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / ".bank.lock"):  # another run may have added a model meanwhile
        found = _bank_in(out) or Bank(out.name, config.author, queries, {config.author: answers})
        bank = replace(found, responses={**found.responses, config.author: answers})
        bank.save(out)
    log.info("bank %s: queries %d, models %d (%s)", bank.name, len(bank.queries), len(bank.authors), out)
    return bank


def _bank_in(out: Path) -> Bank | None:
    return load_bank(out) if (out / "bank.json").is_file() else None


def _collect(config: BankBuildConfig, queries: Sequence[BankQuery]) -> dict[str, str]:
    """Responses of the endpoint by query id, without thoughts; what it answered is never asked again."""
    client = ChatClient(config.endpoint, ReplyCache(Path(config.out) / "replies.sqlite"))
    with Progress(disable=not config.progress) as bar:
        task = bar.add_task(config.author, total=len(queries))
        found = client.ask(
            [query.prompt for query in queries],
            _answer,
            "response",
            progress=lambda done, _: bar.update(task, completed=done),
        )
    kinds = Counter(outcome.failure for outcome in found if outcome.failure)
    details = {outcome.failure: outcome.detail for outcome in found}
    for kind, count in sorted(kinds.items()):
        log.warning("%d queries without a response: %s, such as: %s", count, kind, details[kind])
    answers = {query.id: outcome.value for query, outcome in zip(queries, found, strict=True) if outcome.value}
    check_complete(queries, answers, "endpoint")
    return answers


def _answer(reply: Reply) -> str:
    _, response = split_thoughts(reply.text)
    if not response.strip():
        raise CallFailed("empty", "the reply ends with the model's thoughts; allow more max_tokens")
    return response
