"""Criteria and topics for votes, by a language model or without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from crm.chat.cache import ReplyCache
from crm.chat.client import ChatClient
from crm.chat.replies import UNANSWERED
from crm.criteria import extraction, traits
from crm.criteria.extraction import Extraction
from crm.criteria.topics import Topics, find_topics, name_topics
from crm.prepare.config import AnnotatorConfig, TopicsConfig
from crm.schema import Preference

DOWN = "failed:endpoint_down"
Annotated = tuple[list[Preference], Counter[str]]


def make_client(annotator: AnnotatorConfig, cache: Path) -> ChatClient | None:
    """The endpoint of the configuration with the key of the environment; ``None`` for the offline annotator.

    Raises ``ValueError`` for a named variable that is not set.
    """
    if annotator.name == "offline":
        return None
    return ChatClient(annotator, ReplyCache(cache))


def drop_objective(rows: Sequence[Preference], client: ChatClient, progress: bool) -> Annotated:
    """The rows whose query the model does not find objective, and all rows by status."""
    with _bar("filter", progress) as step:
        found = _answered(extraction.keep_subjective(rows, client, step))
    return [each.preference for each in found if each.status != "dropped"], extraction.count(found)


def add_criteria(rows: Sequence[Preference], client: ChatClient | None, seed: int, progress: bool) -> Annotated:
    """Rows with criteria of both sides where they had none, by the model or from measurable traits; rows by status."""
    if client is None:
        found = traits.describe(rows, seed)
    else:
        with _bar("criteria", progress) as step:
            found = _answered(extraction.extract(rows, client, step))
    return [each.preference for each in found], extraction.count(found)


def add_topics(
    rows: Sequence[Preference], chosen: TopicsConfig, client: ChatClient | None, seed: int
) -> tuple[list[Preference], dict[str, Topics], dict[str, int]]:
    """Rows with a topic and broad topics of criteria where the source names none; what was found, and counts."""
    texts = {
        "queries": [row.query for row in rows if row.topic is None],
        "criteria": [
            text
            for row in rows
            for own, given in ((row.criteria_a, row.criteria_topics_a), (row.criteria_b, row.criteria_topics_b))
            if not given
            for text in own
        ],
    }
    topics: dict[str, Topics] = {}
    counts = {"rows": len(rows), "queries_with_own_topic": len(rows) - len(texts["queries"])}
    for name, count in (("queries", chosen.count), ("criteria", chosen.criteria_count)):
        if texts[name]:
            topics[name] = find_topics(texts[name], model=chosen.model, count=count, seed=seed)
            named = Counter[str]()
            if client:
                topics[name], named = name_topics(topics[name], client)
            counts |= {f"{name}_grouped": len(texts[name]), f"topics_of_{name}": len(topics[name].names)}
            counts |= {f"{status}_names_of_{name}": number for status, number in sorted(named.items())}
    of_query, of_criterion = ({} if name not in topics else topics[name].by_text() for name in ("queries", "criteria"))
    placed = [
        replace(
            row,
            topic=row.topic if row.topic is not None else of_query[row.query],
            criteria_topics_a=row.criteria_topics_a or tuple(of_criterion[text] for text in row.criteria_a),
            criteria_topics_b=row.criteria_topics_b or tuple(of_criterion[text] for text in row.criteria_b),
        )
        for row in rows
    ]
    return placed, topics, counts


def _answered(found: list[Extraction]) -> list[Extraction]:
    """The same; raises ``ValueError`` if the endpoint went down, or answered nothing: later steps would be in vain."""
    unanswered = {DOWN, *(f"failed:{kind}" for kind in UNANSWERED)}
    silent = [each for each in found if each.status in unanswered]
    if silent and (len(silent) == len(found) or any(each.status == DOWN for each in silent)):
        raise ValueError(
            f"annotator: the endpoint does not answer ({silent[0].detail}); check that it runs and that "
            "annotator.base_url is its address, then run the same command again: its replies so far are cached"
        )
    return found


@contextmanager
def _bar(name: str, shown: bool) -> Iterator[Callable[[int, int], None]]:
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True, disable=not shown) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
