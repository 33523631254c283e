"""Banks on disk and in memory: what is saved comes back, and what is wrong is named with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(text, min_size=1, max_size=4), text)
def test_any_text_survives_the_disk(tmp_path_factory: pytest.TempPathFactory, answers: list[str], content: str) -> None:
    """Line separators that are not newlines, control characters and quotes included."""
    queries = tuple(BankQuery(f"q{i}", (Message("user", content),), "Tea\u2028") for i in range(len(answers)))
    bank = Bank("any", "me", queries, {"me": {f"q{i}": answer for i, answer in enumerate(answers)}})
    folder = tmp_path_factory.mktemp("bank")
    bank.save(folder)
    assert load_bank(folder) == bank


def test_selection_keeps_the_queries_of_the_topics() -> None:
    bank = small()
    assert [q.id for q in bank.select(["Tea"]).queries] == ["q1", "q3"]
    assert bank.select(["Tea"]).responses["other"] == {"q1": "other on q1", "q3": "other on q3"}
    assert bank.select(None) is bank
    assert bank.select(["Tea", "Coffee"]) == bank
    assert bank.topics == ("Coffee", "Tea")
    with pytest.raises(ValueError, match="'Cofee' is not in the bank; did you mean 'Coffee'"):
        bank.select(["Cofee"])
    with pytest.raises(ValueError, match=r"topics: expected a non-empty list, got \[\]"):
        bank.select([])


def test_impossible_banks_are_refused() -> None:
    queries = (query("q1"), query("q2"))
    whole = {"q1": "x", "q2": "y"}
    with pytest.raises(ValueError, match=r"responses: 'b' lacks 1 of 2 queries \(first: 'q2'\)"):
        Bank("n", "a", queries, {"a": whole, "b": {"q1": "x"}})
    with pytest.raises(ValueError, match="'b' answers 'q9', which is not a query"):
        Bank("n", "a", queries, {"a": whole, "b": whole | {"q9": "z"}})
    with pytest.raises(ValueError, match="baseline: 'c' has no responses in bank 'n'; choose one of a"):
        Bank("n", "c", queries, {"a": whole})
    with pytest.raises(ValueError, match="the id 'q1' occurs twice"):
        Bank("n", "a", (query("q1"), query("q1")), {"a": {"q1": "x"}})
    with pytest.raises(ValueError, match="queries: the bank holds none"):
        Bank("n", "a", (), {"a": {}})
    with pytest.raises(ValueError, match="name: expected non-blank text, got ' '"):
        Bank(" ", "a", queries, {"a": whole})
    with pytest.raises(ValueError, match="responses: expected non-blank text, got None"):
        Bank("n", "a", queries, {"a": whole, None: whole})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="responses: 'a' on 'q2': expected text, got 3"):
        Bank("n", "a", queries, {"a": {"q1": "x", "q2": 3}})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="topic: expected non-blank text"):
        query("q1", " ")


@pytest.mark.parametrize("bad", ["\ud800"])
def test_a_bank_refuses_in_memory_what_no_file_brings_back(bad: str) -> None:
    queries, why = (query("q1"),), "holds a lone surrogate"
    for make, field in (
        (lambda: Bank(bad, "a", queries, {"a": {"q1": "x"}}), "name"),
        (lambda: Bank("n", bad, queries, {bad: {"q1": "x"}}), "baseline"),
        (lambda: Bank("n", "a", queries, {"a": {"q1": "x"}, bad: {"q1": "x"}}), "responses"),
        (lambda: Bank("n", "a", queries, {"a": {"q1": bad}}), "responses: 'a' on 'q1'"),
        (lambda: query(bad), "id"),
        (lambda: query("q1", bad), "topic"),
        (lambda: BankQuery("q1", (Message("user", bad),), "Tea"), r"prompt\[0\]\.content"),
    ):
        with pytest.raises(ValueError, match=f"^{field}: ({why})"):
            make()


def test_saving_replaces_a_bank_in_whole_files_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        Bank("other", "a", (query("q1"),), {"a": {"q1": "x"}}).save(tmp_path)
    assert load_bank(tmp_path) == small()
    assert len(list(tmp_path.iterdir())) == 3


def append(name: str, line: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        path.write_bytes(path.read_bytes() + line)

    return spoil


def write(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (append("queries.jsonl", b'{"id": "q4"\n'), r"queries\.jsonl:4: row: not valid JSON"),
        (
            append("queries.jsonl", b'{"id": "q4", "topic": "Tea"}\n'),
            r"queries\.jsonl:4: row: expected exactly the fields id, prompt, topic; found id, topic",
        ),
        (
            append("queries.jsonl", b'{"id": "q4", "prompt": "hi", "topic": "Tea"}\n'),
            r"queries\.jsonl:4: prompt: expected a valid list",
        ),
        (
            append("queries.jsonl", b'{"id": "q1", "prompt": [{"role": "user", "content": "x"}], "topic": "Tea"}\n'),
            r"queries\.jsonl:4: id: 'q1' is already on line 1; give each query its own",
        ),
        (append("responses.jsonl", b"\xff\xfe\n"), r"responses\.jsonl:7: row: not valid JSON in UTF-8"),
        (append("responses.jsonl", b"[" * 100_000), r"responses\.jsonl:7: row: not valid JSON"),
        (append("responses.jsonl", b"\n{}\n"), r"responses\.jsonl:7: row: blank line"),
        (
            append("responses.jsonl", b'{"author": "base", "query_id": "q1", "text": "\\ud800"}\n'),
            r"responses\.jsonl:7: row: not valid JSON",
        ),
        (
            append("responses.jsonl", b'{"author": " ", "query_id": "q1", "text": "x"}\n'),
            r"responses\.jsonl:7: author: expected non-blank text, got ' '",
        ),
        (
            append("responses.jsonl", b'{"author": "base", "query_id": "q1", "text": null}\n'),
            r"responses\.jsonl:7: text: expected text, got None",
        ),
        (
            append("responses.jsonl", b'{"author": "base", "query_id": "q1", "text": "again"}\n'),
            r"responses\.jsonl:7: query_id: 'base' answers 'q1' twice",
        ),
        (
            append("responses.jsonl", b'{"author": "new", "query_id": "q1", "text": "x"}\n'),
            r"responses\.jsonl: .*'new' lacks 2",
        ),
        (append("bank.json", b"}"), r"bank\.json: row: not valid JSON"),
        (write("bank.json", b"[1]"), r"bank\.json: row: expected exactly the fields name, baseline; found list"),
        (
            write("bank.json", b'{"name": null, "baseline": "base"}'),
            r"bank\.json: name: expected non-blank text, got N",
        ),
        (write("bank.json", b'{"name": "n", "baseline": NaN}'), r"bank\.json: row: not valid JSON"),
        (
            write("bank.json", b'{"name": "n", "baseline": "x"}'),
            r"bank\.json: baseline: 'x' has no responses in bank 'n'",
        ),
        (write("queries.jsonl", b""), r"queries\.jsonl: queries: the bank holds none"),
        (lambda folder: (folder / "queries.jsonl").unlink(), r"queries\.jsonl: no such file; a bank is"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    small().save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ValueError, match=message):
        load_bank(tmp_path)


def test_windows_line_ends_marks_and_blank_lines_are_read(tmp_path: Path) -> None:
    small().save(tmp_path)
    path = tmp_path / "responses.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert load_bank(tmp_path) == small()


def test_files_are_plain_readable_json(tmp_path: Path) -> None:
    Bank("tee", "a", (query("q1", "Tee & Kräuter"),), {"a": {"q1": "grün"}}).save(tmp_path)
    head = json.loads((tmp_path / "bank.json").read_text("utf-8"))
    assert head.pop("seal").startswith("2-") and head == {"name": "tee", "baseline": "a"}
    assert "Kräuter" in (tmp_path / "queries.jsonl").read_text("utf-8")
    assert "grün" in (tmp_path / "responses.jsonl").read_text("utf-8")


def test_a_bank_with_nobody_to_rank_says_so_before_anything_is_read(tmp_path: Path) -> None:
    Bank("lonely", "base", (query("q1"),), {"base": {"q1": "x"}}).save(tmp_path / "bank")
    settings = ["judge=length", "bank=folder", f"bank.path={tmp_path / 'bank'}", f"predictions={tmp_path / 'kept'}"]
    with pytest.raises(ValueError, match=r"bank 'lonely': holds the responses of 'base' alone; add another model"):
        run_leaderboard(compose("leaderboard", settings, tmp_path / "run"))
    assert not (tmp_path / "kept").exists()
