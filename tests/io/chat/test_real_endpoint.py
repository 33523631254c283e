"""A real server, ``transformers serve`` with SmolLM2-135M: the protocol is real, the model too small for the task.

Runs where both are there (about 40 s, CPU, loopback only), else is skipped::

    make smollm2
    pip install 'transformers[serving]'
    python -m pytest tests/io/chat/test_real_endpoint.py
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from crm.criteria.extraction import count, extract
from crm.criteria.schemas import CriteriaReply
from crm.io.chat.asker import Asker
from crm.io.chat.endpoint import Endpoint
from crm.votes.simulation.arena import simulate

ROOT = Path(__file__).parents[3]
MODEL = "models/smollm2_135m"
MISSING = [name for name in ("fastapi", "uvicorn", "openai") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.skipif(
        not (ROOT / MODEL / "config.json").is_file(), reason=f"{MODEL} is not there; run `make smollm2`"
    ),
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)}; run `pip install 'transformers[serving]'`"),
]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", MODEL, "--device", "cpu"]
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port)],
            cwd=ROOT,
            stdout=stream,
            stderr=stream,
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
        )
    try:
        for _ in range(240):
            if server.poll() is not None or _healthy(port):
                break
            time.sleep(0.5)
        assert server.poll() is None and _healthy(port), log.read_text()[-2000:]
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def _healthy(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def test_every_row_is_extracted_by_the_rules_or_counted_as_failed(url: str) -> None:
    simulated = simulate(seed=1, train=5, validation=1, suite=1).train
    rows = [replace(row, criteria_a=(), criteria_b=()) for row in simulated]
    asker = Asker(Endpoint(url, MODEL, max_tokens=16, concurrency=2))
    extractions = extract(rows, asker)
    for row, extraction in zip(rows, extractions, strict=True):
        if extraction.status == "extracted":
            written = extraction.preference
            CriteriaReply.model_validate(
                {"criteria_a": list(written.criteria_a), "criteria_b": list(written.criteria_b)}
            )
        else:
            assert extraction.status in ("failed:truncated", "failed:not_json", "failed:wrong_schema")
            assert extraction.preference == row
    assert count(extractions).total() == 5 == asker.counts.answered + asker.counts.failures.total()
    assert asker.counts.calls == 5 + asker.counts.repairs
    assert asker.counts.prompt_tokens > 5 * 300
    assert 0 < asker.counts.completion_tokens <= 16 * asker.counts.calls
    assert asker.counts.unreported_tokens == 0


def test_a_wrong_address_stops_the_run(url: str) -> None:
    row = simulate(seed=1, train=1, validation=1, suite=1).train[0]
    asker = Asker(Endpoint(url.removesuffix("/v1"), MODEL))
    with pytest.raises(ValueError, match="base_url"):
        extract([replace(row, criteria_a=(), criteria_b=())], asker)
    assert asker.counts.calls == 1
