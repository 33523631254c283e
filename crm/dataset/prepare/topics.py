"""In: rows with criteria. Out: a topic for every query, a broad topic for every criterion, and the tables of both.

What a source already says about topics stays as it is; only queries and criteria without one are grouped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from crm.criteria.topics.frame import Topics
from crm.criteria.topics.naming import Ask, name_with
from crm.dataset.prepare.workspace import TOPICS, Workspace, read_preferences
from crm.io.files import replace_file
from crm.io.parquet import write_rows
from crm.report.tables import csv_text
from crm.schema import Preference

QUALITY = "quality.csv"
Group = Callable[[list[str]], Topics]
"""Texts, at least one, to topics: `crm.criteria.topics.find.find_topics` with its settings."""


def topics(space: Workspace, group_queries: Group, group_criteria: Group, ask: Ask | None = None) -> dict[str, int]:
    """Write a topic for every row and ``topics/{queries,criteria}.csv`` (``Topic``, ``Document``), with keywords.

    With ``ask`` a language model names the topics. Counts: rows, those whose query or criteria had topics from the
    source, texts grouped, topics found, and what became of the names.
    """
    queries, criteria, counts = _ungrouped(space)
    found_queries = _named(group_queries(queries), ask) if queries else None
    found_criteria = _named(group_criteria(criteria), ask) if criteria else None
    topic_of = _names(found_queries)
    broad_of = _names(found_criteria)
    write_rows(space.findings("topics"), TOPICS, _placed(space, topic_of, broad_of))
    quality = {"queries": found_queries, "criteria": found_criteria}
    _write_quality(space.root / "topics", quality)
    for name, found in quality.items():
        _write_tables(space.root / "topics", name, found)
        counts[f"{name}_grouped"] = len(found.texts) if found else 0
        counts[f"{name}_topics"] = len(found.names) if found else 0
        if found and ask:
            counts |= {f"{name}_named": found.counts["named"], f"{name}_names_refused": found.counts["refused"]}
            counts[f"failed_names_of_{name}"] = found.counts["unanswered"]
    return counts


def topic_files(space: Workspace) -> list[Path]:
    """The tables that `topics` writes beside its findings."""
    names = [f"{name}{end}.csv" for name in ("queries", "criteria") for end in ("", "_keywords")]
    return [space.root / "topics" / name for name in (*names, QUALITY)]


def read_quality(space: Workspace) -> pd.DataFrame:
    """What was grouped, into how many topics, and how well they are apart (silhouette, in [-1, 1])."""
    return pd.read_csv(space.root / "topics" / QUALITY)


def criteria_without_topic(row: Preference) -> Iterator[str]:
    """Criteria of the sides for which the source names no broad topic."""
    for criteria, given in ((row.criteria_a, row.criteria_topics_a), (row.criteria_b, row.criteria_topics_b)):
        if not given:
            yield from criteria


def _ungrouped(space: Workspace) -> tuple[list[str], list[str], dict[str, int]]:
    queries: list[str] = []
    criteria: list[str] = []
    counts = {"rows": 0, "rows_with_given_topic": 0, "rows_with_given_criteria_topics": 0}
    for row, _ in read_preferences(space, with_topics=False):
        counts["rows"] += 1
        counts["rows_with_given_topic"] += row.topic is not None
        counts["rows_with_given_criteria_topics"] += bool(row.criteria_topics_a or row.criteria_topics_b)
        if row.topic is None:
            queries.append(row.query)
        criteria.extend(criteria_without_topic(row))
    return queries, criteria, counts


def _named(found: Topics, ask: Ask | None) -> Topics:
    return name_with(ask, found) if ask else found


def _names(found: Topics | None) -> dict[str, str]:
    return {text: found.names[label] for text, label in zip(found.texts, found.labels, strict=True)} if found else {}


def _placed(space: Workspace, topic_of: dict[str, str], broad_of: dict[str, str]) -> Iterator[dict[str, Any]]:
    for row, _ in read_preferences(space, with_topics=False):
        yield {
            "id": row.id,
            "topic": row.topic if row.topic is not None else topic_of[row.query],
            "criteria_topics_a": row.criteria_topics_a or [broad_of[text] for text in row.criteria_a],
            "criteria_topics_b": row.criteria_topics_b or [broad_of[text] for text in row.criteria_b],
        }


def _write_quality(folder: Path, quality: dict[str, Topics | None]) -> None:
    rows = [
        {"of": name, "texts": len(found.texts), "topics": len(found.names), "silhouette": found.silhouette}
        for name, found in quality.items()
        if found
    ]
    frame = pd.DataFrame(rows, columns=["of", "texts", "topics", "silhouette"])
    replace_file(folder / QUALITY, csv_text(frame))


def _write_tables(folder: Path, name: str, found: Topics | None) -> None:
    frame = found.frame().drop_duplicates() if found else pd.DataFrame(columns=["Topic", "Document"])
    replace_file(folder / f"{name}.csv", csv_text(frame))
    words = zip(found.names, found.sizes, found.keywords, strict=True) if found else ()
    keywords = pd.DataFrame(
        [(topic, size, ", ".join(terms)) for topic, size, terms in words], columns=["Topic", "Documents", "Keywords"]
    )
    replace_file(folder / f"{name}_keywords.csv", csv_text(keywords))
