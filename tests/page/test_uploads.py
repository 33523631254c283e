"""Files of responses that people send: added or refused in a sentence, bounded, and never left lying about."""

from __future__ import annotations

import gzip
import json
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from crm.io.chat.endpoint import Endpoint
from crm.judges.controls import LengthJudge
from crm.page.additions import Additions
from crm.page.api import make_api
from crm.page.client import LeaderboardClient, LeaderboardError
from crm.page.guard import Guard
from crm.page.ranker import Ranker
from crm.page.uploads import MAX_FILE, add_uploads
from tests.page.browsing import serve
from tests.page.conftest import AUTHORS, small_bank
from tests.repeating_endpoint import repeating_endpoint


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files lie while they are read."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def client(ranker: Ranker, folder: Path | None, per_minute: int = 1000) -> TestClient:
    api = make_api(ranker, judge="words", version="9")
    add_uploads(api, Additions(ranker, folder / "added") if folder else None)
    return TestClient(Guard(api, per_minute=per_minute, max_upload=MAX_FILE))


@pytest.fixture
def http(make_ranker: Any, judge: Any, tmp_path: Path) -> TestClient:
    return client(make_ranker(judge), tmp_path)


def lines(text: str = "an answer") -> bytes:
    return "".join(json.dumps({"query_id": f"q{n}", "text": text}) + "\n" for n in range(8)).encode()


def send(http: Any, file: str, content: bytes, name: str = "new") -> Any:
    return http.post("/api/models", params={"name": name, "file": file}, content=content)


def test_a_file_adds_a_model_and_is_gone(http: TestClient, temporary: Path) -> None:
    table = pd.DataFrame({"query_id": [f"q{n}" for n in range(8)], "text": "an answer"}).to_csv(index=False).encode()
    array = json.dumps([json.loads(line) for line in lines().splitlines()]).encode()
    for number, (file, content) in enumerate(
        (("a.jsonl", lines()), ("A.JSON", array), ("b.csv", table), ("c.csv.gz", gzip.compress(table)))
    ):
        answer = send(http, file, content, f" new {number} ")
        assert answer.status_code == 200, answer.text
        assert answer.json()["model"] == f"new {number}" and len(answer.json()["models"]) == 5 + number
        assert list(temporary.iterdir()) == []
    assert http.post("/api/rank", json={"models": ["new 3"]}).status_code == 200


REFUSED = {
    "x.parquet": (b"PAR1", "has no ending that is read here; send JSON Lines"),
    "x.parquet.gz": (b"PAR1", "Parquet is read by `python bank.py`"),
    "": (b"", "has no ending"),
    "..": (b"", "has no ending"),
    "part.jsonl": (lines()[:200], "part.jsonl:"),
    "few.jsonl": (lines().split(b"\n")[0], "few.jsonl: 7 of 8 queries have no response"),
    "broken.jsonl.gz": (b"no archive", "broken.jsonl.gz:1: row: the file cannot be read on"),
    "zeros.jsonl.gz": (gzip.compress(b" " * 60_000_000), "zeros.jsonl.gz"),
    "zeros.json.gz": (gzip.compress(b"[" + b"{}," * 5_000_000), "more than 10,000,000 bytes (decompressed)"),
    "rows.csv": (b"query_id,text\n" + b"x,y\n" * 100_001, "more than 100,000 rows"),
    "wide.csv": (",".join(map(str, range(1001))).encode(), "more than 1,000 columns"),
    "keys.jsonl": (json.dumps(dict.fromkeys(map(str, range(1001)), 1)).encode(), "more than 1,000 columns"),
    "deep.json": (b"[" * 100_000, "deep.json"),
    "../../../up.jsonl": (b"[]", "up.jsonl:1"),
    "/etc/passwd\0.csv": (b"x", "_etc_passwd_.csv"),
}


def test_what_cannot_be_added_is_a_sentence_without_a_path(http: TestClient, temporary: Path) -> None:
    for file, (content, sentence) in REFUSED.items():
        answer = send(http, file, content)
        assert answer.status_code == 422 and sentence in answer.json()["error"], (file, answer.text)
        assert str(temporary) not in answer.text and "crm-upload" not in answer.text
        assert list(temporary.iterdir()) == []
    for name in ("", "base", "x" * 81):
        assert "author: " in send(http, "a.jsonl", lines(), name).json()["error"]
    assert http.get("/api/bank").json()["models"] == ["base", "brief", "middle", "wordy"]
    assert send(http, "large.jsonl", b"x" * (MAX_FILE + 1)).status_code == 413


def test_where_nobody_may_add_it_is_403(make_ranker: Any, judge: Any) -> None:
    answer = send(client(make_ranker(judge), None), "a.jsonl", lines())
    assert answer.status_code == 403 and "this server takes no models" in answer.json()["error"]


def test_files_are_counted_like_other_requests(make_ranker: Any, judge: Any, tmp_path: Path) -> None:
    http = client(make_ranker(judge), tmp_path, per_minute=3)
    assert [send(http, "a.csv", b"x").status_code for _ in range(4)] == [422, 422, 422, 429]


def test_a_full_disk_is_507(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/secret/place")

    monkeypatch.setattr("crm.page.additions.replace_file", full)
    answer = send(http, "a.jsonl", lines())
    assert answer.status_code == 507 and answer.headers["retry-after"] and "No space left" in answer.json()["error"]
    assert "/secret" not in answer.text and len(http.get("/api/bank").json()["models"]) == 4


def half_sent(address: str, sent: int) -> socket.socket:
    made = socket.create_connection((urlsplit(address).hostname, urlsplit(address).port), timeout=20)
    made.sendall(b"POST /api/models?name=n&file=x.jsonl HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
    made.sendall(b"x" * sent)
    return made


def eventually_files(folder: Path, count: int, size: int = 0) -> None:
    end = time.monotonic() + 20
    while True:
        files = [path for path in folder.rglob("*.jsonl") if path.stat().st_size >= size]
        if len(files) == count:
            return
        assert time.monotonic() < end, f"{len(files)} files of {size} bytes, not {count}"
        time.sleep(0.02)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serve(small_bank(), LengthJudge(), tmp_path, "requests_per_minute=100000") as address:
        yield address


@pytest.mark.parametrize(
    ("bound", "sentence"), [("FILES", "2 files are being added"), ("BYTES", "bytes of files wait")]
)
def test_files_that_wait_are_bounded_and_forgotten_with_who_sent_them(
    address: str, temporary: Path, monkeypatch: pytest.MonkeyPatch, bound: str, sentence: str
) -> None:
    monkeypatch.setattr(f"crm.page.uploads.MAX_WAITING_{bound}", 2 if bound == "FILES" else 300_000)
    waiting = [half_sent(address, 140_000) for _ in range(2)]
    eventually_files(temporary, 2, 60_000)
    full = send(httpx.Client(base_url=address, timeout=20), "more.jsonl", lines("long " * 30_000))
    assert full.status_code == 503 and sentence in full.json()["error"] and full.headers["retry-after"] == "60"
    for connection in waiting:
        connection.close()
    eventually_files(temporary, 0)
    assert send(httpx.Client(base_url=address, timeout=20), "good.jsonl", lines()).status_code == 200


def test_many_files_one_after_another_leave_nothing(address: str, temporary: Path) -> None:
    with httpx.Client(base_url=address, timeout=60) as http:
        for _ in range(25):
            assert send(http, "some.jsonl", b"x" * 5_000_000).status_code == 422
    assert list(temporary.iterdir()) == []


def test_the_python_client_adds_a_model(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_bytes(lines())
    with serve(small_bank(), LengthJudge(), tmp_path) as address, LeaderboardClient(address) as client:
        added = client.add_model("new", tmp_path / "mine.jsonl")
        assert added["models"] == ["base", "brief", "middle", "new", "wordy"]
        with pytest.raises(LeaderboardError, match="already in bank"):
            client.add_model("new", tmp_path / "mine.jsonl")
        with pytest.raises(LeaderboardError, match="token: this is not the token"):
            client.remove_model("new", "guessed")
        assert client.bank()["models"] == added["models"]
        assert client.remove_model("new", added["token"]) == client.bank()["models"] == list(AUTHORS)


def test_a_model_is_asked_for_line_by_line(make_ranker: Any, judge: Any, tmp_path: Path) -> None:
    """And removed again with the token of the last line."""
    ranker = make_ranker(judge)
    with repeating_endpoint("nothing") as (address, _):
        api = make_api(ranker, judge="words", version="9")
        add_uploads(api, Additions(ranker, tmp_path / "added", Endpoint(base_url=address, model="echo")))
        http = TestClient(api)
        for name, last in (("wordy", "already in bank"), ("echo", "")):
            said = [json.loads(line) for line in http.post("/api/models/ask", json={"name": name}).text.splitlines()]
            assert last in said[-1].get("error", "")
        assert said[-2] == {"done": 8, "total": 8} and said[-1]["models"][2] == "echo"
        gone = http.delete("/api/models", params={"name": "echo", "token": said[-1]["token"]})
        assert gone.json() == {"models": list(AUTHORS)}
        assert http.delete("/api/models", params={"name": "echo", "token": "x"}).status_code == 403
