"""Banks: what is saved comes back, faults are named with their place; made a model at a time, by files or endpoints."""

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.endpoint.replies import Reply
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.bank.responses import read_queries, read_responses
from crm.leaderboard.bank.run import run_bank
from crm.leaderboard.run import run_leaderboard
from crm.schema import Message, query_of
from tests.endpoint.fake_endpoint import repeating_endpoint
from tests.made_files import write_rows as write


def query(key: str, topic: str = "Tea") -> BankQuery:
    return BankQuery(key, (Message("user", f"question {key}"),), topic)


def small() -> Bank:
    queries = (query("q1"), query("q2", "Coffee"), query("q3"))
    answers = {who: {q.id: f"{who} on {q.id}" for q in queries} for who in ("base", "other")}
    return Bank("small", "base", queries, answers)


def test_selection_keeps_the_queries_of_the_topics() -> None:
    bank = small()
    assert [q.id for q in bank.select(["Tea"]).queries] == ["q1", "q3"]
    assert bank.select(["Tea"]).responses["other"] == {"q1": "other on q1", "q3": "other on q3"}
    assert bank.select([]) == bank.select(["Tea", "Coffee"]) == bank
    assert bank.topics == ("Coffee", "Tea") and repr(bank) == "Bank(name='small', baseline='base')"
    with pytest.raises(ValueError, match=r"'COFEE' is not in the bank, there are Coffee, Tea; did you mean Coffee\?$"):
        bank.select(["COFEE"])
    with pytest.raises(ValueError, match=r"there are Coffee, Tea$"):
        bank.select(["Nosuch"])


@pytest.mark.parametrize(
    ("ids", "message"), [(("q1", "q1"), "the id 'q1' occurs twice"), ((), "queries: the bank holds none")]
)
def test_impossible_banks_are_errors(ids: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bank("n", "a", tuple(map(query, ids)), {"a": dict.fromkeys(ids, "x")})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("queries", b'{"id": "q4"', r"queries\.jsonl:4: row: not valid JSON"),
        ("responses", b'{"author": "base", "query_id": "q1", "text": "y"}', r":7: query_id: 'base' answers 'q1' twice"),
        ("responses", b'{"author": "new", "query_id": "q1", "text": "x"}', r"'new' lacks 2 of 3 queries \(first: 'q2'"),
        ("bank", b'{"name": "n", "baseline": "x"}', r"bank\.json: baseline: 'x' has no responses in bank 'n'"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    small().save(tmp_path)
    path = tmp_path / (f"{name}.json" if name == "bank" else f"{name}.jsonl")
    path.write_bytes((b"" if name == "bank" else path.read_bytes()) + content + b"\n")
    with pytest.raises(ValueError, match=message):
        load_bank(tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=rf"{path.name}: no such file; a bank is"):
        load_bank(tmp_path)


def test_a_bank_with_nobody_to_rank_says_so_before_anything_is_read(tmp_path: Path) -> None:
    Bank("lonely", "base", (query("q1"),), {"base": {"q1": "x"}}).save(tmp_path / "bank")
    settings = ["judge=length", "bank=folder", f"bank.path={tmp_path / 'bank'}", f"predictions={tmp_path / 'kept'}"]
    with pytest.raises(ValueError, match=r"bank 'lonely': holds the responses of 'base' alone; add another model"):
        run_leaderboard(compose("leaderboard", settings, tmp_path / "run"))
    assert not (tmp_path / "kept").exists()


QUERIES = [{"query": f"Question {n}?", "topic": "ab"[n % 2]} for n in range(6)]


@pytest.fixture
def queries(tmp_path: Path) -> Path:
    return write(tmp_path / "queries.jsonl", QUERIES)


def build(tmp_path: Path, *words: str) -> Any:
    return run_bank(compose("bank", [f"out='{tmp_path / 'made'}'", "progress=false", *words]))


def test_files_make_a_bank(tmp_path: Path, queries: Path) -> None:
    one = write(tmp_path / "one.jsonl", [{"query": row["query"], "output": f"one {row['query']}"} for row in QUERIES])
    build(tmp_path, "author=one", f"queries='{queries}'", f"responses='{one}'")
    ids = [query.id for query in load_bank(tmp_path / "made").queries]
    two = tmp_path / "two.csv"
    two.write_text("query_id,text\n" + "".join(f"{name},two {name}\n" for name in [*ids, "elsewhere"]))
    with pytest.raises(ValueError, match="author: 'one' is already in bank 'made'"):
        build(tmp_path, "author=one", f"responses='{one}'")
    made = build(tmp_path, "author=two", f"responses='{two}'")
    assert made == load_bank(tmp_path / "made")
    assert made.baseline == "one" and made.authors == ("one", "two") and made.topics == ("a", "b")
    assert {query_of(q.prompt): made.responses["one"][q.id] for q in made.queries}["Question 3?"] == "one Question 3?"
    assert made.responses["two"][ids[2]] == f"two {ids[2]}"


def test_a_model_that_another_run_adds_meanwhile_stays(tmp_path: Path, queries: Path, monkeypatch: Any) -> None:
    one = write(tmp_path / "one.jsonl", [{"query": row["query"], "output": "x"} for row in QUERIES])
    words = f"queries='{queries}'", f"responses='{one}'"

    def slowly(*given: Any) -> Any:
        monkeypatch.undo()
        build(tmp_path, "author=quick", *words)
        return read_responses(*given)

    monkeypatch.setattr("crm.leaderboard.bank.run.read_responses", slowly)
    made = build(tmp_path, "author=slow", *words)
    assert made.authors == ("quick", "slow") and made == load_bank(tmp_path / "made")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"query": "Question 0?", "text": "x"}], r"5 of 6 queries have no response: .*\('Question 1\?'\)"),
        ([{"query": "Question 0?"}], r"bad.jsonl:1: output or response or text: missing"),
        (
            [{"query": "Question 0?", "text": text} for text in "xy"],
            r"bad.jsonl:2: text: .* is answered twice, and differently; keep one",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_reported(tmp_path: Path, queries: Path, rows: Any, message: str) -> None:
    bad = write(tmp_path / "bad.jsonl", rows)
    with pytest.raises(ValueError, match=message):
        build(tmp_path, "author=one", f"queries='{queries}'", f"responses='{bad}'")
    assert not (tmp_path / "made" / "bank.json").exists()


def test_queries_need_a_text_and_nothing_else(tmp_path: Path) -> None:
    rows = [{"prompt": "A"}, {"instruction": "B", "id": 0}, {"query": "a "}, {"query": "C", "id": "c"}]
    found = read_queries(write(tmp_path / "q.jsonl", rows))
    assert [(query_of(q.prompt), q.topic) for q in found] == [(text, "untagged") for text in "ABC"]
    assert [q.id for q in found[1:]] == ["0", "c"]
    rows = [{"query_id": given, "query": text, "text": text} for given, text in ((None, "A"), (0, "?"), ("other", "C"))]
    assert [*read_responses(write(tmp_path / "r.jsonl", rows), found).values()] == ["A", "?", "C"]


@pytest.mark.parametrize(
    ("second", "why"),
    [
        ({"query": " "}, "query: blank"),
        ({"query": "B", "id": "a"}, "id: 'a' has two queries"),
        ({"query": "a ", "id": "b"}, "id: 'b' has the query of 'a'"),
        ({"query": "B", "id": ["b"]}, "id: expected a whole number or a non-blank text"),
    ],
)
def test_a_bad_query_is_named_with_its_line(tmp_path: Path, second: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=rf"q.jsonl:2: {why}"):
        read_queries(write(tmp_path / "q.jsonl", [{"query": "A", "id": "a"}, second]))


ALPACA = {"instruction": "Question {n}?", "input": "", "output": "answer {n}", "text": "Task. Question {n}? answer {n}"}


@pytest.mark.parametrize(
    "columns",
    [
        ALPACA,
        {"query": "Question {n}?", "text": " ", "response": "answer {n}", "output": None},
        {"prompt": "Question {n}?", "output": "answer {n}"},
    ],
)
def test_the_response_is_the_column_that_answers(tmp_path: Path, queries: Path, columns: dict[str, Any]) -> None:
    asked = read_queries(queries)
    rows = [{k: v and v.replace("{n}", str(n)) for k, v in columns.items()} for n in range(6)]
    found = read_responses(write(tmp_path / "r.jsonl", rows), asked)
    assert {query_of(q.prompt): found[q.id] for q in asked} == {f"Question {n}?": f"answer {n}" for n in range(6)}


def test_an_endpoint_is_asked_for_what_is_missing_and_no_more(tmp_path: Path, queries: Path, caplog: Any) -> None:
    with repeating_endpoint(refused_once="4") as (address, asked):
        words = ("author=m", f"queries='{queries}'", f"endpoint.base_url={address}", "endpoint.model=m")
        with pytest.raises(ValueError, match=r"endpoint: 1 of 6 queries have no response: .*Question 4"):
            build(tmp_path, *words)
        assert "1 queries without a response: rejected, such as: status 400" in caplog.text
        made = build(tmp_path, *words)
    assert set(made.responses["m"].values()) == {f"re: {row['query']}" for row in QUERIES}
    assert asked == {row["query"]: 2 if "4" in row["query"] else 1 for row in QUERIES}


def thinking(text: str) -> str:
    return f"<think>\nWhat is {text}\n</think>\n\nre: {text}"


def test_thoughts_are_no_part_of_a_response(tmp_path: Path, queries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crm.endpoint.client.ChatClient.call", lambda _, turns: Reply(thinking(turns[-1].content)))
    words = (f"queries='{queries}'", "endpoint.base_url=http://127.0.0.1:9/v1", "endpoint.model=m")
    made = build(tmp_path, "author=m", *words)
    expected = {f"re: {row['query']}" for row in QUERIES}
    assert set(made.responses["m"].values()) == expected and load_bank(tmp_path / "made") == made
    file = write(tmp_path / "o.jsonl", [{"query": row["query"], "text": thinking(row["query"])} for row in QUERIES])
    assert set(build(tmp_path, "author=o", f"responses='{file}'").responses["o"].values()) == expected
