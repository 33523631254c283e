"""A prepared dataset: the folder that `prepare.py` wrote, its parts as they were placed, and its suites."""

from __future__ import annotations

from pathlib import Path

from crm.io.parquet import read_parquet
from crm.schema import Comparison, Preference
from crm.votes.splits import Splits, sizes


def load(folder: Path) -> Splits:
    """Read the parts; a suite without rows is left out. Raises ``ValueError`` for a folder that is no dataset."""
    if not (folder / "splits").is_dir():
        raise ValueError(f"data.path={folder}: holds no folder splits; make the dataset with prepare.py")
    parts = {
        name: list(read_parquet(folder / "splits" / f"{name}.parquet", Preference))
        for name in ("train", "validation", "D", "T", "C")
    }
    train, validation = parts.pop("train"), parts.pop("validation")
    suites = {name: rows for name, rows in parts.items() if rows}
    return Splits(train, validation, suites, sizes(train, validation, suites))


def suite(folder: Path, name: str) -> list[Comparison] | None:
    """The comparisons of a suite such as ``D-_add``; ``None`` where the dataset was made without it."""
    path = folder / "suites" / f"{name}.parquet"
    return list(read_parquet(path, Comparison)) if path.is_file() else None
