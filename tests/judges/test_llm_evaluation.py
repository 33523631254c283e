"""``evaluate.py judge=llm`` as a user meets it: an endpoint that prefers length is the length judge, and mistakes."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.schema import Result

KEY = "sk-very-secret-456"
SMALL = ("data.train=8", "data.validation=4", "data.suite=8", "suite.names=[D+,D-]", "progress=false")


def evaluate(folder: Path, judge: str, *overrides: str) -> dict[tuple[str, str], Result]:
    given = [f"judge={judge}", f"predictions='{folder / 'predictions'}'", *SMALL, *overrides]
    results = run_evaluation(compose("evaluate", given, folder / judge), show=False)
    return {(row.suite, row.metric): row for row in results}


def at(chat: Any, *overrides: str) -> tuple[str, ...]:
    return f"judge.base_url={chat.url}", "judge.model=tiny-judge", "judge.attempts=1", *overrides


def words(turns: list[dict[str, str]]) -> int:
    return sum(len(turn["content"].split()) for turn in turns)


def longer(material: dict[str, Any]) -> str:
    return "A" if words(material["response_a"]) > words(material["response_b"]) else "B"


@pytest.fixture
def prefers_length(chat: Any, completion_of: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CRM_API_KEY", KEY)
    chat.answer = lambda material, _body: completion_of(f"It is longer.\nVerdict: {longer(material)}")
    return chat


@pytest.mark.slow
def test_a_model_that_prefers_length_is_the_length_judge(
    prefers_length: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        found, expected = evaluate(tmp_path, "llm", *at(prefers_length)), evaluate(tmp_path, "length")
    for name in [("D+", "accuracy"), ("D-", "accuracy"), ("D", "accuracy_sum")]:
        assert (found[name].value, found[name].n) == (expected[name].value, expected[name].n)
    assert 0 < found["D+", "accuracy"].value < 1
    assert found["D+", "failure_rate"].value == 0 and found["D+", "tokens"].value == 2 * 42
    assert found["D+", "accuracy"].config.startswith("llm tiny-judge on ")
    run = json.loads((tmp_path / "llm" / "results.json").read_text())["run"]
    assert (run["judge"], run["left_out"]) == ("llm tiny-judge", {"D+": 0, "D-": 0})
    assert run["judge_digest"].startswith("llm-") and len(run["prompt_digest"]) == 16

    asked = len(prefers_length.bodies)
    evaluate(tmp_path / "other", "llm", *at(prefers_length), f"predictions='{tmp_path / 'predictions'}'")
    assert len(prefers_length.bodies) == asked, "all was there"
    assert prefers_length.keys == {f"Bearer {KEY}"}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "llm_replies.sqlite" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()] and KEY not in caplog.text


@pytest.mark.slow
def test_failures_are_counted_and_what_got_no_reply_is_asked_again(
    prefers_length: Any, completion_of: Any, tmp_path: Path
) -> None:
    def answer(material: dict[str, Any], _body: Any) -> Any:
        place = len(prefers_length.bodies)
        if place % 4 == 0:
            return 500, {}, "{}"
        return completion_of("Answer B is better" if place % 4 == 1 else f"Verdict: {longer(material)}")

    prefers_length.answer = answer
    settings = at(prefers_length, "judge.concurrency=1")
    first = evaluate(tmp_path, "llm", *settings)
    run = json.loads((tmp_path / "llm" / "results.json").read_text())["run"]
    asked = len(prefers_length.bodies)
    assert sum(run["left_out"].values()) == asked // 4 > 0
    assert first["D+", "failure_rate"].value > 0
    prefers_length.answer = lambda material, _body: completion_of(f"Verdict: {longer(material)}")
    evaluate(tmp_path, "llm", *settings)
    assert len(prefers_length.bodies) == asked + asked // 4, "those without a reply, not those without a verdict"


def test_an_endpoint_that_is_down_is_told(prefers_length: Any, tmp_path: Path) -> None:
    prefers_length.answer = lambda _material, _body: (503, {}, "{}")
    with pytest.raises(ValueError, match=r"judge=llm: all \d+ readings are left out \(unanswered\)"):
        evaluate(tmp_path, "llm", *at(prefers_length))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("judge.model=x",), "judge.base_url=None"),
        (("judge.model=x", "judge.base_url=nowhere"), "judge: base_url: not an address"),
        (("judge.model=x", "judge.base_url=http://127.0.0.1:9/v1", "judge.key_variable=NOT_SET"), "judge.key_variable"),
        (("judge.model=x", "judge.base_url=http://127.0.0.1:9/v1", "judge.verdict=words"), "judge.verdict"),
    ],
)
def test_a_wrong_setting_is_told_before_data_are_read(
    overrides: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.evaluation.run.load_data", lambda **_: pytest.fail("read the data first"))
    with pytest.raises(ValueError) as refused:
        evaluate(tmp_path, "llm", *overrides)
    assert said in str(refused.value)
