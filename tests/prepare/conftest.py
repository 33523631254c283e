"""A preparation on few rows, and a chat endpoint whose replies a test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.simulation.arena import simulate
from crm.prepare.run import run_prepare
from crm.schema import to_json
from tests.chat.endpoint import Answer, chat_endpoint, completion

Prepare = Callable[..., Path]


@pytest.fixture(scope="session")
def votes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 simulated votes with criteria and topics, as records."""
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    rows = simulate(seed=3, train=300, validation=0, suite=0).train
    path.write_text("".join(to_json(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """``prepare("data=...", ...)`` prepares into ``tmp_path/data`` without public sets, and returns the folder."""
    return preparing(tmp_path)


def preparing(folder: Path) -> Prepare:
    def run(*overrides: str, out: str = "data", root: str = "nowhere") -> Path:
        words = [f"out='{folder / out}'", f"data.root='{folder / root}'", "progress=false", *overrides]
        return run_prepare(compose("prepare", words))

    return run


class Endpoint:
    """``answer`` maps the text of a request to the reply's text; ``None`` is a server error. ``asked`` keeps them."""

    def __init__(self, answer: Callable[[str], dict[str, Any] | None]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.settings: list[str] = []

    def reply(self, body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        text = "\n".join(turn["content"] for turn in body["messages"])
        self.asked.append(text)
        reply = self.answer(text)
        return (500, "{}") if reply is None else completion(json.dumps(reply))


@pytest.fixture
def make_endpoint() -> Iterator[Callable[..., Endpoint]]:
    with ExitStack() as stack:

        def make(answer: Callable[[str], dict[str, Any] | None]) -> Endpoint:
            endpoint = Endpoint(answer)
            url = stack.enter_context(chat_endpoint(endpoint.reply))
            endpoint.settings = [
                *("annotator=openai", f"annotator.base_url={url}", "annotator.model=fake", "annotator.attempts=1")
            ]
            return endpoint

        yield make
