"""The HTTP API by route: what it answers is what the ranker says, and a mistake is a sentence."""

import csv
import io
import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from crm.config import compose
from crm.leaderboard.config import BankConfig
from crm.page.api import FILES, MAX_BODY, VERSION
from crm.page.config import AppConfig
from crm.page.facts import Facts, facts_of
from crm.page.profile import MAX_LINES, Profile
from crm.page.ranker import Ranker
from crm.page.run import make_app
from crm.schema import GENERIC_CRITERION
from tests.page.conftest import client_of, small_bank
from tests.test_docs import DOCS, example

CONCISE = {"criteria": ["concise"]}
LINES = list("abcdefghijklmnopqrstu")
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def ranker(make_ranker: Any) -> Ranker:
    made: Ranker = make_ranker(small_bank(30))
    return made


@pytest.fixture
def http(ranker: Ranker) -> TestClient:
    return client_of(ranker)


def test_routes_answer_what_the_ranker_says(ranker: Ranker, http: TestClient) -> None:
    bank = http.get("/api/v1/bank").json()
    assert bank["models"] == ["base", "brief", "middle", "wordy"] and bank["topics"] == {"S": 15, "T": 15}
    first, second = {"criteria": ["long"], "topics": ["T"]}, {"criteria": ["concise"], "topics": ["T"]}
    ranking = http.post("/api/v1/rank", json=second).json()
    board = ranker.rank(Profile(criteria=("concise",), topics=("T",))).board
    assert board is not None
    assert {row["model"]: row["win_rate"] for row in ranking["leaderboard"]} == pytest.approx(board.win_rates())
    assert ranking["queries"] == 15 and ranking["topics"] == {"T": 15}
    assert http.post("/api/v1/rank", json={"criteria": ["long"], "queries": 21}).json()["topics"] == {"S": 11, "T": 10}
    both = {"first": first, "second": second}
    assert http.post("/api/v1/compare", json=both).json()["error"].startswith("Only 15 questions")
    found = http.post("/api/v1/compare", json={name: {**asked, "topics": []} for name, asked in both.items()}).json()
    assert found["tau"] == pytest.approx(-1.0) and found["models"][0]["model"] == "brief"
    why = http.post("/api/v1/why", json={"profile": second, "model": "brief"}).json()
    assert why["n"] == 15 and [duel["response"] for duel in why["duels"]] == ["brief"]
    assert ranking["refusal"].startswith("Only 15 questions") and ranking["leaderboard"][0]["topics"]["T"] > 0.5
    assert ranking["lines"] == ["concise"] and ranking["leaderboard"][0]["shares"] == pytest.approx([1.0])
    assert http.get("/api/v1/health").json() == {"status": "ok"}
    answer = http.post("/api/v1/why", json={"profile": second, "model": "gpt"})
    assert "'gpt' is not ranked here; choose one of brief, middle" in answer.json()["error"]


@pytest.mark.parametrize(("file", "name"), [("leaderboard_page.md", "client"), ("picking.md", "picks")])
def test_examples_run(address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, file: str, name: str) -> None:
    script, page = tmp_path / "example.py", DOCS[file]
    script.write_text(example(page, f"example: {name}").replace("http://127.0.0.1:7860", address), "utf-8")
    runpy.run_path(str(script))
    lines = capsys.readouterr().out.strip().splitlines()
    if name == "client":
        assert [line.split()[0] for line in lines] == ["1", "2", "3"]
    else:
        assert lines == [page.split("prints `")[1].split("`")[0]]


def test_every_route_is_described_under_the_version_of_the_api(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    posts = {path for path, route in document["paths"].items() if "post" in route}
    assert posts == {f"/api/v1/{name}" for name in ("rank", "compare", "why", "picks", "picks/csv", "votes")}
    fields = document["components"]["schemas"]["Profile"]["properties"]
    assert set(fields) == {"criteria", "dislikes", "topics", "baseline", "queries", "drop_flawed", "weights"}
    assert fields["criteria"]["maxItems"] == fields["dislikes"]["maxItems"] == MAX_LINES == 20
    wrong = document["paths"]["/api/v1/rank"]["post"]["responses"]["422"]["content"]["application/json"]["schema"]
    assert wrong == {"$ref": "#/components/schemas/Mistake"}, "as it is answered"
    assert document["info"]["version"] == VERSION == "1", "and not the commit's, which `bank` has"
    assert all(path.startswith(f"/api/v{VERSION}/") for path in document["paths"])
    assert http.get("/api/v1/bank").json()["version"] == "9"


def test_numbers_that_are_not_known_are_null(http: TestClient) -> None:
    """Over opposite tastes all models win half: there is no order to compare with."""
    same = {"criteria": ["long"], "dislikes": ["wordy"]}
    answer = http.post("/api/v1/compare", json={"first": same, "second": same})
    assert answer.status_code == 200 and answer.json()["tau"] is None


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("why", "[1]", "^body: expected a valid object"),
        ("why", '{"profile": {}}', "^model: missing"),
        ("why", '{"profile": {"topics": 3}, "model": "x"}', "^profile.topics: expected a valid list, got 3"),
        ("why", '{"profile": {}, "model": "x", "modell": 1}', "^modell: unknown field"),
        ("why", "{", "^body: expected JSON"),
        ("rank", "", "^body: missing"),
        ("rank", b"\xff\xfe", "^body: expected JSON in UTF-8"),
        ("rank", '{"criteria": [null]}', r"^criteria\[0\]: expected a valid string"),
        ("rank", json.dumps({"criteria": ["x" * 501]}), r"^criteria\[0\]: string should have at most 500 .*, got 'x"),
        ("rank", json.dumps({"dislikes": LINES}), "^dislikes: expected at most 20 items, got 21$"),
        ("rank", json.dumps({"criteria": LINES[:11], "dislikes": LINES[11:]}), "21 lines .* at most 20"),
        ("rank", '{"topics": ["../../etc/passwd"]}', "^topics: '../../etc/passwd' is not in the bank"),
        ("rank", '{"weights": [NaN], "criteria": ["x"]}', r"^weights\[0\]: expected .* got nan"),
        ("rank", '{"weights": [0], "criteria": ["x"]}', r"^weights\[0\]: expected at least 0.01"),
        ("rank", '{"weights": [1, 2], "criteria": ["x"]}', "^weights: expected one for each of the 1 lines"),
        ("compare", '{"first": {}, "second": {"queries": -1}}', "^second.queries: expected at least 0, got -1"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_body_is_a_sentence(http: TestClient, path: str, body: Any, message: str) -> None:
    answer = http.post(f"/api/v1/{path}", content=body, headers=JSON)
    assert 400 <= answer.status_code < 500 and re.search(message, answer.json()["error"]), answer.text


def test_what_the_judge_reads() -> None:
    assert Profile(criteria=("  short ", "short", "")).criteria == ("short",)
    signed = Profile(criteria=("a", "b"), dislikes=("c",), weights=(2.0, 1.0, 3.0)).signed
    assert signed == (("a", "b", "c"), (2.0, 1.0, -3.0))
    assert Profile(dislikes=("c",)).signed == (("c",), (-1.0,)) and Profile().signed == ((GENERIC_CRITERION,), (1.0,))


def test_other_mistakes(http: TestClient) -> None:
    """Another content type is none that a page of another site may send without asking."""
    answer = http.post("/api/v1/rank", content=json.dumps(CONCISE), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422 and "with the header Content-Type: application/json" in answer.json()["error"]
    for path, message in (
        ("export/csv?queries=x", "queries: expected a valid integer"),
        ("export/csv?topics=x", "topics: 'x' is not in the bank"),
        ("export/csv?criteria=" + "x" * 600, "criteria[0]: string should have at most 500 characters"),
        ("export/csv?judge=x", "judge: unknown field"),
    ):
        answer = http.get(f"/api/v1/{path}")
        assert answer.status_code == 422 and answer.json()["error"].startswith(message), answer.text
    for path in ("/api/v1/nothing", "/static/", "/static/../api.py", "/static/%2e%2e/api.py", "/static//etc/passwd"):
        assert http.get(path).status_code == 404 and http.get(path).json()["error"] == "Not Found"
    assert http.delete("/api/v1/bank").status_code == 405


def test_headers_and_the_body_limit(ranker: Ranker, tmp_path: Path) -> None:
    config = compose("app", ["checkpoint=none", "hosts=[localhost,'2001:db8::1']"], tmp_path)
    client = TestClient(make_app(ranker, "words", config), base_url="http://localhost")
    for path in ("/api/v1/bank", "/", "/static/main.js", "/api/v1/nothing"):
        headers = client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"] and headers["cache-control"] == "no-cache"
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    too_large = client.post("/api/v1/rank", content=b"x" * (MAX_BODY + 1), headers=JSON)
    assert too_large.status_code == 413 and "4,194,304 bytes" in too_large.json()["error"]
    packed = client.get("/static/main.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip" and "import" in packed.text


HOSTILE = "=cmd|' /C calc'!A0<script>alert(1)</script>"


def test_files_hold_the_table(make_ranker: Any) -> None:
    """And no cell that a spreadsheet would compute: of names, of topics, after a line break."""
    bank = small_bank(30)
    texts = {{"wordy": HOSTILE, "brief": "gpt\r=1+1"}.get(name, name): text for name, text in bank.responses.items()}
    queries = tuple(replace(query, topic='=HYPERLINK("http://x")') for query in bank.queries)
    http = client_of(make_ranker(replace(bank, responses=texts, queries=queries)))
    board = http.post("/api/v1/rank", json={"criteria": ["long"]}).json()["leaderboard"]
    answer = http.get("/api/v1/export/csv?criteria=long")
    assert '.csv"' in answer.headers["content-disposition"] and answer.content.startswith(b"\xef\xbb\xbfrank,")
    table = pd.read_csv(io.BytesIO(answer.content))
    assert table["win_rate"].tolist() == pytest.approx([row["win_rate"] for row in board])
    cells = [cell for row in csv.reader(io.StringIO(answer.text)) for cell in row]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "@"))] and "\r" not in "".join(cells)
    assert set(table["criteria"]) == {"1 x long"} and set(table["judge"]) == {"words"}
    assert set(table["baseline"]) == {"base"} and (table["rank_low"] <= table["rank_high"]).all()
    for name in ("rank_low", "rank_high"):
        assert table[name].tolist() == [row[name] for row in board], "as the page shows them"
    kept = pd.read_csv(io.BytesIO(http.get("/api/v1/export/csv?criteria=long&models=middle&models=base").content))
    pd.testing.assert_frame_equal(kept, table[table["model"].isin(["middle", "base"])].reset_index(drop=True))
    few = http.get("/api/v1/export/csv?criteria=long&queries=3").json()
    assert few["error"].startswith("Only 3 questions are chosen")
    link = {"criteria": ["long", "a,b"], "dislikes": ["concise"], "weights": [2.0, 1.0, 0.5], "queries": 20}
    table = pd.read_csv(io.BytesIO(http.get("/api/v1/export/csv", params=link).content))
    board = http.post("/api/v1/rank", json=link).json()["leaderboard"]
    assert table["win_rate"].tolist() == pytest.approx([row["win_rate"] for row in board]), "a link is the same profile"


def test_flawed_responses_are_counted_and_their_questions_left_out(make_ranker: Any) -> None:
    bank = small_bank(30)
    texts = {name: dict(answers) for name, answers in bank.responses.items()}
    texts["wordy"] |= {"q0": " ", "q1": "```\ncode", "q2": "I know that you like long answers."}
    http = client_of(make_ranker(replace(bank, responses=texts)))

    def rank(*criteria: str, **profile: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        answer = http.post("/api/v1/rank", json={"criteria": criteria, **profile}).json()
        return answer, {row["model"]: (row["flawed"], row["flaws"]) for row in answer["leaderboard"]}

    answer, flaws = rank("long")
    assert answer["queries"] == 30 and flaws["wordy"] == (2, {"empty": 1, "truncated": 1}) and flaws["brief"] == (0, {})
    answer, flaws = rank("that you like long answers")
    assert flaws["wordy"] == (3, {"empty": 1, "truncated": 1, "stuffed": 1})
    for line, left in (("long", 28), ("that you like long answers", 27)):
        answer, flaws = rank(line, drop_flawed=True)
        assert answer["queries"] == left and set(map(str, flaws.values())) == {"(0, {})"}
    link = {"criteria": "long", "drop_flawed": "true"}
    table = pd.read_csv(io.BytesIO(http.get("/api/v1/export/csv", params=link).content))
    assert set(table["flawed"]) == {0} and set(table["n"]) == {28}
    table = pd.read_csv(io.BytesIO(http.get("/api/v1/export/csv?criteria=long").content)).set_index("model")
    assert table["flawed"]["wordy"] == 2
    for name in ("brief", "wordy"):
        texts[name] = dict.fromkeys(texts[name], "")
    answer = client_of(make_ranker(replace(bank, responses=texts))).post("/api/v1/rank", json={"drop_flawed": True})
    assert answer.status_code == 422 and answer.json()["error"].startswith("drop_flawed: to each of these questions")


def write(folder: Path, text: str) -> BankConfig:
    (folder / "models.csv").write_text(text, encoding="utf-8")
    return BankConfig(name="folder", path=str(folder))


def test_facts_beside_a_bank(ranker: Ranker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    bank = write(
        tmp_path, "\ufeffmodel,display,open_weights,usd_out,released\nbrief,Brief 2,yes,0.4,2026-01\nwordy,,,,\n"
    )
    known = Facts(display="Brief 2", open_weights=True, usd_out=0.4, released="2026-01")
    assert facts_of(None, bank) == {"brief": known, "wordy": Facts()}
    assert facts_of(str(tmp_path / "models.csv"), BankConfig()) == facts_of(None, bank)
    assert facts_of(None, BankConfig(name="folder", path=str(tmp_path / "none"))) == {} == facts_of(None, BankConfig())
    with pytest.raises(ValueError, match=r"facts='nowhere.csv': no such file; give a CSV file with the columns model"):
        facts_of("nowhere.csv", BankConfig())
    shown = client_of(ranker, facts=facts_of(None, bank)).get("/api/v1/bank").json()["facts"]
    assert shown["brief"]["usd_out"] == 0.4 and shown["wordy"]["open_weights"] is None
    make_app(ranker, "words", AppConfig(checkpoint="none", bank=write(tmp_path, "model\nbrieff\n")))
    assert "facts: 1 of no model of bank small, such as 'brieff'; did you mean brief?" in caplog.text


def test_card_and_licence(ranker: Ranker, tmp_path: Path) -> None:
    """The card of a checkpoint is served as text, and no other file."""
    http = client_of(ranker, licence="CC0")
    assert http.get("/api/v1/bank").json()["licence"] == "CC0" and http.get("/api/v1/bank").json()["card"] is False
    assert http.get("/api/v1/card").status_code == 404
    model = tmp_path / "run/model"
    model.mkdir(parents=True)
    (model / "README.md").write_text("# <b>Card</b>", "utf-8")
    for text, status in (("", 404), ("{}", 200)):
        if text:
            (model / "crm.json").write_text(text, "utf-8")
        config = compose("app", [f"checkpoint={tmp_path / 'run'}", "bank=alpacaeval"], tmp_path)
        http = TestClient(make_app(ranker, "words", config), base_url="http://localhost")
        assert http.get("/api/v1/card").status_code == status
    assert http.get("/api/v1/card").text == "# <b>Card</b>"
    assert http.get("/api/v1/card").headers["content-type"].startswith("text/plain")
    assert http.get("/api/v1/bank").json()["licence"].startswith("CC-BY-NC-4.0, for research only")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,price\nx,1\n", r"models.csv:2: price: unknown field"),
        ("display\nx\n", r"models.csv:2: model: missing"),
        ("model,usd_out\nx,cheap\n", r"models.csv:2: usd_out: expected a valid number.* got 'cheap'"),
        ("model,usd_out\nx,inf\n", r"usd_out: expected a finite number, got 'inf'"),
        ("model,released\nx,May 2024\n", r"models.csv:2: released: string should match pattern"),
        ("model,usd_out\nx,1\nx,2\n", r"models.csv:3: model: 'x' is in an earlier row too"),
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
    assert 'accept=".csv,.tsv,.json,.jsonl"' in http.get("/").text
    for name in named:
        answer = http.get(f"/{name}")
        assert answer.status_code == 200, name
        again = http.get(f"/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert again.status_code == 304 and not again.content
