"""Every adapter gives the judge the same records for the same conversation: TRL, verl, OpenRLHF and the server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from fastapi.testclient import TestClient

from crm.judges import Asked, Reading
from crm.judges.controls import LengthJudge
from crm.rewards.rl import grpo_reward, openrlhf_reward, verl_reward
from tests.rewards.server.serving import app_of

CHATML = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n{}"
TWO = ["Keeps it brief", "Sounds formal"]


class Recorder(LengthJudge):
    """Keeps criteria, prompt and response of what it read last."""

    seen: tuple[Any, ...]

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, _ in comparisons:
            sides = ([(turn.role, turn.content) for turn in turns] for turns in (row.prompt, row.response_a))
            self.seen = (row.criteria, *sides)
        yield from super().read(comparisons)


def by_trl(judge: Recorder, criteria: Any, begun: str, written: str) -> None:
    prompt = [{"role": "user", "content": "Why?"}]
    prompt += [{"role": "assistant", "content": begun}] if begun else []
    completion = [{"role": "assistant", "content": written}]
    grpo_reward(judge)([prompt], [completion], criteria=[criteria])


def by_verl(judge: Recorder, criteria: Any, begun: str, written: str) -> None:
    prompt = [{"role": "user", "content": "Why?"}]
    prompt += [{"role": "assistant", "content": begun}] if begun else []
    verl_reward(judge)("d", written, None, {"criteria": criteria, "prompt": prompt})


def by_openrlhf(judge: Recorder, criteria: Any, begun: str, written: str) -> None:
    prompt = CHATML.format("Why?", begun)
    openrlhf_reward(judge)([f"{prompt}{written}<|im_end|>\n"], [prompt], [json.dumps({"criteria": criteria})])


def by_get_reward(judge: Recorder, criteria: Any, begun: str, written: str) -> None:
    prompt = CHATML.format("Why?", begun)
    label = json.dumps({"criteria": criteria})
    body = {"query": [f"{prompt}{written}<|im_end|>\n"], "prompts": [prompt], "labels": [label]}
    with TestClient(app_of(judge)) as http:
        answer = http.post("/get_reward", json=body)
    assert answer.status_code == 200, answer.text


def by_v1(judge: Recorder, criteria: Any, begun: str, written: str) -> None:
    group = {"criteria": criteria, "messages": [{"role": "user", "content": "Why?"}], "responses": [begun + written]}
    with TestClient(app_of(judge)) as http:
        answer = http.post("/v1/score", json={"groups": [group]})
    assert answer.status_code == 200, answer.text


ADAPTERS = (by_trl, by_verl, by_openrlhf, by_get_reward)
Adapter = Callable[[Recorder, Any, str, str], None]


@pytest.mark.parametrize("adapter", [*ADAPTERS, by_v1])
@pytest.mark.parametrize(
    ("given", "read"),
    [
        (TWO, TWO),
        (json.dumps(TWO), TWO),
        (" " + json.dumps(["Écrit en français"]), ["Écrit en français"]),
        ("Keeps it brief\nSounds formal", TWO),
        ("Keeps it brief; Sounds formal", TWO),
        ("Cites [1] sources", ["Cites [1] sources"]),
        ("[]", ["Prefers the response that most people would find better."]),
    ],
)
def test_criteria_are_read_as_a_cell_of_a_table(adapter: Adapter, given: Any, read: list[str]) -> None:
    judge = Recorder()
    adapter(judge, given, "", "So.")
    assert judge.seen == (tuple(read), [("user", "Why?")], [("assistant", "So.")])


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize(
    ("begun", "written", "response"),
    [
        ("Well, ", "so.", "Well, so."),
        ("<think>\n\n</think>\n\n", "So.", "So."),
        ("", "<think>\n\n</think>\n\nSo.", "So."),
        ("<think>\n", "</think>\nSo.", "So."),
        ("", "<think>hm</think>So.", "<think>hm</think>So."),
        ("", "So <think></think>.", "So <think></think>."),
        ("", "<s>old</s>", "<s>old</s>"),
        ("", "Close it with </s>", "Close it with </s>"),
        ("", " So. \n", " So. \n"),
    ],
)
def test_a_begun_response_is_joined_and_an_empty_thought_is_none_of_it(
    adapter: Adapter, begun: str, written: str, response: str
) -> None:
    judge = Recorder()
    adapter(judge, TWO, begun, written)
    assert judge.seen == (tuple(TWO), [("user", "Why?")], [("assistant", response)])


@pytest.mark.parametrize("written", ["So.", "<think>\n</think>\n\nSo."])
def test_a_templated_text_of_classify_is_read_the_same(written: str) -> None:
    judge = Recorder()
    with TestClient(app_of(judge)) as http:
        assert http.post("/classify", json={"input": CHATML.format("Why?", written)}).status_code == 200
    assert judge.seen[1:] == ([("user", "Why?")], [("assistant", "So.")])


def test_a_prompt_that_is_only_the_begun_response_is_refused_with_its_row() -> None:
    with pytest.raises(ValueError, match="prompt, row 0: holds no turn before the response"):
        grpo_reward(Recorder())([[{"role": "assistant", "content": "Well, "}]], ["so."], criteria=[TWO])


def test_chatml_in_a_plain_prompt_of_trl_is_text() -> None:
    judge = Recorder()
    grpo_reward(judge)([CHATML.format("Why?", "")], ["So."], criteria=[TWO])
    assert judge.seen[1] == [("user", CHATML.format("Why?", ""))]


HALF = "half a character: \ud83d"


@pytest.mark.parametrize("text", [HALF])
def test_half_a_character_of_a_policy_has_no_reward(text: str) -> None:
    rewards = grpo_reward(LengthJudge(), standardize=False)(["q?"] * 2, [text, "ok"], criteria=[TWO] * 2)
    assert rewards[0] is None and rewards[1] is not None
    turns = [[{"role": "assistant", "content": text}]]
    assert grpo_reward(LengthJudge())([[{"role": "user", "content": "q?"}]], turns, criteria=[TWO]) == [None]
    sample = {"criteria": TWO, "prompt": "q?"}
    assert verl_reward(LengthJudge(), failed_reward=-4.0)("d", text, None, sample) == {"score": -4.0, "failed": 1}
    with pytest.raises(ValueError, match=r"holds? half a character"):
        verl_reward(LengthJudge())("d", text, None, sample)
    found = openrlhf_reward(LengthJudge(), failed_reward=-4.0)([f"P{text}"], ["P"], [json.dumps(sample)])
    assert (found["rewards"].item(), found["extra_logs"]["failed"].item()) == (-4.0, 1.0)


@pytest.mark.parametrize(
    ("columns", "named"),
    [({"criteria": [[HALF]]}, r"criteria, row 0\[0\]"), ({"criteria": [TWO], "asked": [HALF]}, "prompt, row 0")],
)
def test_and_one_in_the_data_set_is_named(columns: dict[str, Any], named: str) -> None:
    reward = grpo_reward(LengthJudge(), prompt="asked" if "asked" in columns else None)
    with pytest.raises(ValueError, match=f"{named}: holds a lone surrogate"):
        reward(["q?"], ["ok"], **columns)
