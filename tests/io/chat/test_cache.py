"""The cache of replies: what its key depends on, several writers, files that are none."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crm.io.chat.cache import ReplyCache, code_version, request_key
from crm.io.chat.endpoint import Endpoint
from crm.schema import Message

ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "m", seed=1)
MESSAGES = (Message("system", "s"), Message("user", "u"))


@pytest.mark.parametrize(
    "change",
    [
        {"model": "n"},
        {"temperature": 0.1},
        {"temperature": None},
        {"max_tokens": 5},
        {"seed": 2},
        {"base_url": "http://127.0.0.1:2/v1"},
        {"json_schema": True},
    ],
)
def test_the_key_changes_with_what_shapes_a_reply(change: dict[str, Any]) -> None:
    assert request_key(replace(ENDPOINT, **change), MESSAGES, "v") != request_key(ENDPOINT, MESSAGES, "v")


def test_the_key_changes_with_messages_and_version_and_nothing_else() -> None:
    key = request_key(ENDPOINT, MESSAGES, "v")
    others = [
        request_key(ENDPOINT, MESSAGES, "w"),
        request_key(ENDPOINT, MESSAGES[::-1], "v"),
        request_key(ENDPOINT, (Message("user", "s"), Message("user", "u")), "v"),
        request_key(ENDPOINT, (Message("system", "su"), Message("user", "")), "v"),
    ]
    assert len({key, *others}) == 5
    same = replace(
        ENDPOINT, api_key="k", concurrency=1, attempts=9, budget_calls=3, breaker=4, base_url="http://127.0.0.1:1/v1/"
    )
    assert request_key(same, MESSAGES, "v") == key


def test_the_version_changes_with_the_text_of_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def module(name: str, text: str) -> ModuleType:
        import importlib

        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    versions = {}
    for text in ("PROMPT = 'a'\n", "PROMPT = 'b'\n", "PROMPT = 'a'\n"):
        made = module("made_for_this_test", text)
        versions.setdefault(text, set()).add(code_version([made, os]))
        assert code_version([made, os]) == code_version([os, made]) != code_version([made])
    assert [len(found) for found in versions.values()] == [1, 1]
    assert len(set.union(*versions.values())) == 2


WRITER = """
import sys
from crm.io.chat.cache import ReplyCache
cache = ReplyCache(sys.argv[1])
for n in range(400):
    cache.put(f"shared-{n}", "x" * 500)
    cache.put(f"{sys.argv[2]}-{n}", sys.argv[2])
    assert cache.get(f"shared-{n}") == "x" * 500
"""


@pytest.mark.slow
def test_two_processes_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "replies.sqlite"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stderr=subprocess.PIPE)
        for name in ("one", "two", "three")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    cache = ReplyCache(path)
    assert len(cache) == 4 * 400
    assert all(cache.get(f"{name}-{n}") == name for name in ("one", "two", "three") for n in range(400))


@pytest.mark.slow
def test_a_killed_writer_loses_nothing_it_had_put(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    script = WRITER + "\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", script, str(path), "one"], timeout=60, check=False)
    assert len(ReplyCache(path)) == 800


def test_a_file_that_is_no_cache_is_named(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database " * 100)
    for path in (text, tmp_path):
        with pytest.raises(ValueError, match=str(path)):
            ReplyCache(path)
    assert text.read_text() == "not a database " * 100
