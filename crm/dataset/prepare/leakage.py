"""In: the prompts of a dataset, and the queries of banks and evaluation sets. Out: which of them are the same.

A query is the first user turn. Exact matches ignore case and white space; near ones have nearly the same letters and
digits (`crm.votes.splits`). A model trained on a matched prompt has seen that set's query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from crm.dataset.prepare.workspace import LEAKAGE, Workspace
from crm.io.parquet import read_rows, write_rows
from crm.schema import Message, folded, messages, query_of
from crm.votes.splits import NearDuplicates, plain_text


@dataclass(frozen=True, slots=True)
class Leak:
    """A query of the dataset and one of a reference set that are the same; ``match`` is ``exact`` or ``near``."""

    query: str
    reference: str
    set: str
    match: str
    similarity: float


def find_leaks(queries: Iterable[str], references: Mapping[str, Iterable[str]]) -> Iterator[Leak]:
    """Every query of ``queries`` that a reference set holds too: one `Leak` a query and set, the nearest match."""
    index = NearDuplicates()
    exact: dict[str, list[str]] = {}
    near: dict[str, list[str]] = {}
    for query in sorted(set(queries)):
        exact.setdefault(folded(query), []).append(query)
        near.setdefault(_plain(query), []).append(query)
        index.add(_plain(query))
    for name, texts in references.items():
        best: dict[str, Leak] = {}
        for text in sorted(set(texts)):
            for query in exact.get(folded(text), []):
                best[query] = Leak(query, text, name, "exact", 1.0)
            for plain, similarity in index.like(_plain(text)):
                for query in near[plain]:
                    if query not in best or similarity > best[query].similarity:
                        best[query] = Leak(query, text, name, "near", similarity)
        yield from (best[query] for query in sorted(best))


def leakage(space: Workspace, references: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Write one row for every preference and set that shares its query; counts of rows, and of queries for each set."""
    ids: dict[str, list[str]] = {}
    for row in read_rows(space.findings("ingest"), ["id", "prompt"]):
        ids.setdefault(query_of(messages(row["prompt"], "prompt")), []).append(row["id"])
    leaks = list(find_leaks(ids, references))
    found = (
        {"id": name, "set": leak.set, "match": leak.match, "similarity": leak.similarity, "query": leak.query}
        for leak in leaks
        for name in ids[leak.query]
    )
    written = write_rows(space.findings("leakage"), LEAKAGE, found)
    found_in = Counter(f"{leak.set}_{leak.match}" for leak in leaks)
    return {"queries": len(ids), "sets": len(references), "rows_found": written, **dict(sorted(found_in.items()))}


def leaked_queries(space: Workspace) -> pd.DataFrame:
    """Queries of the dataset that a set shares: a row a set, with exact and near matches and an example."""
    found: dict[str, dict[str, tuple[str, float]]] = {}
    for row in read_rows(space.findings("leakage")):
        found.setdefault(row["set"], {})[row["query"]] = (row["match"], row["similarity"])
    return pd.DataFrame(
        [
            {
                "set": name,
                "exact": sum(match == "exact" for match, _ in leaks.values()),
                "near": sum(match == "near" for match, _ in leaks.values()),
                "for example": min(leaks)[:80],
            }
            for name, leaks in found.items()
        ],
        columns=["set", "exact", "near", "for example"],
    )


def _plain(text: str) -> str:
    return plain_text((Message("user", text),))
