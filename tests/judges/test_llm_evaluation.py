"""``evaluate.py judge=llm`` as a user meets it: an endpoint that prefers length is the length judge, and mistakes."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.schema import Result
from tests.conftest import Command
from tests.endpoint.fake_endpoint import Answer, chat_endpoint, completion
from tests.made_files import bank_of

KEY = "sk-very-secret-456"
SMALL = ("data.train=8", "data.validation=4", "data.suite=8", "suite=[D+,D-]", "progress=false")


def evaluate(folder: Path, judge: str, *overrides: str) -> dict[tuple[str, str], Result]:
    given = [f"judge={judge}", f"predictions='{folder / 'predictions'}'", *SMALL, *overrides]
    results = run_evaluation(compose("evaluate", given, folder / judge), show=False)
    return {(row.suite, row.metric): row for row in results}


def words(turns: list[dict[str, str]]) -> int:
    return sum(len(turn["content"].split()) for turn in turns)


def longer(material: dict[str, Any]) -> str:
    return "A" if words(material["response_a"]) > words(material["response_b"]) else "B"


class Chat:
    """``answer(material)`` decides each reply; ``material`` is the JSON object of the user's turn."""

    def __init__(self) -> None:
        self.answer: Callable[[dict[str, Any]], Answer] = says_longer
        self.count, self.keys, self.url = 0, set[str](), ""

    def reply(self, body: dict[str, Any], headers: dict[str, str]) -> Answer:
        self.count += 1
        self.keys.add(headers["authorization"])
        return self.answer(json.loads(body["messages"][-1]["content"]))


def at(chat: Chat, *overrides: str) -> tuple[str, ...]:
    return f"judge.base_url={chat.url}", "judge.model=tiny-judge", "judge.attempts=1", *overrides


def says_longer(material: dict[str, Any]) -> Answer:
    return completion(f"It is longer.\nVerdict: {longer(material)}")


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chat]:
    """An endpoint that prefers length."""
    monkeypatch.setenv("CRM_API_KEY", KEY)
    made = Chat()
    with chat_endpoint(made.reply) as made.url:
        yield made


@pytest.mark.slow
def test_a_model_that_chat_is_the_length_judge(chat: Chat, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Also where it thinks of the other verdict first."""
    other = {"A": "B", "B": "A"}

    def answer(material: dict[str, Any]) -> Answer:
        verdict = longer(material)
        return completion(f"<think>\nVerdict: {other[verdict]}\nNo.\n</think>\n\nVerdict: {verdict}")

    chat.answer = answer
    with caplog.at_level(logging.DEBUG):
        found, expected = evaluate(tmp_path, "llm", *at(chat)), evaluate(tmp_path, "length")
    for name in [("D+", "accuracy"), ("D-", "accuracy"), ("D", "accuracy_sum")]:
        assert (found[name].value, found[name].n) == (expected[name].value, expected[name].n)
    assert found["D+", "failure_rate"].value == 0 and found["D+", "tokens"].value == 2 * 42
    run = json.loads((tmp_path / "llm" / "results.json").read_text())["run"]
    assert (run["judge"], run["left_out"]) == ("llm tiny-judge", {"D+": 0, "D-": 0})

    asked = chat.count
    evaluate(tmp_path / "other", "llm", *at(chat), f"predictions='{tmp_path / 'predictions'}'")
    assert chat.count == asked, "all was there"
    assert chat.keys == {f"Bearer {KEY}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "llm_replies.sqlite" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()] and KEY not in caplog.text


@pytest.mark.slow
def test_failures_are_counted_and_what_got_no_reply_is_asked_again(chat: Chat, tmp_path: Path) -> None:
    def answer(material: dict[str, Any]) -> Answer:
        place = chat.count
        if place % 5 == 0:
            return 500, "{}"
        return completion("Answer B is better" if place % 5 == 1 else f"Verdict: {longer(material)}")

    chat.answer = answer
    settings = at(chat, "judge.concurrency=1")
    first = evaluate(tmp_path, "llm", *settings)
    run = json.loads((tmp_path / "llm" / "results.json").read_text())["run"]
    asked = chat.count
    assert sum(run["left_out"].values()) == asked // 5 > 0
    caption = (tmp_path / "llm" / "suites.md").read_text().splitlines()[0]
    assert re.search(r"; [1-9]\d* readings left out", caption)
    assert first["D+", "failure_rate"].value > 0
    chat.answer = says_longer
    evaluate(tmp_path, "llm", *settings)
    assert chat.count == asked + asked // 5, "those without a reply, not those without a verdict"


def test_a_wrong_setting_is_named_before_data_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crm.evaluation.run.load_data", lambda *_, **__: pytest.fail("read the data first"))
    words = ("judge.model=x", "judge.base_url=http://127.0.0.1:9/v1", "judge.key_variable=NOT_SET")
    with pytest.raises(ValueError, match=r"judge\.key_variable"):
        evaluate(tmp_path, "llm", *words)


def test_a_judge_without_any_verdict_has_no_table(chat: Chat, tmp_path: Path) -> None:
    """One without a verdict in one of two orders has none for the comparison."""
    chat.answer = lambda material: completion("Verdict: A" if longer(material) == "A" else "both are good")
    with pytest.raises(ValueError, match=r"judge=llm: no comparison has a verdict \(\d+ readings: no_verdict \d+\)"):
        evaluate(tmp_path / "x", "llm", *at(chat))
    assert not (tmp_path / "x" / "llm" / "suites.md").exists()


def test_a_leaderboard_of_a_judge_that_is_down_now_and_then_ends_with_exit_code_2(
    chat: Chat, tmp_path: Path, command: Command
) -> None:
    """It ranks on what was answered for all, says what is missing everywhere, and the same command completes it."""
    good = "many more words than the others have"
    texts = {"base": "two words", "ok": "three words here", "good": lambda n: f"{good} FLAKY" if n < 4 else good}
    bank_of(texts, "t" * 10).save(tmp_path / "bank")

    def answer(material: dict[str, Any]) -> Answer:
        down = "FLAKY" in json.dumps(material)
        return (503, "{}") if down else completion(f"Verdict: {longer(material)}")

    chat.answer = answer
    words = ["judge=llm", *at(chat), "bank=folder", f"bank.path='{tmp_path / 'bank'}'", "progress=false"]
    words += [f"predictions='{tmp_path / 'kept'}'", f"hydra.run.dir='{tmp_path / 'run'}'", "criteria=[x]"]
    missing = "4 comparisons got no answer and are not known (good 4)"
    code, _, shown = command("leaderboard", *words)
    assert code == 2 and missing in shown and shown.endswith("; the same command asks for what is missing\n")
    for name in ("leaderboard", "bradley_terry"):
        head, *_ = (tmp_path / "run" / f"{name}.md").read_text().splitlines()
        assert missing in head and "n = 6" in head
    rows = (tmp_path / "run" / "leaderboard.csv").read_text().splitlines()[2:]
    assert [row.split(",")[2] for row in rows] == ["good", "ok", "base"]
    assert json.loads((tmp_path / "run" / "criteria.json").read_text())["unanswered"] == {"good": 4}
    chat.answer = says_longer
    asked = chat.count
    assert command("leaderboard", *words)[0] == 0 and chat.count == asked + 8
    assert "got no answer" not in (tmp_path / "run" / "leaderboard.md").read_text()
