"""A sweep over judges as a user runs it: tables at its end, read again from elsewhere, the failed job among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from crm.evaluation.judge_table import main, unique_names, working_directory, write_tables_of_judges
from crm.training.sweep_jobs import SweepJob, forget, read_jobs

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_a_sweep_over_judges_ends_with_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, str(ROOT / "evaluate.py"), "-m", "judge=length,oracle,crm", "checkpoint=none"]
    settings = ["suite.names=[D+]", "data.train=24", "data.validation=8", "data.suite=30", "hydra.sweep.dir=sweep"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [*command, *settings], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 2, ended.stderr[-2000:]
    assert "1 jobs of this sweep failed: 2" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "the tables of this sweep are" in ended.stdout
    sweep = tmp_path / "sweep"
    assert all((sweep / name).read_text() in ended.stdout for name in ("judges.md", "paired.md"))
    table = pd.read_csv(sweep / "judges.csv", skiprows=1).set_index("judge")
    assert table["mark"]["oracle"] == "best"
    assert table["reason"]["judge=crm"].startswith("failed: checkpoint=none: no such folder")
    pairs = pd.read_csv(sweep / "paired.csv", skiprows=1)
    assert pairs[["first", "second", "verdict"]].values.tolist() == [["longer wins", "oracle", "oracle is better"]]
    # From another folder: the paths in results.json are relative to the one where the sweep was started.
    written = (sweep / "paired.csv").read_text()
    monkeypatch.chdir(sweep)
    (sweep / "paired.csv").unlink()
    monkeypatch.setattr("sys.argv", ["judge_table", str(sweep)])
    main()
    assert (sweep / "paired.csv").read_text() == written
    assert "oracle is better" in capsys.readouterr().out
    (sweep / "1/results.json").write_text("{")
    jobs = write_tables_of_judges(sweep)
    assert [job.status for job in jobs] == ["finished", "failed", "failed"]
    assert "results.json: not JSON" in (sweep / "judges.md").read_text()
    assert not (sweep / "paired.md").exists()


def test_a_folder_without_jobs_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["judge_table", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        f"judge_table: {tmp_path / 'nowhere'}: no such folder; give a sweep's, such"
    )


def test_an_evaluation_has_finished_when_its_results_are_there_and_an_earlier_one_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "0/.hydra").mkdir(parents=True)
    (tmp_path / "0/.hydra/overrides.yaml").write_text("[judge=coin]")
    (tmp_path / "0/results.json").write_text("{}")
    assert [job.status for job in read_jobs(tmp_path, "evaluate")] == ["finished"]
    forget(tmp_path / "0", summary=True)
    (only,) = read_jobs(tmp_path, "evaluate")
    assert only.status == "unfinished"
    assert only.reason.endswith("its log: " + str(tmp_path / "0/evaluate.log"))


def job(name: str, **overrides: str) -> SweepJob:
    return SweepJob(name, overrides, "finished")


def test_judges_of_one_name_are_told_apart_by_their_settings() -> None:
    jobs = [
        job("0", judge="length", seed="1"),
        job("1", judge="crm", checkpoint="a", seed="1"),
        job("2", judge="crm", checkpoint="b", seed="1"),
        job("3", judge="llm", seed="1"),
    ]
    names = unique_names(jobs, {"0": "longer wins", "1": "scalar", "2": "scalar"})
    assert list(names.values()) == ["longer wins", "scalar (checkpoint=a)", "scalar (checkpoint=b)", "judge=llm"]
    same = [job("a/0", judge="coin"), job("b/0", judge="coin")]
    assert list(unique_names(same, {"a/0": "coin", "b/0": "coin"}).values()) == ["coin (job a/0)", "coin (job b/0)"]
    assert list(unique_names(same[:1], {}).values()) == ["job a/0"]


def test_where_a_run_was_started_is_read_from_its_folder(tmp_path: Path) -> None:
    assert working_directory(tmp_path) == Path.cwd()
    (tmp_path / ".hydra").mkdir()
    for text, expected in (
        (f"hydra: {{runtime: {{cwd: '{tmp_path}'}}}}", tmp_path),
        ("hydra: {runtime: {cwd: /no/such/folder}}", Path.cwd()),
        ("hydra: [", Path.cwd()),
    ):
        (tmp_path / ".hydra/hydra.yaml").write_text(text)
        assert working_directory(tmp_path) == expected
