"""Published responses of many LLMs to the same queries, in folders as their authors publish them.

``alpacaeval``: a file an LLM (``instruction``, ``output``); the queries that all of them answered. ``justeval``: the
queries of ``tags_list.json.gz``, with topics; 442 of them are AlpacaEval's, which have their topics from there.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TypeVar

from crm.data.fields import PublicRow, Text
from crm.data.public.pairs import Answer
from crm.io.draws import turn
from crm.io.rows import Intake
from crm.schema import prompt_key

log = logging.getLogger(__name__)
FOLDERS = {"alpacaeval": "bank_alpacaeval", "justeval": "bank_justeval"}
UNTAGGED = "untagged"
"""Topic of a query that nobody gave one."""


class _Tags(PublicRow):
    instruction: Text
    topics: list[str]


Row = TypeVar("Row", Answer, _Tags)


def read_published(name: str, root: str | Path) -> tuple[dict[str, tuple[str, str]], dict[str, dict[str, str]]]:
    """A bank of `FOLDERS` under ``root``: each query and its topic by id, and answers by LLM, then by the query's id.

    Ids are ``<name>-<prompt_key>``, so that equal queries are one, with the answers to the first of them. A query's
    topic is the first of its tags. How many distinct queries are left out is logged. Raises ``ValueError`` where the
    folder is missing or a file is malformed.
    """
    folder = Path(root) / FOLDERS[name]
    if not folder.is_dir():
        raise ValueError(
            f"bank.root={str(root)!r}: has no folder {FOLDERS[name]!r}, which bank={name} is read from; "
            f"`python prepare.py fetch={name} out={root}` brings it, or set CRM_DATA_ROOT to a folder that has it"
        )
    tags = sorted(Path(root, FOLDERS["justeval"]).glob("tags_list.json*"))
    topics = {query: next(iter(row.topics), UNTAGGED) for path in tags[:1] for query, row in _rows(path, _Tags).items()}
    if name == "justeval":
        answers = {path.name.partition(".to_eval.")[0]: _rows(path, Answer) for path in _files(folder / "outputs")}
        wanted = set(topics)
    else:
        answers = {path.name.partition(".json")[0]: _rows(path, Answer) for path in _files(folder)}
        wanted = set().union(*answers.values())
    shared = wanted.intersection(*answers.values())
    queries: dict[str, str] = {}
    for query in sorted(shared):
        queries.setdefault(f"{name}-{prompt_key(turn('user', query))}", query)
    left_out = {"not_answered_by_all": len(wanted) - len(shared), "equal_queries": len(shared) - len(queries)}
    log.info("bank %s: %d queries, left out: %s", name, len(queries), left_out)
    asked = {key: (query, topics.get(query, UNTAGGED)) for key, query in queries.items()}
    return asked, {who: {key: own[query].output for key, query in queries.items()} for who, own in answers.items()}


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.glob("*.json*") if path.suffix in (".json", ".gz"))
    if not files:
        raise ValueError(f"{folder}: no file *.json or *.json.gz, one an LLM")
    return files


def _rows(path: Path, model: type[Row]) -> dict[str, Row]:
    """Rows by query; of a query that is there twice, the first."""
    rows = list(Intake(strict=True).rows(path, lambda row, _: model.model_validate(row)))
    return {row.instruction: row for row in reversed(rows)}
