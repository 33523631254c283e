"""The parity command names what a server did to the rewards: fake servers apply each."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from scipy.special import expit

from crm.judges import CrmJudge
from crm.judges.crm_judge import open_checkpoint
from crm.model.export import export_model
from crm.rewards import parity
from tests.rewards.server.serving import serve


@pytest.fixture(scope="module")
def folder(make_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("model")
    model = make_model("scalar")
    torch.nn.init.normal_(model.score.weight, std=1, generator=torch.Generator().manual_seed(1))
    export_model(model, tokenizer, made, {"max_length": 2048})
    return made


@pytest.fixture(scope="module")
def judge(folder: Path) -> CrmJudge:
    return open_checkpoint(folder, batch_size=4, precision="32-true")[0]


def test_the_built_in_rows_are_27_and_their_rewards_differ(judge: CrmJudge) -> None:
    rewards = parity.of_folder(judge)
    assert rewards.shape == (27,) and np.isfinite(rewards).all() and len(set(rewards.round(4))) == 27


@pytest.mark.parametrize(
    ("done", "same", "said"),
    [
        (lambda rewards: rewards + 1e-3, True, "the same rewards: at most 0.001 apart in 27"),
        (expit, False, "a sigmoid"),
        (np.ones_like, False, "a softmax over one label"),
        (lambda rewards: (rewards - 0.4) / 2, False, "scaled and shifted: 0.5 x reward + -0.2"),
        (lambda rewards: -rewards, False, "scaled and shifted: -1 x reward"),
        (lambda rewards: rewards[::-1], False, "other numbers"),
        (lambda rewards: np.where(rewards > np.median(rewards), np.nan, rewards), False, "have no number"),
        (lambda rewards: rewards[:9], False, "9 numbers for 27"),
    ],
)
def test_what_was_done_to_the_rewards_is_named(judge: CrmJudge, done: Any, same: bool, said: str) -> None:
    ours = parity.of_folder(judge) * 3
    found, words = parity.verdict(ours, done(ours))
    assert (found is same and words.startswith(said)) or said in words, words


@pytest.mark.parametrize("route", ["classify", "pooling"])
@pytest.mark.parametrize(("activation", "code"), [(lambda x: x, 0), (expit, 1), (np.ones_like, 1)])
def test_a_server_with_an_activation_is_found_by_the_command(
    folder: Path, judge: CrmJudge, route: str, activation: Any, code: int, monkeypatch: Any, capsys: Any
) -> None:
    ours = parity.of_folder(judge)
    field = "probs" if route == "classify" else "data"

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == f"/{route}" and b'"use_activation":false' in request.content.replace(b" ", b"")
        rows = [{"index": place, field: [float(number)]} for place, number in enumerate(activation(ours))]
        return httpx.Response(200, json={"data": rows[::-1]})

    made = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **given: made(**given | {"transport": httpx.MockTransport(answer)}))
    assert parity.main([str(folder), "http://fake", "--route", route]) == code
    words = capsys.readouterr().out
    named = {0: "the same rewards"}.get(code, "a sigmoid" if activation is expit else "a softmax")
    assert words.startswith(named)


@pytest.mark.parametrize("route", ["score", "classify", "pooling"])
def test_our_server_says_what_the_folder_says(folder: Path, judge: CrmJudge, route: str, capsys: Any) -> None:
    with serve(judge) as address:
        assert parity.main([str(folder), address, "--route", route]) == 0, capsys.readouterr()


def test_a_mistake_is_one_sentence(folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert parity.main([str(tmp_path), "http://127.0.0.1:9"]) == 2
    assert parity.main([str(folder), "http://127.0.0.1:9", "--route", "classify"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 2 and all(line.startswith("crm.rewards.parity: ") for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("vllm") is None or not torch.cuda.is_available(), reason="needs vLLM and a GPU"
)
def test_vllm_says_what_the_folder_says(folder: Path, judge: CrmJudge) -> None:
    from vllm import LLM

    texts = parity.texts_of(judge)
    outputs = LLM(str(folder), runner="pooling", max_model_len=512).encode(texts, pooling_task="classify")
    theirs = np.array([float(np.ravel(output.outputs.data.cpu())[-1]) for output in outputs])
    same, words = parity.verdict(parity.of_folder(judge), theirs)
    assert same, words
