"""The table of a sweep: every job is in it, with the numbers of its summary or the reason why it has none."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from scipy import stats

from crm.training.sweep_table import job_table, seed_table, write_sweep_tables
from crm.training.sweeps import note_failure, read_jobs


def job(root: Path, name: str, *words: str, **numbers: Any) -> Path:
    folder = root / name
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/overrides.yaml").write_text(json.dumps(words))
    if numbers:
        summary = {"validation_accuracy": 0.75, "steps": 3, "seconds": 1.5, "commit": "abc"} | numbers
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two seeds of cls finished, one job of ranking killed."""
    job(tmp_path, "0", "model=tiny", "loss=cls", "seed=1", validation_loss=0.5)
    job(tmp_path, "1", "model=tiny", "loss=cls", "seed=2", validation_loss=0.7)
    job(tmp_path, "2", "model=tiny", "loss=ranking", "seed=1")
    return tmp_path


def test_every_job_is_a_row_and_says_why_it_has_no_numbers(sweep: Path) -> None:
    jobs = read_jobs(sweep)
    assert [item.name for item in jobs] == ["0", "1", "2"]
    assert [item.status for item in jobs] == ["finished", "finished", "unfinished"]
    note_failure(sweep / "2", "out of\nluck")
    table = job_table(read_jobs(sweep))
    assert list(table.columns[:4]) == ["job", "status", "loss", "seed"], "settings that all share are no columns"
    assert (table.status[2], table.reason[2]) == ("failed", "out of luck")
    assert table.validation_loss.tolist()[:2] == [0.5, 0.7]


def test_means_over_seeds_are_students(sweep: Path) -> None:
    table = seed_table(read_jobs(sweep)).set_index("loss")
    half = stats.t.ppf(0.975, 1) * 0.1  # the standard error of 0.5 and 0.7
    row = table.loc["cls"]
    assert (row["n"], row["not finished"]) == (2, 0)
    assert [row[f"validation_loss{part}"] for part in ("", " low", " high")] == pytest.approx(
        [0.6, 0, 0.6 + half]  # a loss below 0 is none: 0.6 - half is
    )
    assert (table.loc["ranking", "n"], table.loc["ranking", "not finished"]) == (0, 1)
    assert pd.isna(table.loc["ranking", "validation_loss"])


def test_limits_stay_in_range_and_a_single_seed_has_none(tmp_path: Path) -> None:
    job(tmp_path, "0", "loss=cls", "seed=1", validation_loss=0.5, validation_accuracy=0.4)
    job(tmp_path, "1", "loss=ranking", validation_loss=0.6)
    assert seed_table(read_jobs(tmp_path)).empty, "no two jobs differ in the seed alone"
    failed = job(tmp_path, "2", "loss=cls", "seed=2")
    note_failure(failed, "no")
    table = seed_table(read_jobs(tmp_path))
    assert table["n"].tolist() == [1, 1] and table["validation_loss low"].isna().all()
    job(tmp_path, "3", "loss=cls", "seed=3", validation_loss=0.5, validation_accuracy=0.7)  # 0.55 +- 1.91
    row = seed_table(read_jobs(tmp_path)).iloc[0]
    assert [row[f"validation_accuracy{part}"] for part in ("", " low", " high")] == [pytest.approx(0.55), 0, 1]


def test_the_files_hold_the_numbers(sweep: Path) -> None:
    write_sweep_tables(sweep)
    read = pd.read_csv(sweep / "sweep.csv", skiprows=1)
    assert read.validation_loss[:2].tolist() == [0.5, 0.7]
    assert read.steps[:2].tolist() == [3, 3]
    text = (sweep / "sweep.md").read_text()
    assert "3 jobs: 2 finished, 1 unfinished; config model=tiny; commit abc" in text
    assert "nan" not in text.lower()
    assert "0.600" in (sweep / "seeds.md").read_text()


def test_an_accuracy_that_is_not_known_is_a_dash_and_a_mean_over_it_too(tmp_path: Path) -> None:
    job(tmp_path, "0", "loss.ties=soft", "seed=1", validation_loss=0.7, validation_accuracy=None)
    job(tmp_path, "1", "loss.ties=soft", "seed=2", validation_loss=0.5, validation_accuracy=None)
    assert [found.status for found in write_sweep_tables(tmp_path)] == ["finished", "finished"]
    means = (tmp_path / "seeds.md").read_text(encoding="utf-8")
    assert "0.600" in means and "nan" not in means.lower()
    assert "nan" not in (tmp_path / "sweep.md").read_text(encoding="utf-8").lower()
    assert math.isnan(seed_table(read_jobs(tmp_path)).validation_accuracy[0])
