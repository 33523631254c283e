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
from crm.page.score_store import ScoreStore

from crm.page.client import LeaderboardClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def start(folder: Path, *words: str, **settings: Any) -> tuple[Any, str]:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [sys.executable, str(ROOT / "app.py"), f"port={port}", f"predictions={folder / 'kept'}", *words]
    command.append(f"hydra.run.dir={folder / 'run'}")
    return subprocess.Popen(command, cwd=folder, **settings), f"http://127.0.0.1:{port}"


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


def test_a_ranking_that_streams_when_the_server_ends_is_no_traceback(tmp_path: Path) -> None:
    process, address = start(tmp_path, "judge=length", "bank.queries_per_topic=60", stderr=subprocess.PIPE)
    wait_until_up(address)
    with httpx.stream("POST", f"{address}/api/rank", json={"criteria": ["one"]}, timeout=30) as open_page:
        assert open_page.status_code == 200
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert b"Traceback" not in said, said.decode()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("judge=crm",), "crm-app: checkpoint=None: expected a run folder of train.py"),
        (("judge=length", "places=0"), "crm-app: places=0: expected 1 or more"),
        (("judge=length", "bank=folder", "bank.path=nowhere"), "crm-app: nowhere/bank.json: no such file"),
        (("judge=length", "bank=alpacaeval", "bank.root=nowhere"), "crm-app: bank.root='nowhere': has no folder"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    command = [sys.executable, str(ROOT / "app.py"), *words, f"hydra.run.dir={tmp_path / 'run'}"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert said.returncode == 2 and said.stderr.strip().startswith(sentence) and "Traceback" not in said.stderr
