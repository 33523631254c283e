"""A chat endpoint that answers as the test says; tiny models of a hub as folders; a judge that reads everything."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

Sent = tuple[int, dict[str, str], str]
"""Status, headers and body."""


class ChatServer(ThreadingHTTPServer):
    """``answer(material, body)`` decides each reply; ``material`` is the JSON object of the user's turn."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[dict[str, Any], dict[str, Any]], Sent] = lambda _material, _body: said("Verdict: A")
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.keys.add(self.headers.get("Authorization", ""))
            status, headers, text = self.server.answer(json.loads(body["messages"][-1]["content"]), body)
        content = text.encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


def said(text: str | None, finish: str = "stop", usage: tuple[int, int] | None = (30, 12), **choice: Any) -> Sent:
    """A completion with this text."""
    message = {"role": "assistant", "content": text, "refusal": choice.pop("refusal", None)}
    row: dict[str, Any] = {"choices": [{"message": message, "finish_reason": finish, **choice}]}
    if usage:
        row["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return 200, {}, json.dumps(row)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def completion_of() -> Callable[..., Sent]:
    """Makes what the server sends for a reply of the model."""
    return said


CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content | trim + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
)


@pytest.fixture(scope="session")
def chatml() -> str:
    """A template that trims, as many do, and ends in a line break."""
    return CHATML


@pytest.fixture(scope="session")
def make_hub_model(tokenizer: Any) -> Callable[..., Path]:
    """``make_hub_model(folder, labels=1, template=CHATML, **of the configuration)``: a random Qwen3 classifier."""
    import torch
    from transformers import Qwen3Config, Qwen3ForSequenceClassification

    def make(folder: Path, labels: int = 1, template: str | None = CHATML, **changes: Any) -> Path:
        settings = {
            "initializer_range": 0.3,
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        }
        config = Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            intermediate_size=32,
            max_position_embeddings=4096,
            **{**settings, **changes},
        )
        config.num_labels = labels
        torch.manual_seed(1)
        Qwen3ForSequenceClassification(config).save_pretrained(folder)
        save_tokenizer(tokenizer, folder, template)
        return folder

    return make


def save_tokenizer(tokenizer: Any, folder: Path, template: str | None) -> None:
    kept, tokenizer.chat_template = tokenizer.chat_template, template
    tokenizer.save_pretrained(folder)
    tokenizer.chat_template = kept


@pytest.fixture(scope="session")
def edit_json() -> Callable[..., None]:
    """``edit_json(path, **changes)``."""

    def edit(path: Path, **changes: Any) -> None:
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


@pytest.fixture(scope="session")
def read_all() -> Callable[..., dict[tuple[str, str], Any]]:
    """Readings of a judge by (comparison id, order), both orders asked."""

    def read(judge: Any, rows: Any) -> dict[tuple[str, str], Any]:
        asked = [(row, order) for row in rows for order in ("ab", "ba")]
        readings = [reading for portion in judge.read(asked) for reading in portion]
        found = {(reading.comparison.id, reading.order): reading for reading in readings}
        assert len(found) == len(readings)
        return found

    return read
