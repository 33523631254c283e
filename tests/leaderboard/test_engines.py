"""Workers of every engine at one index: its bytes are those of one process, whoever is killed."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm.config import compose
from crm.leaderboard import engines, run_leaderboard
from crm.leaderboard.config import EngineConfig
from crm.leaderboard.engines import ENGINES, build_elsewhere, build_share
from crm.model.export import export_model

pytestmark = pytest.mark.slow
HERE = {"local": (), "slurm": ("engine.cluster=local", "engine.timeout_min=5"), "ray": ("engine.workers=2",)}


@pytest.fixture(scope="module")
def checkpoint(make_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("late") / "model"
    export_model(make_model("late"), tokenizer, folder, {"max_length": 2048, "seed": 1})
    return folder


def settings(checkpoint: Path, folder: Path, *words: str) -> Any:
    fixed = ["progress=false", "bank.queries_per_topic=2", "criteria=[Short]", "threads=1"]
    return compose(
        "leaderboard", [f"checkpoint='{checkpoint}'", f"predictions='{folder}'", *fixed, *words], folder / "run"
    )


def shards(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("index-*/*") if path.suffix in (".npy", ".json")}


def _killed(share: Any, worker: int) -> None:
    """The first of two dies before it has made anything."""
    if worker == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    share(worker)


@pytest.mark.parametrize("engine", ENGINES)
def test_workers_build_what_one_process_builds(
    engine: str,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if engine != "local":
        pytest.importorskip({"slurm": "submitit", "ray": "ray"}[engine])
    run_leaderboard(settings(checkpoint, tmp_path / "alone"), show=False)
    config = settings(checkpoint, tmp_path / engine, f"engine={engine}", "engine.workers=2", *HERE[engine])
    if engine == "local":
        local = ENGINES["local"]
        monkeypatch.setitem(engines.ENGINES, "local", lambda share, *rest: local(partial(_killed, share), *rest))
    with caplog.at_level(logging.WARNING):
        build_elsewhere(config)
    told = "engine=local: 1 of 2 workers ended early (exit code -9); what they left is made here"
    assert [row.message for row in caplog.records if "engine" in row.message] == [told] * (engine == "local")
    made = shards(tmp_path / engine)
    assert made == shards(tmp_path / "alone") and len(made) == 6


@pytest.mark.parametrize("engine", ["slurm", "ray"])
def test_a_worker_that_fails_says_why(engine: str, tmp_path: Path) -> None:
    pytest.importorskip({"slurm": "submitit", "ray": "ray"}[engine])
    given = EngineConfig(name=engine, workers=2, cluster="local" if engine == "slurm" else None, timeout_min=5)
    told = ENGINES[engine](partial(int, "four"), given, tmp_path)  # a mistake of its own for each worker
    assert told == [
        "ValueError: invalid literal for int() with base 0: 'four'",
        "ValueError: int() base must be >= 2 and <= 36, or 0",
    ]


def test_another_judge_has_nothing_to_build(checkpoint: Path, tmp_path: Path) -> None:
    words = ["judge=length", "bank.queries_per_topic=1", "engine.workers=2", "progress=false"]
    with pytest.raises(ValueError, match=r"engine=local: longer wins leaves no index that workers could build"):
        run_leaderboard(compose("leaderboard", words, tmp_path), show=False)
    with pytest.raises(ValueError, match=r"devices=2: expected 1 on one machine beside engine.workers"):
        settings(checkpoint, tmp_path, "engine.workers=2", "devices=2")


def test_shares_begin_apart(checkpoint: Path, tmp_path: Path) -> None:
    """The second of two workers is the first to make the second half."""
    config = settings(checkpoint, tmp_path, "engine.workers=2")
    build_share(asdict(config), 2, 1)
    order = sorted((tmp_path).glob("index-*/*.npy"), key=lambda path: path.stat().st_mtime_ns)
    assert len(order) == 3
    assert np.load(order[0]).shape[1] == 1024
