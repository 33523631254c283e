"""verl and OpenRLHF: the files of docs/reinforcement_learning.md, loaded and called as these trainers do it."""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crm.judges.controls import LengthJudge
from crm.model.export import export_model
from crm.rewards.rl import openrlhf_reward, verl_reward
from tests.rewards.rl.judges import OnlyCompares, ShortOnly
from tests.test_docs import DOCS, example

PAGE = DOCS["reinforcement_learning.md"]
ASKED = "Why is the sky blue?"


def loaded(name: str, make_model: Any, tokenizer: Any, folder: Path) -> Any:
    """A file of the page, as `load_module` of verl and `SingleTurnAgentExecutor` of OpenRLHF load it."""
    export_model(make_model("scalar"), tokenizer, folder / "model", {"max_length": 2048})
    code = example(PAGE, f"example: {name}").replace('"model/"', repr(str(folder / "model")))
    (folder / "reward.py").write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("custom_module_1", folder / "reward.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scored(compute_score: Any, answer: str, **extra: Any) -> Any:
    """As `NaiveRewardManager.run_single` does: everything by name; of a Parquet file lists are arrays."""
    info = {"criteria": np.array(["likes words"], dtype=object), "prompt": ASKED, "num_turns": 2} | extra
    return compute_score(data_source="x", solution_str=answer, ground_truth="", extra_info=info)


def test_verl_loads_the_file_and_gets_a_score(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    compute_score = loaded("verl", make_model, tokenizer, tmp_path).compute_score
    assert not inspect.iscoroutinefunction(compute_score)  # verl runs it in a thread
    found = scored(compute_score, "Because of the air.", reward_router_address=None)
    assert list(found) == ["score", "failed"]
    assert type(found["score"]) is float and found["failed"] == 0
    turns = np.array([{"role": "user", "content": ASKED}], dtype=object)
    assert scored(compute_score, "Because of the air.", prompt=turns) == found
    assert scored(compute_score, "Because of the air.", criteria="hates words") != found


def test_what_verl_gets_of_a_failure_has_the_same_keys_and_nobody_makes_it_up() -> None:
    said = scored(verl_reward(ShortOnly(), failed_reward=-3.0), "word " * 3)
    assert said == {"score": math.log(4), "failed": 0}
    assert scored(verl_reward(ShortOnly(), failed_reward=-3.0), "word " * 9) == {"score": -3.0, "failed": 1}
    with pytest.raises(ValueError, match=r"gave it no reward .* failed_reward="):
        scored(verl_reward(ShortOnly()), "word " * 9)
    with pytest.raises(ValueError, match="extra_info: has no 'criteria'"):
        verl_reward(LengthJudge())("x", "word", "", {"prompt": ASKED})


def test_a_judge_that_only_compares_has_an_anchor() -> None:
    assert scored(verl_reward(OnlyCompares()), "word " * 3, anchor="one two")["score"] == pytest.approx(math.log(4 / 3))
    with pytest.raises(ValueError, match="anchor: this judge only compares"):
        scored(verl_reward(OnlyCompares()), "word " * 3)


RENDERED = f"<|im_start|>user\n{ASKED}<|im_end|>\n<|im_start|>assistant\n"
LABEL = {"criteria": ["likes words"], "prompt": ASKED}


def test_openrlhf_loads_the_file_and_gets_rewards(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    reward_func = loaded("openrlhf", make_model, tokenizer, tmp_path).reward_func
    answer = "Because of the air."
    found = reward_func([f"{RENDERED}{answer}<|im_end|>"], [RENDERED], [json.dumps(LABEL)])  # positional, one item
    assert sorted(found) == ["extra_logs", "rewards", "scores"]
    assert found["extra_logs"]["failed"].flatten()[0].item() == 0
    compute_score = verl_reward(tmp_path / "model")
    # What OpenRLHF makes of them: `torch.tensor([reward_val])` needs tensors of one number.
    assert torch.tensor([found["rewards"]]).item() == pytest.approx(scored(compute_score, answer)["score"], abs=1e-6)
    assert 0 <= torch.tensor([found["scores"]]).item() <= 1


def test_openrlhf_reads_the_response_alone_and_fails_aloud() -> None:
    reward_func = openrlhf_reward(LengthJudge())
    found = reward_func([f"{RENDERED}one two<|im_end|>\n"], [RENDERED], [json.dumps(LABEL)])
    assert found["rewards"].tolist() == pytest.approx([math.log(3)])
    plain = reward_func([f"{ASKED}one</s>"], [ASKED], [json.dumps({"criteria": "likes words"})])
    assert plain["rewards"].tolist() == pytest.approx([math.log(2)])
    for query, label, said in (
        ("something else", json.dumps(LABEL), "does not hold its prompt"),
        (f"{RENDERED}one", "likes words", "is not JSON such as"),
        (f"{RENDERED}one", json.dumps({"prompt": ASKED}), "is not JSON such as"),
    ):
        with pytest.raises(ValueError, match=said):
            reward_func([query], [RENDERED], [label])
    failed = openrlhf_reward(ShortOnly(), failed_reward=-2.0)
    found = failed([f"{RENDERED}{'word ' * 9}"], [RENDERED], [json.dumps(LABEL)])
    assert (found["rewards"].item(), found["extra_logs"]["failed"].item()) == (-2.0, 1.0)
