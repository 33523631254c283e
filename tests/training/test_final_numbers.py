"""Final numbers in a tracker: as they were, in one run that is ended, with no login and no network."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pandas as pd
import pytest

from crm.training.config import LoggerConfig
from crm.training.tracking import check_tracker, track, wandb_mode

NUMBERS = {"D+/accuracy": 0.75, "D+/margin": float("nan")}
TABLE = pd.DataFrame({"suite": ["D+"], "scalar": ["0.750"]})


def tracked(kind: str, folder: Path) -> None:
    tracker = LoggerConfig(kinds=[kind], project="p", group="evaluate")
    said = {"name": "scalar on votes", "group": "another", "config": {"judge": "crm"}}
    track(tracker, folder, numbers=NUMBERS, tables={"suites": TABLE}, **said)


@pytest.mark.slow
def test_wandb_offline_holds_numbers_table_name_and_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert wandb_mode(None) == "offline"
    tracked("wandb", tmp_path)
    (run,) = (tmp_path / "wandb").glob("offline-run-*")
    (file,) = run.glob("*.wandb")
    words = (b"D+/accuracy", b"0.75", b"scalar on votes", b"evaluate")
    for _ in range(100):  # by a process of its own, some time after the run has ended
        content = file.read_bytes()
        if all(word in content for word in words):
            break
        time.sleep(0.2)
    assert [word for word in words if word not in content] == [] and b"D+/margin" not in content
    (table,) = run.rglob("media/table/suites*.json")
    assert json.loads(table.read_text())["data"] == [["D+", "0.750"]]
    import wandb

    assert wandb.run is None, "the next job of a sweep would write into this run"


def test_tensorboard_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crm.training.tracking.find_spec", lambda name: None)
    check_tracker(["csv"])
    with pytest.raises(ValueError, match=r"logger=tensorboard: pip install .*or use logger=csv"):
        check_tracker(["tensorboard"])
