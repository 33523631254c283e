"""The guide "Bring your own votes", followed to the letter on fewer rows and steps."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
GUIDE = (ROOT / "docs" / "bring_your_own_votes.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"<!-- command -->\n    python (.*)", GUIDE)


def block(name: str) -> str:
    found = re.search(rf"<!-- example: {name} -->\n```\w*\n(.*?)```", GUIDE, re.DOTALL)
    assert found
    return found.group(1)


def follow(command: str, folder: Path, *more: str) -> str:
    script, *words = shlex.split(command)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CRM_DATA_ROOT": str(folder)}
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *words, *more], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


def test_the_guide_leads_from_a_table_to_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "practice.py"
    script.write_text(block("practice votes").replace("train=1500", "train=400"))
    runpy.run_path(str(script))
    prepare, train, evaluate = COMMANDS
    follow(prepare, tmp_path)
    counts = json.loads((tmp_path / "datasets/votes/local/counts.json").read_text())
    assert counts["read"]["preferences"] == counts["read"]["read"] == 400
    follow(train, tmp_path, "schedule.max_steps=2", "model.hidden_size=32", "model.layers=1")
    said = follow(evaluate, tmp_path, "suite.names=[D+,D-]")
    assert (tmp_path / "runs/votes/model/config.json").is_file()
    assert "D+" in said


def test_the_example_table_is_read_as_the_guide_says(tmp_path: Path) -> None:
    from crm.data import table
    from crm.io.intake import Intake

    path = tmp_path / "votes.csv"
    path.write_text(block("votes.csv"), encoding="utf-8")
    (columns,) = re.findall(r"data\.columns=\{(.*?)\}", COMMANDS[0])
    mapping = dict(pair.split(": ") for pair in columns.split(", "))
    rows = list(table.read(path, Intake(strict=True), columns=mapping, winners={}))
    assert [row.winner for row in rows] == ["b", "a", "tie"]
    assert rows[1].query == "Is it cold\nin Oslo?"
    assert set(next(csv.reader(path.open(encoding="utf-8")))) == set(mapping.values())
