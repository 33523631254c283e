"""The HTTP API by route: what it answers is what the ranker says, and a mistake is a sentence."""

from __future__ import annotations

import csv
import io
import json
import re
import runpy
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from crm.leaderboard.bank.config import BankConfig
from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.api import FILES, MAX_BODY, About, Guard, make_api
from crm.page.client import LeaderboardClient, LeaderboardError
from crm.page.facts import Facts, facts_of
from crm.page.picks import Picking
from crm.page.profile import Profile
from crm.page.ranker import Ranker
from crm.page.scorers import OracleScorer
from crm.picking.criteria import read_pool
from tests.page.conftest import client_of, small_bank
from tests.running_app import running

DOCS = Path(__file__).parents[2] / "docs"
CONCISE = {"criteria": ["concise"]}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def ranker(make_ranker: Any) -> Ranker:
    made: Ranker = make_ranker(small_bank(30))
    return made


@pytest.fixture
def http(ranker: Ranker) -> TestClient:
    return client_of(ranker)


def test_the_client_gets_what_the_ranker_says(
    ranker: Ranker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    api = make_api(ranker, Picking(ranker, read_pool()), About(judge="words", version="9"))
    with running(api) as address, LeaderboardClient(address) as client:
        bank = client.bank()
        assert bank["models"] == ["base", "brief", "middle", "wordy"] and bank["topics"] == {"S": 15, "T": 15}
        ranking = client.rank(criteria=["concise"], topics=["T"])
        board = ranker.rank(Profile(criteria=("concise",), topics=("T",))).board
        assert board is not None
        assert {row["model"]: row["win_rate"] for row in ranking["leaderboard"]} == pytest.approx(board.win_rates())
        assert ranking["queries"] == 15
        first, second = {"criteria": ["long"], "topics": ["T"]}, {"criteria": ["concise"], "topics": ["T"]}
        found = client.compare(first, second)
        assert found["tau"] == pytest.approx(-1.0) and found["models"][0]["model"] == "brief"
        why = client.why("brief", **second)
        assert len(why) == 15 and why[0]["response"] == "brief" and why[0]["probability"] > 0.5
        with pytest.raises(LeaderboardError, match="'gpt' is not compared with 'base' here; there are brief, middle"):
            client.why("gpt", **second)
        with pytest.raises(LeaderboardError, match="topics: 'X' is not in the bank"):
            client.rank(topics=["X"])
        run_example("leaderboard_page.md", "client", address, tmp_path)
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["1", "brief"],
        ["2", "base"],
        ["3", "middle"],
    ]


def test_the_example_of_picking(address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run_example("picking.md", "picks", address, tmp_path)
    shown = (DOCS / "picking.md").read_text("utf-8").split("prints `")[1].split("`")[0]
    assert capsys.readouterr().out.strip() == shown


def run_example(file: str, name: str, address: str, folder: Path) -> None:
    code = (DOCS / file).read_text("utf-8").split(f"<!-- example: {name} -->\n```python\n")[1].split("```")[0]
    assert "http://127.0.0.1:7860" in code
    (folder / "example.py").write_text(code.replace("http://127.0.0.1:7860", address), "utf-8")
    runpy.run_path(str(folder / "example.py"))


def test_every_route_is_described(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    posts = {path for path, route in document["paths"].items() if "post" in route}
    assert posts == {f"/api/{name}" for name in ("rank", "compare", "why", "sentences", "picks")}
    assert all(route["description"] for routes in document["paths"].values() for route in routes.values())
    fields = document["components"]["schemas"]["Profile"]["properties"]
    assert set(fields) == {"criteria", "dislikes", "topics", "about", "baseline", "models", "queries", "weights"}


def test_each_route_answers(http: TestClient) -> None:
    assert http.get("/api/health").json() == {"status": "ok"}
    assert [json.loads(line)["query_id"] for line in http.get("/api/queries").text.splitlines()][:2] == ["q0", "q1"]
    ranking = http.post("/api/rank", json=CONCISE).json()
    assert ranking["refusal"] == "" and ranking["leaderboard"][0]["S"] > 0.5
    for path, body in (
        ("compare", {"first": CONCISE, "second": {}}),
        ("why", {"profile": CONCISE, "model": "brief", "examples": True}),
        ("sentences", {"profile": CONCISE, "model": "brief", "query_id": "q0"}),
        ("picks", {"profile": CONCISE}),
    ):
        assert http.post(f"/api/{path}", json=body).status_code == 200, path


def test_numbers_that_are_not_known_are_null() -> None:
    """Over opposite tastes all models win half: there is no order to compare with."""
    http = client_of(Ranker(OracleScorer(simulate_bank(seed=1, queries_per_topic=2).bank)))
    same = {"criteria": ["Prefers concise answers", "Prefers detailed answers"]}
    answer = http.post("/api/compare", json={"first": same, "second": same})
    assert answer.status_code == 200 and answer.json()["tau"] is None


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("why", "[1]", "^body: input should be a valid dictionary"),
        ("why", '{"profile": {}}', "^model: field required"),
        ("why", '{"profile": {"topics": 3}, "model": "x"}', "^profile.topics: input should be a valid list, got 3"),
        ("why", '{"profil": {}}', "^'profil': no such field; there are profile, model, examples"),
        ("why", "{", "^body: expected JSON"),
        ("rank", "", "^body: field required"),
        ("rank", b"\xff\xfe", "^body: expected JSON in UTF-8"),
        ("rank", '{"criteria": [null]}', "^criteria.0: input should be a valid string"),
        ("rank", '{"topics": ["../../etc/passwd"]}', "^topics: '../../etc/passwd' is not in the bank"),
        ("rank", '{"weights": [NaN], "criteria": ["x"]}', "^weights.0: input should be .* got nan"),
        ("compare", '{"first": {}, "second": {"queries": -1}}', "^second.queries: input should be greater"),
    ],
)
def test_a_wrong_body_is_a_sentence(http: TestClient, path: str, body: Any, message: str) -> None:
    answer = http.post(f"/api/{path}", content=body, headers=JSON)
    assert 400 <= answer.status_code < 500 and re.search(message, answer.json()["error"]), answer.text


def test_other_mistakes(http: TestClient) -> None:
    """Another content type is none that a page of another site may send without asking."""
    answer = http.post("/api/rank", content=json.dumps(CONCISE), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422 and "with the header Content-Type: application/json" in answer.json()["error"]
    for path in ("export/exe", "export/csv?queries=x", "export/csv?topics=x", "export/csv?criteria=" + "x" * 600):
        assert http.get(f"/api/{path}").status_code == 422, path
    for path in ("/api/nothing", "/static/", "/static/../api.py", "/static/%2e%2e/api.py", "/static//etc/passwd"):
        assert http.get(path).status_code == 404 and http.get(path).json()["error"] == "Not Found"
    assert http.delete("/api/bank").status_code == 405


def test_the_guard(ranker: Ranker) -> None:
    client = TestClient(Guard(client_of(ranker).app, per_minute=5))
    answer = client.get("/api/bank")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
    too_large = client.post("/api/rank", content=b"x" * (MAX_BODY + 1), headers=JSON)
    assert too_large.status_code == 413 and "65,536 bytes" in too_large.json()["error"]
    codes = [client.get("/api/health").status_code for _ in range(6)]
    last = client.get("/api/health")
    assert codes[-1] == 429 and last.headers["retry-after"] == "60" and "content-security-policy" in last.headers
    assert client.get("/").status_code == 200, "files are not counted"


HOSTILE = "=cmd|' /C calc'!A0<script>alert(1)</script>"


def test_files_hold_the_table(make_ranker: Any, bank: Any) -> None:
    """And no cell that a spreadsheet would compute: of names, of topics, after a line break."""
    texts = {{"wordy": HOSTILE, "brief": "gpt\r=1+1"}.get(name, name): text for name, text in bank.responses.items()}
    queries = tuple(replace(query, topic='=HYPERLINK("http://x")') for query in bank.queries)
    http = client_of(make_ranker(replace(bank, responses=texts, queries=queries)))
    board = http.post("/api/rank", json={"criteria": ["long"]}).json()["leaderboard"]
    answer = http.get("/api/export/csv?criteria=long")
    assert '.csv"' in answer.headers["content-disposition"] and answer.content.startswith(b"\xef\xbb\xbfrank,")
    table = pd.read_csv(io.BytesIO(answer.content))
    assert table["win_rate"].tolist() == pytest.approx([row["win_rate"] for row in board])
    cells = [cell for row in csv.reader(io.StringIO(answer.text)) for cell in row]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "@"))] and "\r" not in "".join(cells)
    document = http.get("/api/export/json?criteria=long").json()
    assert document["leaderboard"] == board and document["profile"]["criteria"] == ["long"]
    assert document["facts"]["judge"] == "words" and document["facts"]["queries"] == 8


def write(folder: Path, text: str) -> BankConfig:
    (folder / "models.csv").write_text(text, encoding="utf-8")
    return BankConfig(name="folder", path=str(folder))


def test_facts_beside_a_bank(ranker: Ranker, tmp_path: Path) -> None:
    head = "model,display,maker,licence,open_weights,usd_in,usd_out,tokens_per_s,as_of\n"
    bank = write(tmp_path, head + "brief,Brief 2,Acme,MIT,yes,0.1,0.4,90,2026-11-01\nwordy,,,,,,,,\n")
    known = Facts(display="Brief 2", maker="Acme", licence="MIT", open_weights=True, usd_in=0.1, usd_out=0.4)
    known = known.model_copy(update={"tokens_per_s": 90.0, "as_of": date(2026, 11, 1)})
    assert facts_of(None, bank) == {"brief": known, "wordy": Facts()}
    assert facts_of(str(tmp_path / "models.csv"), BankConfig()) == facts_of(None, bank)
    assert facts_of(None, BankConfig(name="folder", path=str(tmp_path / "none"))) == {} == facts_of(None, BankConfig())
    with pytest.raises(ValueError, match=r"facts='nowhere.csv': no such file; give a CSV file with the columns model"):
        facts_of("nowhere.csv", BankConfig())
    shown = client_of(ranker, facts=facts_of(None, bank)).get("/api/bank").json()["facts"]
    assert shown["brief"]["usd_out"] == 0.4 and shown["brief"]["as_of"] == "2026-11-01"
    assert shown["wordy"]["open_weights"] is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,price\nx,1\n", r"models.csv:1: 'price': no such column; there are model, display"),
        ("display\nx\n", r"models.csv:2: model: missing"),
        ("model,usd_out\nx,cheap\n", r"models.csv:2: usd_out: input should be a valid number.* got 'cheap'"),
        ("model,usd_out\nx,inf\n", r"usd_out: input should be a finite number, got 'inf'"),
        ("model,usd_in\nx,1\nx,2\n", r"models.csv:3: model: 'x' is in an earlier row too"),
    ],
)
def test_what_is_no_fact_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_of(None, write(tmp_path, text))


def test_the_page_is_served_and_holds_no_script_of_its_own(http: TestClient) -> None:
    """The content policy would stop one; browsers ask each time whether a file has changed."""
    named = set(re.findall(r'(?:src|href)="(static/[^"]+)"', http.get("/").text))
    for file in FILES.iterdir():
        text = file.read_text("utf-8")
        named |= {f"static/{name}" for name in re.findall(r"'\./(\w+\.js)'", text)}
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=\"", text), file.name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), file.name
    assert {"static/main.js", "static/style.css", "static/pick.js"} <= named
    for name in named:
        answer = http.get(f"/{name}")
        assert answer.status_code == 200 and answer.headers["Cache-Control"] == "no-cache", name
        again = http.get(f"/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304 and not again.content
