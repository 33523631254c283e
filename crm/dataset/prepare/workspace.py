"""The folder of a dataset in the making. In: its path. Out: where each stage's file is, and rows with all findings.

What a stage finds is a narrow file keyed by id, one row for every preference that was read and in the same order;
the texts are stored twice only: as they were read, and in the finished dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa

from crm.io.parquet import read_parquet, read_rows
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


def make_place(out: Path, data: Path | None) -> Workspace:
    """The workspace of a dataset in ``out``, with its folder of stages.

    Raises ``ValueError`` where nothing can be written there, and within the folder ``data`` that is read: what is
    written would be taken for votes.
    """
    if data is not None and data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise ValueError(
            f"out={str(out)!r}: is in {str(data)!r}, where the votes are read from; name a folder elsewhere"
        )
    space = Workspace(out)
    try:
        space.stages.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out={str(out)!r}: no folder can be made there ({error.strerror}); name another") from None
    return space


def read_preferences(space: Workspace, *, with_topics: bool) -> Iterator[tuple[Preference, bool]]:
    """Rows as read, with the criteria found (and their topics, and the query's), and whether the filter kept them."""
    stages = ("filter", "criteria", "topics") if with_topics else ("filter", "criteria")
    for row, (verdict, *found) in with_findings(space, *stages):
        yield merged(row, *found), verdict["status"] != "dropped"


def with_findings(space: Workspace, *stages: str) -> Iterator[tuple[Preference, list[dict[str, Any]]]]:
    """Rows as read, each with what these stages found about it.

    Raises ``ValueError`` where a stage's findings are about other rows: they were made before the votes changed, or
    another run writes into the same folder.
    """
    files = [read_rows(space.findings(stage)) for stage in stages]
    for row, *found in zip_longest(read_parquet(space.findings("ingest"), Preference), *files):
        for stage, finding in zip(stages, found, strict=True):
            if row is None or finding is None or row.id != finding["id"]:
                raise ValueError(
                    f"stages: {space.findings(stage)} is about other rows than {space.findings('ingest').name}; "
                    f"run {stage} again, and the stages after it"
                )
        yield row, found


def merged(row: Preference, *found: dict[str, Any]) -> Preference:
    """The row with what the stages ``criteria`` and ``topics`` found about it."""
    changes = {name: value for part in found for name, value in part.items() if name not in ("id", "status")}
    return replace(row, **changes)
