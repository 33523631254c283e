"""The ablation tables: runs that mean the same are made once, and every cell is a number of a run's own results."""

from __future__ import annotations

import json
import queue
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm import jobs, reproduce
from crm.config import compose

DATA = ("data.train=64", "data.validation=16", "data.suite=16")
TINY = reproduce.Scale(
    common=(
        *DATA,
        "trainer.max_steps=2",
        "trainer.batch_size=16",
        "trainer.validate_every=0",
        "trainer.save_every=0",
        "model.hidden_size=16",
        "model.layers=1",
        "model.vocab_size=400",
    ),
    centre=("head=scalar", "loss=ranking"),
    sizes={"small": (), "smaller": ("model.hidden_size=8", "model.heads=2")},
    evaluate=("suite=standard", *DATA),
)


def here(wanted: Sequence[jobs.Job], workers: int) -> dict[str, jobs.JobResult]:
    """`run_jobs` in this process, which takes no time to start."""
    channel: queue.Queue[Any] = queue.Queue()
    return {job.name: jobs.run_job(job, channel) for job in wanted}


def test_a_dry_run_lists_each_run_once_and_trains_nothing(capsys: Any, tmp_path: Path) -> None:
    assert reproduce.main(["--dry-run", "--out", str(tmp_path), "scale=demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    folders = [line.partition(": ")[0] for line in lines]
    commands = [line.partition(": ")[2] for line in lines]
    rows = sum(len(variants) for variants in reproduce.SCALES["demo"].tables().values())
    warm_ups = [line for line in lines if "/warm_up: " in line]
    assert len(warm_ups) == 2 and all("head=scalar" in line and "trainer.max_steps=1000" in line for line in warm_ups)
    for line in warm_ups:
        start = line.partition(": ")[0]
        assert f"{Path(start).parent}: " in "".join(lines) and f"model.path={start}/model" in "".join(lines)
    assert len(set(folders)) == len(set(commands)) == len(lines) < rows
    assert all(command.startswith("python train.py ") and "seed=42" in command for command in commands)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("scale", ["demo", "paper"])
def test_tables_share_the_run_at_their_centre(scale: str, tmp_path: Path) -> None:
    wanted, rows = reproduce.plan(reproduce.SCALES[scale], (), tmp_path, 42)
    assert len({job.folder for job in wanted}) == len({job.name for job in wanted}) == len(wanted)
    assert {job.name for job in wanted} == {name for variants in rows.values() for name in variants.values()}
    centre = {"demo": "scalar, ranking", "paper": "pairwise, cls"}[scale]
    assert rows["head_and_loss"][centre] == rows["noise"]["none"]
    for table in ("noise", "direction", "size"):
        assert len(set(rows[table].values())) == len(rows[table]), f"{table} varies nothing"


@pytest.fixture
def only_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    def tables(scale: reproduce.Scale) -> dict[str, dict[str, tuple[str, ...]]]:
        return {"size": {name: (*scale.centre, *words) for name, words in scale.sizes.items()}}

    monkeypatch.setattr(reproduce.Scale, "tables", tables)


@pytest.mark.usefixtures("only_sizes")
def test_overrides_reach_every_run_and_a_later_word_wins(tmp_path: Path) -> None:
    wanted, _ = reproduce.plan(TINY, ("data.train=32",), tmp_path, 3)
    assert len(wanted) == len(TINY.sizes)
    for job in wanted:
        config = compose("train", job.overrides, tmp_path)
        assert (config.data.train, config.data.validation, config.seed) == (32, 16, 3)
        assert compose("evaluate", ["checkpoint=x", *job.evaluations["suites"]], tmp_path).data.train == 32
    others, _ = reproduce.plan(TINY, ("data.train=48",), tmp_path, 3)
    assert {job.folder for job in wanted}.isdisjoint(job.folder for job in others)
    same, _ = reproduce.plan(TINY, ("data.train=48", "data.train=32"), tmp_path, 3)
    assert [job.folder for job in same] == [job.folder for job in wanted]


def test_an_unknown_scale_is_one_sentence(capsys: Any) -> None:
    assert reproduce.main(["scale=huge"]) == 2
    assert capsys.readouterr().err == "crm.reproduce: scale=huge: expected one of demo, paper\n"


@pytest.mark.usefixtures("only_sizes")
def test_tables_hold_the_runs_numbers_and_a_second_call_trains_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "SCALES", {"tiny": TINY})
    monkeypatch.setattr(reproduce, "run_jobs", here)
    monkeypatch.setattr(jobs, "_quiet", lambda folder: None)
    assert reproduce.main(["scale=tiny", "--out", str(tmp_path)]) == 0
    check_tables(tmp_path / "tiny")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(jobs, "run_training", refuse)
    before = (tmp_path / "tiny" / "size.csv").read_bytes()
    assert reproduce.main(["scale=tiny", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "tiny" / "size.csv").read_bytes() == before


def check_tables(out: Path) -> None:
    """Every cell against ``results.json`` of the run behind its column, found by the hidden size it was made with."""
    wanted, rows = reproduce.plan(TINY, (), out, 42)
    folder = {job.name: job.folder for job in wanted}
    table = pd.read_csv(out / "size.csv", skiprows=1).set_index("suite")
    sums = pd.read_csv(out / "accuracy_sums.csv", skiprows=1).set_index("row")
    assert set(table.index) == {f"{base}{sign}" for base in ("D", "T", "C", "C_axes") for sign in "+-"}
    for row, hidden in (("small", 16), ("smaller", 8)):
        run = folder[rows["size"][row]]
        made = json.loads((run / "model" / "crm.json").read_text(encoding="utf-8"))
        assert made["config"]["model"]["hidden_size"] == hidden
        results = json.loads((run / "suites" / "results.json").read_text(encoding="utf-8"))["results"]
        for result in results:
            cell = "{value:.3f} [{low:.3f}, {high:.3f}]".format(**result)
            if result["metric"] == "accuracy":
                assert table.loc[result["suite"], row] == cell
            if result["metric"] == "accuracy_sum":
                assert sums.loc[row, result["suite"]] == cell
