"""`python serve.py` as a user starts it: it serves, ends what it began, and tells a mistake in one sentence."""

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

from tests.rewards.server.serving import group, log_words
from tests.running_app import free_port

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, str(ROOT / "serve.py"), *words, f"hydra.run.dir={folder / 'run'}"]


def wait_until_up(address: str, process: Any) -> None:
    while process.poll() is None:
        try:
            httpx.get(f"{address}/health").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError("the server ended")


def test_it_serves_any_judge_with_a_key_that_no_log_shows_and_ends_in_order(tmp_path: Path) -> None:
    port = free_port()
    words = command(tmp_path, "judge=length", f"port={port}", "name=words")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CRM_SERVER_KEY": "hush-hush"}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    wait_until_up(address, process)
    asked = {"groups": [group(*[f"{number} a" for number in range(1000)])]}
    headers = {"Authorization": "Bearer hush-hush"}
    answer = httpx.post(f"{address}/v1/score", json=asked, headers=headers, timeout=30)
    assert answer.json()["groups"][0]["rewards"] == pytest.approx([log_words("1 a")] * 1000)
    assert httpx.post(f"{address}/v1/score", json=asked, headers={"Authorization": "Bearer x"}).status_code == 401
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM)
    assert b"hush" not in said and b"Traceback" not in said and b"a key is wanted" in said


def test_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for words, sentence in (
            (("judge=crm",), "crm-serve: checkpoint=None: expected a run folder of train.py"),
            (("judge=length", f"port={port}"), f"crm-serve: host=127.0.0.1 port={port}: cannot be used (Address"),
            (("judge=length", "queue_rows=0"), "crm-serve: queue_rows=0: expected 1 or more"),
        ):
            done = subprocess.run(command(tmp_path, *words), capture_output=True, text=True, cwd=tmp_path, check=False)
            assert done.returncode == 2 and done.stderr.strip().startswith(sentence), done.stderr
            assert "Traceback" not in done.stderr
