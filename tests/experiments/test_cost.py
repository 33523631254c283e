"""What a sweep costs beforehand, against sums done by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from bench.gpu import matrix_parameters
from bench.models import QWEN3
from crm.config import compose
from crm.data.load import load_data
from experiments import cost as module
from experiments.cost import cost, from_votes, jobs_of, main, parameters
from tests.made_files import write_rows

RECIPE = ("experiment=qwen3_4b_8gpu", "data=dsp")


@pytest.fixture(autouse=True)
def unmeasured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MEASURED", tmp_path / "gpu.json")
    module.rate.cache_clear()


def test_steps_tokens_hours_and_disk_by_hand(tmp_path: Path) -> None:
    config = compose("train", RECIPE, tmp_path)
    found = cost(config, train=3200, validation=90, tokens=1000)  # 3 epochs of 100 steps, 7 validations of 30 each
    assert (found.steps, found.tokens) == (300, 1000 * (9600 + 210))
    assert found.validation == pytest.approx(210 / 9810)
    assert found.gpu_hours == pytest.approx(9.81e6 / 15_900 / 3600)
    assert found.gigabytes == pytest.approx(20 * parameters("4B") / 1e9)
    lora = compose("train", ("experiment=lora_24gb", "data=dsp", "schedule.max_steps=7"), tmp_path)
    found = cost(lora, train=3200, validation=0, tokens=1000)
    assert (found.steps, found.gigabytes) == (7, pytest.approx(12 * parameters("4B") / 1e9))


@pytest.mark.parametrize(("size", "published"), [("0.6B", 0.6e9), ("1.7B", 1.7e9), ("4B", 4.0e9), ("8B", 7.6e9)])
def test_parameters_are_those_of_the_matrices_and_the_embedding(size: str, published: float) -> None:
    shape = QWEN3[size]
    assert parameters(size) == pytest.approx(matrix_parameters(shape) + shape.vocabulary * shape.hidden, rel=1e-3)
    assert parameters(size) == pytest.approx(published, rel=0.02)


def test_a_rate_that_was_measured_goes_before_the_published_one(tmp_path: Path) -> None:
    line = {"size": "4B", "job": "training", "tokens_a_second": 20_000}
    lines = [line | {"who": "authors", "tokens_a_second": 1}, {**line, "who": "ours"}]
    about = {"versions": {"gpu": "NVIDIA L4"}, "settings": {"length": "400"}}
    (tmp_path / "gpu.json").write_text(json.dumps({"lines": lines, **about}))
    assert module.rate("4B")[0] == 20_000 and "(NVIDIA L4, responses of 400 tokens)" in module.rate_line("4B")
    assert module.rate("8B")[0] == 10_200


def test_votes_that_are_not_there_yet(tmp_path: Path) -> None:
    both, one = (compose("train", (*RECIPE, f"direction={kind}"), tmp_path) for kind in ("both", "random"))
    assert from_votes(both, 3200).steps == 2 * from_votes(one, 3200).steps == 600
    limited = compose("train", (*RECIPE, "direction=random", "data.validation=50"), tmp_path)
    assert from_votes(limited, 3200).validation == pytest.approx(7 * 100 / 3 / (9600 + 7 * 100 / 3))


def test_the_jobs_of_a_sweep() -> None:
    words = ["model=qwen3_4b,qwen3_8b", "seed=range(1,3)", "logger=[csv,wandb]"]
    pairs = [("qwen3_4b", 1), ("qwen3_4b", 2), ("qwen3_8b", 1), ("qwen3_8b", 2)]
    assert jobs_of(words) == [[f"model={model}", f"seed={seed}", "logger=[csv,wandb]"] for model, seed in pairs]


def test_a_file_is_read_with_the_models_own_tokenizer(capsys: Any, tmp_path: Path, tokenizer: Any) -> None:
    row = {"chosen": "Oak.", "rejected": "The oak.", "criteria": ["Short"], "criteria_rejected": ["Long"]}
    path = write_rows(tmp_path / "pairs.jsonl", [{"prompt": f"Name tree {number}."} | row for number in range(400)])
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "tokenizer/config.json").write_text('{"model_type": "qwen3"}')
    words = ["-m", RECIPE[0], f"data={path}", f"model.path={tmp_path / 'tokenizer'}", "noise=none,random"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    config = compose("train", (RECIPE[0], "data=file", f"data.path={path}"), tmp_path)
    votes = len(load_data(config.data).train)
    assert f"| noise=none   | {3 * math.ceil(2 * votes / 32)} " in shown
    assert "published for an H100" in shown


def test_mistakes_are_one_sentence(capsys: Any) -> None:
    assert main(["--votes", "100", "modl=qwen3_4b"]) == 2
    assert capsys.readouterr().err == "experiments.cost: modl: no such setting; did you mean model?\n"
    assert main(["data=simulation"]) == 2
    assert "model=tiny: expected a pretrained one, such as qwen3_0_6b" in capsys.readouterr().err
    assert main(["--votes", "100"]) == 0  # a small model has steps and tokens, but no rate
    assert capsys.readouterr().out.splitlines()[2].count("–") == 2
