"""`python app.py` as a user starts it: it serves; a mistake is one sentence."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

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


def test_the_oracle_ranks_at_once_and_leaves_without_a_traceback(tmp_path: Path) -> None:
    """As the container starts it."""
    process, address = start(tmp_path, "judge=oracle", stderr=subprocess.PIPE)
    try:
        wait_until_up(address)
        with LeaderboardClient(address) as client:
            assert client.bank()["example"] == "Prefers concise answers"
            ranking = client.rank(criteria=["Prefers concise answers"])
            assert ranking["queries"] == 240 and ranking["leaderboard"][0]["model"] == "maple-nano"
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said, said.decode()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("judge=crm",), "crm-app: checkpoint=None: expected a run folder of train.py"),
        (("judge=oracle", "port=0"), "crm-app: port=0: expected"),
        (("judge=oracle", "bank=folder", "bank.path=nowhere"), "crm-app: nowhere/bank.json: no such file"),
        (("judge=oracle", "bank=alpacaeval", "bank.root=nowhere"), "crm-app: bank.root='nowhere': has no folder"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    command = [sys.executable, str(ROOT / "app.py"), *words, f"hydra.run.dir={tmp_path / 'run'}"]
    said = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert said.returncode == 2 and said.stderr.strip().startswith(sentence) and "Traceback" not in said.stderr
