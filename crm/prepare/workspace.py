"""The folder of a dataset in the making. In: its path. Out: where each stage's file is, and rows with all findings.

What a stage finds is a narrow file keyed by id, one row for every preference that was read and in the same order;
the texts are stored twice only: as they were read, and in the finished dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from crm.data.parquet import read_parquet, read_rows
from crm.schema import Preference

TEXTS = pa.list_(pa.string())
FILTER = pa.schema([("id", pa.string()), ("status", pa.string()), ("why", pa.string())])
CRITERIA = pa.schema(
    {
        "id": pa.string(),
        "status": pa.string(),
        "criteria_a": TEXTS,
        "criteria_b": TEXTS,
        "criteria_topics_a": TEXTS,
        "criteria_topics_b": TEXTS,
    }
)
TOPICS = pa.schema(
    [("id", pa.string()), ("topic", pa.string()), ("criteria_topics_a", TEXTS), ("criteria_topics_b", TEXTS)]
)
LEAKAGE = pa.schema(
    {"id": pa.string(), "set": pa.string(), "match": pa.string(), "similarity": pa.float64(), "query": pa.string()}
)
SPLITS = pa.schema([("id", pa.string()), ("part", pa.string()), ("group", pa.string())])


@dataclass(frozen=True)
class Workspace:
    """Files of a dataset folder: stages' findings under ``stages``, what users load beside it."""

    root: Path

    @property
    def stages(self) -> Path:
        """Records and findings of the stages."""
        return self.root / "stages"

    def findings(self, stage: str) -> Path:
        """The Parquet file of a stage."""
        return self.stages / f"{stage}.parquet"

    @property
    def preferences(self) -> Path:
        """All rows of the finished dataset, with their part."""
        return self.root / "preferences.parquet"

    def part(self, name: str) -> Path:
        """Rows of one part: train, validation, D, T or C."""
        return self.root / "splits" / f"{name}.parquet"

    def suite(self, name: str) -> Path:
        """Comparisons of one suite."""
        return self.root / "suites" / f"{name}.parquet"


def read_preferences(space: Workspace, *, with_topics: bool) -> Iterator[tuple[Preference, bool]]:
    """Rows as read, with the criteria found (and their topics, and the query's), and whether the filter kept them."""
    rows = read_parquet(space.findings("ingest"), Preference)
    kept = read_rows(space.findings("filter"))
    criteria = read_rows(space.findings("criteria"))
    topics: Iterator[dict[str, Any] | None] = iter(lambda: None, 0)
    if with_topics:
        topics = read_rows(space.findings("topics"))
    for row, verdict, found, placed in zip(rows, kept, criteria, topics, strict=False):
        assert row.id == verdict["id"] == found["id"], "findings are in the order of the rows"
        changes = {name: found[name] for name in CRITERIA.names if name not in ("id", "status")}
        if placed is not None:
            assert row.id == placed["id"], "findings are in the order of the rows"
            changes |= {name: placed[name] for name in TOPICS.names if name != "id"}
        yield replace(row, **changes), verdict["status"] != "dropped"
