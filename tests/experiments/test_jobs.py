"""Jobs in processes of their own: results come back, an error ends the call at once, what is made is not made again."""

import argparse
import json
import multiprocessing
import os
import signal
import time
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from crm.data.config import DataConfig
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.training.resume import LAST, SUMMARY
from crm.training.train import _prepare_folder
from experiments import jobs
from experiments.command import answered, parsed
from experiments.jobs import Job, run_jobs
from tests.experiments.conftest import TINY, run_here

SMALL = (*TINY, "data.train=32", "data.validation=8", "data.suite=8", "schedule.comparisons_per_step=8", "loss=ranking")


@pytest.mark.parametrize("stopped", ["a failing job", "Ctrl-C", "SIGTERM"])
def test_an_end_stops_the_job_beside_it_and_begins_no_other(tmp_path: Path, capfd: Any, stopped: str) -> None:
    # Ten thousand epochs would take hours: the call comes back only if the other jobs are stopped.
    endless = [Job(name, tmp_path / name, (*SMALL, "schedule.epochs=10000")) for name in ("endless", "third", "fourth")]
    if stopped == "a failing job":
        failing = Job("failing", tmp_path / "failing", (*SMALL, "data.validation=-1"))
        assert answered("study", lambda: run_jobs([endless[0], failing], workers=2)) == 2
        assert "experiments.study: data.validation=-1: expected 0 (all) or more\n" in capfd.readouterr().err
    else:
        kind = signal.SIGTERM if stopped == "SIGTERM" else signal.SIGINT

        def interrupt(_: object) -> None:
            while not (tmp_path / "endless" / "metrics.csv").is_file():
                time.sleep(0.1)
            for pid in [child.pid for child in multiprocessing.active_children()] + [os.getpid()]:
                os.kill(pid, kind)  # a terminal, and `timeout`, signals all

        short = Job("short", tmp_path / "short", (*SMALL, "schedule.max_steps=1"))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        assert answered("study", lambda: run_jobs([short, *endless], workers=2, done=interrupt)) == 130
        signal.signal(signal.SIGINT, before)
        assert (tmp_path / "endless" / LAST).is_file()
        shown = capfd.readouterr().err
        assert jobs.STOPS in shown and "Traceback" not in shown
    assert not list(tmp_path.glob("[!s]*/model")) and not (tmp_path / "fourth" / "config.yaml").exists()


def test_workers_share_out_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    trained, on_cpu = Job("", tmp_path, ()), Job("", tmp_path, ("trainer=cpu",))
    assert jobs._gpus([on_cpu, Job("", tmp_path, None)]) == []
    assert jobs._gpus([on_cpu, trained]) == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert jobs._gpus([trained]) == ["5", "7"]


def test_commits_are_those_of_the_models(tmp_path: Path) -> None:
    for name, made in (("a", "123"), ("b", "456"), ("c", "123")):
        replace_file(tmp_path / name / "model" / "crm.json", json.dumps({"commit": made}))
    assert jobs.commits(tmp_path / name for name in "abc") == "123, 456"
    assert jobs.commits([]) == commit()


def test_settings_stand_anywhere_among_the_options() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, nargs="+")
    parser.add_argument("overrides", nargs="*")
    assert parsed(parser, ["a=1", "--seeds", "1", "2", "trainer=cpu"]).overrides == ["a=1", "trainer=cpu"]


@pytest.mark.parametrize("study", ["grpo.__main__", "picking.__main__", "picking.personas", "best_of_n.__main__"])
def test_a_look_leaves_recorded_results_alone(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, seen = import_module(f"experiments.{study}"), list[Any]()
    monkeypatch.setattr(module, "run", seen.append)
    assert (
        module.main([] if study[0] == "g" else ["--checkpoint", "a", "--root", "b"][: 4 if "personas" in study else 2])
        == 0
    )
    assert (seen[0].report or seen[0].out).parts[0] == "results"


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


def test_a_training_is_kept_goes_on_or_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, data, shown = tmp_path / "run", tmp_path / "pairs.jsonl", SimpleQueue[Any]()
    data.write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    begun: list[tuple[int, bool]] = []

    def trained(seed: int, *more: str, killed: bool = False) -> list[tuple[int, bool]]:
        def train(config: Any, callbacks: Any) -> SimpleNamespace:
            begun.append((config.seed, config.resume))
            assert config.trainer.devices == 1
            _prepare_folder(folder, OmegaConf.to_container(OmegaConf.structured(config)), config.resume)  # type: ignore[arg-type]
            callbacks[1].on_fit_start(None, None)
            for name in (LAST,) if killed else ("model/crm.json", SUMMARY):
                replace_file(folder / name, "{}")
            return SimpleNamespace(checkpoint=folder / "model")

        monkeypatch.setattr(jobs, "run_training", train)
        begun.clear()
        words = (*SMALL, "data=file", f"data.path={data}", f"seed={seed}", *more)
        assert jobs._trained(words, folder, jobs._Report("a", shown, 0, 1)) == folder / "model"
        return begun

    assert trained(1) == [(1, False)] and trained(1, "trainer.threads=2") == [] and shown.empty()
    assert trained(2, killed=True) == [(2, False)], "the model of seed 1 is not that of seed 2"
    assert shown.get() == ("a", "training anew: other settings or data", 0)
    assert trained(2, killed=True) == [(2, True)]
    data.write_text('{"prompt": "a", "chosen": "b", "rejected": "d"}\n')
    assert trained(2, killed=True) == [(2, False)] and trained(2) == [(2, True)]
    os.utime(folder / "config.yaml", ns=(1, 1))
    assert trained(2) == trained(2, "trainer=cpu", "trainer.devices=2") == [], (
        "what train.py made, whenever and on what"
    )
    with pytest.raises(ValueError, match=r"trainer\.devices=2: a job trains on one device; run train.py yourself"):
        trained(3, "trainer=cpu", "trainer.devices=2")
    (folder / "read.sha256").unlink()
    assert trained(2) == [], "train.py leaves none"
    assert trained(3) == [(3, False)]


def test_what_public_sets_hold_are_data_of_a_training(tmp_path: Path) -> None:
    data = DataConfig("mixture", root=str(tmp_path), sources=["summeval", "dsp"])
    for name in data.sources:
        replace_file(tmp_path / name / "rows.json", "[]")
    before = jobs._digest(data, None)
    (tmp_path / "dsp" / ".DS_Store").touch()
    (tmp_path / "dsp" / "rows.json").touch()
    assert jobs._digest(data, None) == before
    (tmp_path / "dsp" / "rows.json").write_text("[1]")
    assert jobs._digest(data, None) != before
