"""What trainers send and get, replayed from recorded shapes: the same keys, the same types, the reward itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.rewards.server.serving import LONG, OnlyCompares, WordJudge, app_of, log_words

SHAPES = sorted((Path(__file__).parent / "shapes").glob("*.json"))
CHATML = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n{}<|im_end|>"


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient]:
    with TestClient(app_of(WordJudge())) as client:
        yield client


def shape(value: Any) -> Any:
    """Keys and types, and of a list the shapes of its items."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for key, item in value.items() if key != "created" for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, int | float) else []


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.stem)
def test_a_recorded_request_gets_the_recorded_answer(http: TestClient, path: Path) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8"))
    answer = http.post(recorded["path"], json=recorded["request"])
    assert answer.status_code == 200, answer.text
    assert shape(answer.json()) == shape(recorded["answer"])
    assert numbers(answer.json()) == pytest.approx(numbers(recorded["answer"]))
    assert answer.headers["X-Model-Digest"] == "length-words-2"


def test_every_tool_is_recorded() -> None:
    assert [path.stem for path in SHAPES] == [
        "openrlhf_get_reward",
        "personalized_rewardbench_score",
        "verl_classify",
        "vllm_classify_messages",
        "vllm_pooling",
    ]


@pytest.mark.parametrize("use_activation", [True, False, None])
def test_an_activation_that_is_asked_for_changes_nothing(http: TestClient, use_activation: bool | None) -> None:
    answer = http.post("/classify", json={"input": CHATML.format("a b"), "use_activation": use_activation}).json()
    assert answer["data"][0]["probs"] == [log_words("a b")]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/classify", {"input": CHATML.format("x " * (LONG + 1))}, r"input\[0\]: cannot be read \(too_long\)"),
        ("/classify", {"input": [CHATML.format("ok"), CHATML.format("nan")]}, r"input\[1\]: cannot be read \(no_ver"),
        ("/classify", {"input": "plain"}, r"input\[0\]: expected a prompt and, as its last turn, the assistant's"),
        ("/classify", {"input": "<s>[INST] Why? [/INST] So."}, r"holds \[INST\] and is not ChatML; send messages"),
        ("/classify", {"input": [1, 2]}, "input: input should be a valid string, got"),
        ("/classify", {}, "input: missing, and there are no messages either"),
        ("/score", {"response_text": "x " * (LONG + 1), "query": "q"}, r"response_text\[0\]: cannot be read \(too_l"),
        ("/score", {"query": "q"}, "response_text: field required"),
        ("/get_reward", {"query": ["ab"], "prompts": ["c"]}, r"query\[0\]: 'ab' does not hold its prompt 'c'"),
        ("/get_reward", {"query": ["a", "b"], "prompts": ["a"]}, "2, 1 and 2 items, expected one of each"),
        ("/get_reward", {"query": ["ab"], "prompts": ["a"], "labels": ["4"]}, r"labels\[0\]: expected JSON such as"),
        ("/get_reward", {"query": ["ab"], "prompts": ["a"], "labels": ['{"wish": 1}']}, r"labels\[0\]: .*wish: extra"),
    ],
)
def test_what_has_no_reward_is_an_error_and_never_a_number(http: TestClient, path: str, body: Any, said: str) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 422 and set(answer.json()) == {"error"}
    assert re.search(said, answer.json()["error"]), answer.text


def test_another_model_than_the_one_that_is_served_is_refused(http: TestClient) -> None:
    for name, status in (("words", 200), ("length-words-2", 200), ("other", 404)):
        assert http.post("/classify", json={"model": name, "input": CHATML.format("a")}).status_code == status


def test_openrlhf_takes_messages_and_anchors_from_labels() -> None:
    label = {"messages": [{"role": "user", "content": "Why?"}], "anchor": "one two", "criteria": ["x"]}
    asked = {"query": ["[INST]Why?[/INST]one two three</s>"], "prompts": ["[INST]Why?[/INST]"]}
    with TestClient(app_of(OnlyCompares())) as http:
        answer = http.post("/get_reward", json=asked | {"labels": [json.dumps(label)]}).json()
        assert answer["rewards"] == pytest.approx([log_words("1 2 3") - log_words("1 2")])
        alone = http.post("/get_reward", json=asked | {"labels": [json.dumps(label | {"anchor": None})]})
        assert alone.status_code == 422 and "this judge only compares" in alone.json()["error"]
