"""`python app.py` as a user starts it: it serves, is killed, keeps its scores; a mistake is one sentence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from crm.app.client import LeaderboardClient
from crm.app.score_store import ScoreStore

ROOT = Path(__file__).parents[2]


def start(folder: Path, *words: str) -> tuple[Any, str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, str(ROOT / "app.py"), f"port={port}", f"predictions={folder / 'kept'}", *words]
    return subprocess.Popen([*command, f"hydra.run.dir={folder / 'run'}"], cwd=folder), f"http://127.0.0.1:{port}"


def wait_until_up(address: str) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            httpx.get(f"{address}/api/health").raise_for_status()
            return
        except httpx.HTTPError:
            assert time.monotonic() < end
            time.sleep(0.2)


def test_a_killed_server_loses_no_score_that_it_has_shown(tmp_path: Path) -> None:
    process, address = start(tmp_path, "judge=length", "bank.queries_per_topic=2")
    try:
        wait_until_up(address)
        with LeaderboardClient(address) as client:
            shown = next(step for step in client.steps(criteria=["Prefers concise answers"]) if step["done"])
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert len(ScoreStore(tmp_path / "kept" / "scores.sqlite")) >= shown["done"] * 12 * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("judge=crm",), "crm-app: checkpoint=None: expected a folder written by training for judge=crm"),
        (("judge=length", "places=0"), "crm-app: places=0: expected 1 or more"),
        (("judge=length", "bank=folder", "bank.path=nowhere"), "crm-app: nowhere/bank.json: no such file"),
        (("judge=length", "bank=alpacaeval", "bank.root=nowhere"), "crm-app: bank.root='nowhere': has no folder"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    command = [sys.executable, str(ROOT / "app.py"), *words, f"hydra.run.dir={tmp_path / 'run'}"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert said.returncode == 2 and said.stderr.strip().startswith(sentence) and "Traceback" not in said.stderr
