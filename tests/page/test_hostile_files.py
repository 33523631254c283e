"""No request makes the server hand out a file that it was not asked to serve, or ask another server."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import gradio as gr
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.page.hostile_files import CHECKED, FORMS, META, Victim, as_body, calls, listener, places, victim

JSON = {"Content-Type": "application/json"}
OTHER_ROUTES = ("call", "call/v2", "run", "api")
FILE_ROUTES = ("/gradio_api/file=", "/gradio_api/file/", "/file=", "/gradio_api/proxy=", "/static/", "/assets/",
               "/svelte/", "/gradio_api/custom_component/x/client/x/", "/gradio_api/stream/",
               "/gradio_api/file%3D", "/")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("additions", ["true", "false"])
def test_no_file_of_the_server_comes_out(tmp_path: Path, additions: str) -> None:
    found: list[Victim] = []
    with victim(tmp_path, f"additions={additions}") as server, listener(found) as other:
        found.append(server)
        at = places(tmp_path, other)
        config = server.ask("GET", "/config").json()
        for number, (function, data) in enumerate(calls(config, at)):
            session = f"s{number}"
            if server.ask("POST", "/gradio_api/queue/join", content=as_body(function, data, session)).is_success:
                server.events(session)
            if len(server.leaks) > 200:
                break  # it is open, and the rest would take long
        joined = server.asked
        through_other_routes(server, config, at)
        uploads(server)
        for path in CHECKED:
            server.ask("GET", path)
        fetched = [server.ask("GET", f"{route}{quote(name)}") for name in at for route in FILE_ROUTES]
        named = sorted(server.mentioned())[:300]
        fetched += [server.ask("GET", f"/gradio_api/file={quote(name)}") for name in named]
        time.sleep(0.5)  # for whoever asks the listener late
        assert {word for word, _ in server.leaks} == set(), server.leaks[-3:]
        assert server.hits == 0
        assert not any("root:" in answer.text for answer in fetched)
        assert [path for path in (tmp_path / "temporary").rglob("*") if path.is_file() and not path.is_symlink()] == []
        assert joined > 600 and len(fetched) > 100
        print(f"{server.asked} requests, {joined} joins, {len(fetched)} fetches, {server.hits} hits")


def through_other_routes(server: Victim, config: dict[str, Any], at: list[str]) -> None:
    """Gradio's routes beside its queue."""
    for number, function in enumerate(config["dependencies"]):
        for place in at[:4]:
            data = [FORMS[number % len(FORMS)](place)] * max(1, len(function["inputs"]))
            for route in OTHER_ROUTES:
                path = f"/gradio_api/{route}/{function['api_name']}"
                event = server.ask("POST", path, json={"data": data, "fn_index": function["id"], "session_hash": "o"})
                if event.is_success and "event_id" in event.text:
                    server.ask("GET", f"{path}/{event.json()['event_id']}")
    body = {"data": [{"path": at[0], "meta": META}], "component_id": 1, "fn_name": "x", "session_hash": "o"}
    for path in (
        "component_server",
        "cancel",
        "reset",
        "process_recording",
        "stream/x",
        "vibe-code",
        "run-history/connect",
    ):
        server.ask("POST", f"/gradio_api/{path}", json=body)


def uploads(server: Victim) -> None:
    """Files with names of files: by Gradio's route, and by ours."""
    for name in ("x.txt", "../../secret.txt", "/proc/self/environ", "link.txt", "a\x00b.jsonl", "../x.jsonl", ".jsonl"):
        server.ask("POST", "/gradio_api/upload", files={"files": (name.replace("\x00", "0"), b"[")})
        server.ask("POST", "/api/models", params={"name": name, "file": name}, content=b"[" * 100)
        server.ask("POST", "/api/models", params={"name": name, "file": f"{name}.json.gz"}, content=b"no archive")


def test_a_file_of_the_environment_is_refused_by_gradio_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the gate before it, which is the first of two locks."""
    from crm.page.run import mount

    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "cache"))
    (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
    with gr.Blocks() as page:
        box, button = gr.Textbox(), gr.Button()
        button.click(lambda text: text, box, box)
    data = [{"path": str(tmp_path / "secret.txt"), "meta": META}]
    with TestClient(mount(FastAPI(), page)) as client:
        assert client.post("/gradio_api/queue/join", content=as_body(0, data, "s"), headers=JSON).is_success
        said = client.get("/gradio_api/queue/data?session_hash=s").text
    assert '"success":false' in said and str(tmp_path) not in said
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "secret.txt"]


def test_the_gate_reads_what_gradio_reads() -> None:
    from crm.page.gate import refusal

    named = {"path": "/etc/passwd", "meta": META}
    hidden = json.dumps({"data": [named]})
    twice = '{"data": [{"path": "x", "meta": {"_type": "gradio.FileData", "_type": "other"}, "meta": 1}]}'
    escaped = hidden.replace("_type", "\\u005ftype").replace("gradio.", "gr\\u0061dio.")
    for body in (hidden.encode(), hidden.encode("utf-16"), twice.encode(), escaped.encode()):
        assert "names a file of the server" in str(refusal(body))
    assert "expected JSON" in str(refusal(b"[" * 100_000)) and "expected JSON" in str(refusal(b"\xff"))
    fields = ["meta", "_type", "gradio.FileData", {"meta": "criteria=x", "path": "criteria=y", "_type": "criteria=z"}]
    assert refusal(json.dumps({"data": fields}).encode()) is None, "texts and names of settings may be anything"
