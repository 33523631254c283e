"""`bank.py`: a bank made a model at a time, or a public one fetched."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from rich.progress import Progress

from crm.chat.cache import ReplyCache
from crm.io.fetch import fetch
from crm.io.files import replace_file
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.bank.collecting import collect
from crm.leaderboard.bank.config import BankBuildConfig
from crm.leaderboard.bank.public import read_public_bank
from crm.leaderboard.bank.responses import check_complete, read_queries, read_responses, with_author

log = logging.getLogger(__name__)
REPLIES = "replies.sqlite"
THOUGHTS = "thoughts.jsonl"


def run_bank(config: BankBuildConfig) -> Bank:
    """Add ``author`` to the bank in ``out``, which is made where it is missing; the author is then its baseline.

    With ``fetch`` the published files of a bank are put below ``out`` instead. Raises ``ValueError`` where a query has
    no response, or a file cannot be had; what was collected is kept, and the same command goes on.
    """
    out, thoughts = Path(config.out), dict[str, str]()
    if config.fetch.name is not None:
        fetch(config.fetch, out, config.progress)
        log.info("use it as bank=%s bank.root=%s", config.fetch.name, out)
        return read_public_bank(config.fetch.name, str(out))
    known = load_bank(out) if (out / "bank.json").is_file() else None
    if known is None and config.queries is None:
        raise ValueError(f"queries=null: {out} holds no bank yet; give a file of queries to make one")
    queries = known.queries if known else read_queries(Path(str(config.queries)))
    if config.responses is not None:
        answers = read_responses(Path(config.responses), queries)
    else:
        answers, thoughts = _collected(config, queries, out)
        check_complete(queries, answers, "endpoint")
    if known is not None:
        bank = with_author(known, config.author, answers)
    else:
        bank = Bank(config.name or out.name, config.author, queries, {config.author: answers})
    bank.save(out)
    if thoughts:
        _keep_thoughts(out / THOUGHTS, config.author, thoughts)
    log.info("bank %s: %d queries, %d models (%s)", bank.name, len(bank.queries), len(bank.authors), out)
    return bank


def _keep_thoughts(file: Path, author: str, thoughts: Mapping[str, str]) -> None:
    """Lines of author, query_id and thoughts, behind those of other models."""
    rows = [{"author": author, "query_id": name, "thoughts": text} for name, text in thoughts.items()]
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    replace_file(file, before + "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    log.info("%d responses of %s began with thoughts; they are in %s and are not judged", len(rows), author, file)


def _collected(
    config: BankBuildConfig, queries: tuple[BankQuery, ...], out: Path
) -> tuple[dict[str, str], dict[str, str]]:
    """Responses, and what was thought before them, by query id."""
    with Progress(disable=not config.progress) as bar:
        task = bar.add_task(config.author, total=len(queries))
        found = collect(
            config.endpoint, ReplyCache(out / REPLIES), queries, lambda done, _: bar.update(task, completed=done)
        )
    answers, thoughts, failures = found
    for kind, count in sorted(failures.items()):
        log.warning("%d queries without a response: %s", count, kind)
    return answers, thoughts
