"""Jobs in processes of their own: results come back, an error ends the call at once, what is made is not made again."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from crm.io.files import replace_file
from experiments import jobs
from experiments.jobs import Job, run_jobs
from tests.experiments.conftest import TINY, run_here

SMALL = (
    *TINY,
    "data.train=32",
    "data.validation=8",
    "data.suite=8",
    "schedule.comparisons_per_step=16",
    "loss=ranking",
)


def test_a_failing_job_ends_the_call_and_the_job_beside_it(tmp_path: Path) -> None:
    # Ten thousand epochs would take hours: the call comes back only if the other job is stopped.
    endless = Job("endless", tmp_path / "endless", (*SMALL, "schedule.epochs=10000"))
    failing = Job("failing", tmp_path / "failing", (*SMALL, "data.validation=-1"))
    with pytest.raises(ValueError, match=r"data\.validation=-1: expected 0 \(all\) or more"):
        run_jobs([endless, failing], workers=2)
    assert not (tmp_path / "endless" / "model").exists()


def test_a_new_first_stage_is_followed_by_a_new_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_quiet", lambda folder: None)

    def made(steps: int) -> tuple[int, int]:
        warm_up = ("head=scalar", "loss=ranking", f"schedule.max_steps={steps}")
        overrides = (*SMALL, "loss=cls", "head=pairwise_span", "schedule.epochs=1", "schedule.max_steps=1")
        job = Job("one", tmp_path / "one", overrides, stages=(warm_up, ()))
        run_here([job])
        folders = (tmp_path / "one" / "stage_1" / "model", tmp_path / "one" / "model")
        return tuple((folder / "crm.json").stat().st_mtime_ns for folder in folders)  # type: ignore[return-value]

    first = made(1)
    assert made(1) == first
    warm_up, model = made(2)
    assert warm_up > first[0] and model > warm_up
    assert json.loads((tmp_path / "one" / "model" / "crm.json").read_text(encoding="utf-8"))["head"] == "pairwise_span"


def test_a_model_of_older_data_is_trained_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data = tmp_path / "run", tmp_path / "pairs.jsonl"
    row = '{"prompt": "a", "chosen": "b", "rejected": "c"}\n'
    data.write_text(row)
    trainings: list[Any] = []

    def train(config: Any, _: Any) -> SimpleNamespace:
        trainings.append(config)
        replace_file(folder / "config.yaml", OmegaConf.to_yaml(OmegaConf.structured(config)))
        replace_file(folder / "model" / "crm.json", "{}")
        return SimpleNamespace(checkpoint=folder / "model")

    monkeypatch.setattr(jobs, "run_training", train)
    for expected in (1, 1, 2):
        if expected == 2:
            data.write_text(2 * row)
        assert jobs._trained((*SMALL, "data=file", f"data.path={data}"), folder, None) == folder / "model"  # type: ignore[arg-type]
        assert len(trainings) == expected
