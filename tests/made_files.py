"""Made-up data: rows written in the format that a file's name tells, what their records say, outcomes by hand."""

import csv
import gzip
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.data.catalogue import source_named
from crm.io.rows import Intake
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.outcomes import Outcomes
from crm.schema import Message, Preference
from experiments.sources.rated import flips

DATA_ROOT = Path(os.environ.get("CRM_DATA_ROOT", "data"))
"""Where the files of public sets are, as their owners publish them; tests of them are skipped where they are not."""
Files = dict[str, list[Any]]
"""Rows by path inside the set's folder."""


def write_files(folder: Path, files: Files) -> None:
    """Write every file below ``folder``."""
    for name, rows in files.items():
        write_rows(folder / name, rows)


def write_rows(path: Path, rows: list[Any]) -> Path:
    """Write rows to ``path`` in the format that its name tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        data = _as_text(path.name, rows).encode("utf-8")
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
    return path


def _as_text(name: str, rows: list[Any]) -> str:
    if ".jsonl" in name:
        return "".join(json.dumps(row) + "\n" for row in rows)
    if ".csv" in name or ".tsv" in name:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]), delimiter="\t" if ".tsv" in name else ",")
        writer.writeheader()
        writer.writerows(rows)
        return stream.getvalue()
    return json.dumps(rows)


def write_banks(folder: Path, *, justeval: tuple[str, str], alpacaeval: dict[str, list[str]]) -> None:
    """Published banks: four queries of ``justeval`` by two LLMs; what each file of ``alpacaeval`` was asked."""
    tags = [("Why?", ["stem", "nature"]), ("How?", ["lifestyle"]), ("Why?", ["finance"]), ("Where?", [])]
    rows = [{"id": n, "instruction": text, "topics": topics} for n, (text, topics) in enumerate(tags)]
    files: Files = {"bank_justeval/tags_list.json.gz": rows}
    for llm in justeval:
        answers = [{"instruction": row["instruction"], "output": f"{llm} {row['id']}"} for row in rows]
        files[f"bank_justeval/outputs/{llm}.to_eval.json.gz"] = answers
    for name, texts in alpacaeval.items():
        llm = name.partition(".json")[0]
        answers = [{"instruction": text, "output": f"{llm} on {text}", "generator": "?"} for text in texts]
        files[f"bank_alpacaeval/{name}"] = answers
    write_files(folder, files)


def read_records(name: str, folder: Path, counts: dict[str, int] | None = None) -> list[Preference]:
    """Records of the set ``name`` below ``folder``; what the reader counts must be exactly ``counts``."""
    reading = Intake(strict=True)
    rows = _checked(name, source_named(name).read(folder, reading))
    assert +reading.counts == (counts or {})
    for row in rows:
        criteria, topics = (row.criteria_a, row.criteria_b), (row.criteria_topics_a, row.criteria_topics_b)
        assert [len(side) for side in criteria] == [len(side) for side in topics], "criteria stand by their topics"
    return rows


def read_published(name: str) -> tuple[list[Preference], tuple[int, ...]]:
    """Records of the published set ``name``; how many rows and records, dropped, flips, ties and with criteria."""
    source, reading = source_named(name), Intake(strict=True)
    folder = DATA_ROOT / str(source.folder)
    if not folder.is_dir():
        pytest.skip(f"no {source.folder} under {DATA_ROOT}; set CRM_DATA_ROOT")
    rows = _checked(name, source.read(folder, reading))
    dropped = sum(count for key, count in reading.counts.items() if key.startswith("dropped"))
    ties = sum(row.winner == "tie" for row in rows)
    with_criteria = sum(bool(row.criteria_a or row.criteria_b) for row in rows)
    return rows, (reading.read, len(rows), dropped, sum(map(flips, rows)), ties, with_criteria)


def _checked(name: str, found: Iterable[Preference]) -> list[Preference]:
    rows = list(found)
    assert len({row.id for row in rows}) == len(rows)
    assert {row.source for row in rows} <= {f"{name}/{label}" for label in ("human", "llm", "construction")}
    return rows


def bank_of(
    texts: Mapping[str, str | Callable[[int], str]], topics: Sequence[str], baseline: str = "base", name: str = "made"
) -> Bank:
    """Queries q00, q01, ... of these topics; ``texts`` are what each model answers, to all or to a query's number."""
    queries = tuple(BankQuery(f"q{n:02}", (Message("user", f"question {n}"),), topic) for n, topic in enumerate(topics))
    answers = {
        model: {query.id: text if isinstance(text, str) else text(n) for n, query in enumerate(queries)}
        for model, text in texts.items()
    }
    return Bank(name, baseline, queries, answers)


def chat(*texts: Any) -> list[dict[str, Any]]:
    """A conversation, the user first."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


def winner(row: Preference) -> str:
    """The text of the winning response."""
    side = {"a": row.response_a, "b": row.response_b}[row.winner]
    return side[-1].content


def spoken_for(row: Preference) -> dict[str, tuple[str, ...]]:
    """Criteria topics by the text of the response they speak for."""
    return {row.response_a[-1].content: row.criteria_topics_a, row.response_b[-1].content: row.criteria_topics_b}


def outcomes(
    logits: Mapping[str, Sequence[float]],
    *,
    topics: Sequence[str] = (),
    words: Any = 10.0,
    base_words: Any = 20.0,
    scores: Any = None,
    unanswered: Any = False,
) -> Outcomes:
    """Queries q0, q1, ... on which every model, by name, meets "base"; NaN is not read.

    ``words`` and ``unanswered`` are of the candidates (C, Q), ``scores`` of all models (C + 1, Q).
    """
    names = sorted(logits)
    table = np.array([logits[name] for name in names], dtype=np.float64)
    count = table.shape[1]

    def whole(candidates: Any, last: Any) -> Any:
        return np.vstack([np.broadcast_to(candidates, table.shape), np.broadcast_to(last, (1, count))]).T

    return Outcomes(
        queries=tuple(f"q{place:03}" for place in range(count)),
        topics=tuple(topics) or ("Arts",) * count,
        models=(*names, "base"),
        logits=whole(np.where(unanswered, np.nan, table), 0.0),
        answered=~whole(unanswered, False).astype(bool),
        words=whole(words, base_words),
        scores=None if scores is None else np.array(scores, dtype=np.float64).T,
    )
