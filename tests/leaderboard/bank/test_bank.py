"""Banks on disk and in memory: what is saved comes back, and what is wrong is named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.leaderboard.bank.bank import Bank, BankQuery, load_bank
from crm.leaderboard.run import run_leaderboard
from crm.schema import Message


def query(key: str, topic: str = "Tea") -> BankQuery:
    return BankQuery(key, (Message("user", f"question {key}"),), topic)


def small() -> Bank:
    queries = (query("q1"), query("q2", "Coffee"), query("q3"))
    return Bank(
        "small", "base", queries, {who: {q.id: f"{who} on {q.id}" for q in queries} for who in ("base", "other")}
    )


def test_a_saved_bank_comes_back_equal(tmp_path: Path) -> None:
    small().save(tmp_path / "deep" / "bank")
    assert load_bank(tmp_path / "deep" / "bank") == small()


def test_selection_keeps_the_queries_of_the_topics() -> None:
    bank = small()
    assert [q.id for q in bank.select(["Tea"]).queries] == ["q1", "q3"]
    assert bank.select(["Tea"]).responses["other"] == {"q1": "other on q1", "q3": "other on q3"}
    assert bank.select([]) == bank.select(["Tea", "Coffee"]) == bank
    assert bank.topics == ("Coffee", "Tea")
    with pytest.raises(ValueError, match="'Cofee' is not in the bank; did you mean 'Coffee'"):
        bank.select(["Cofee"])


WHOLE = {"q1": "x", "q2": "y"}


@pytest.mark.parametrize(
    ("baseline", "ids", "responses", "message"),
    [
        ("a", ("q1", "q2"), {"a": WHOLE, "b": {"q1": "x"}}, r"responses: 'b' lacks 1 of 2 queries \(first: 'q2'\)"),
        ("a", ("q1", "q2"), {"a": WHOLE, "b": WHOLE | {"q9": "z"}}, "'b' answers 'q9', which is not a query"),
        ("c", ("q1", "q2"), {"a": WHOLE}, "baseline: 'c' has no responses in bank 'n'; choose one of a"),
        ("a", ("q1", "q1"), {"a": {"q1": "x"}}, "the id 'q1' occurs twice"),
        ("a", (), {"a": {}}, "queries: the bank holds none"),
    ],
)
def test_impossible_banks_are_errors(baseline: str, ids: Any, responses: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Bank("n", baseline, tuple(map(query, ids)), responses)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("queries", b'{"id": "q4"', r"queries\.jsonl:4: row: not valid JSON"),
        ("queries", b'{"id": "q4", "topic": "Tea"}', r"queries\.jsonl:4: prompt: missing"),
        ("responses", b'{"author": " ", "query_id": "q1", "text": "x"}', r"responses\.jsonl:7: author: .* got ' '"),
        ("responses", b'{"author": "base", "query_id": "q1", "text": "y"}', r":7: query_id: 'base' answers 'q1' twice"),
        ("responses", b'{"author": "new", "query_id": "q1", "text": "x"}', r"responses\.jsonl: .*'new' lacks 2"),
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
