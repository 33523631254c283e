"""A port that is taken is told before anything is loaded, by both servers, also where two start at the same time."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.page import run as page
from crm.rewards import server as rewards
from crm.web.listening import bound, serve


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize("name", ["app", "serve"])
def test_a_taken_port_is_told_before_anything_is_loaded(
    name: str, taken: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def loaded(*_: Any, **__: Any) -> None:
        pytest.fail("a judge was opened for nothing")

    monkeypatch.setattr(page, "make_ranker", loaded)
    monkeypatch.setattr(rewards, "open_judge", loaded)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    run: Any = {"app": page.run_app, "serve": rewards.run_server}[name]
    with pytest.raises(ValueError, match=f"host=127.0.0.1 port={taken}: cannot be used .*in use.*take another"):
        run(compose(name, ["judge=length", f"port={taken}"], tmp_path))


def test_of_two_that_start_at_once_the_second_is_told(taken: int) -> None:
    """Until one of them listens both may have the address."""
    first = bound("127.0.0.1", 0)
    port = first.getsockname()[1]
    second = bound("127.0.0.1", port)
    first.listen()
    with pytest.raises(ValueError, match=f"port={port}: cannot be used"):
        serve(None, second, grace_s=1)  # type: ignore[arg-type]
    first.close()


@pytest.mark.parametrize("host", ["no.such.name.invalid", "192.0.2.1", "300.1.1.1"])
def test_an_address_of_another_machine_is_told(host: str) -> None:
    with pytest.raises(ValueError, match=f"host={host} port=0: cannot be used"):
        bound(host, 0)
