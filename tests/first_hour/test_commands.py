"""A stranger's first hour: the lines of ``commands.txt`` do what was meant, or say in a sentence why not."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import Qwen3Config, Qwen3Model

from crm import cli
from crm.training.lit_module import LitRewardModel

pytestmark = pytest.mark.slow
TOKENIZER = Path(os.environ.get("CRM_DATA_ROOT", "data")) / "qwen3_tokenizer"
SMALL = (
    "model.hidden_size=16 model.layers=2 model.heads=2 model.vocab_size=400 schedule.max_steps=2 trainer.progress=false"
)
LINES = [
    line.split(" |")
    for line in (Path(__file__).parent / "commands.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("first_hour")
    with (place / "pairs.jsonl").open("w", encoding="utf-8") as file:
        for number in range(60):
            short, long = (
                f"It is {number}.",
                f"After some thought, and on balance, it is {number}, for reasons of order {number}.",
            )
            brief = number % 2
            criteria = ["Prefers concise answers"] if brief else ["Prefers detailed answers"]
            other = ["Prefers detailed answers"] if brief else ["Prefers concise answers"]
            chosen, rejected = (short, long) if brief else (long, short)
            topic = ("rivers", "stars", "bread", "chess", "trains")[number % 5]
            row = {"prompt": f"{topic}: what about number {number * 37 % 101}?", "chosen": chosen, "rejected": rejected}
            file.write(json.dumps({**row, "criteria": criteria, "criteria_rejected": other}) + "\n")
    (place / "folder").mkdir()
    (place / "folder/pairs.jsonl").write_text((place / "pairs.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    rows = [
        f"Question {number} about {number * 7}?,First {number},Second {number},{'ab'[number % 2]}"
        for number in range(40)
    ]
    (place / "votes.csv").write_text("\n".join(["question,answer_a,answer_b,winner", *rows]) + "\n", encoding="utf-8")
    if TOKENIZER.is_dir():
        write_thin_qwen3(place / "thin")
    return place


def write_thin_qwen3(place: Path) -> None:
    """Qwen3-0.6B in everything but size: its tokenizer, 28 thin layers, random weights."""
    place.mkdir()
    (place / "tokenizer.json").write_bytes(gzip.decompress((TOKENIZER / "tokenizer.json.gz").read_bytes()))
    (place / "tokenizer_config.json").write_bytes((TOKENIZER / "tokenizer_config.json").read_bytes())
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 8,
    }
    torch.manual_seed(0)
    Qwen3Model(Qwen3Config(vocab_size=151936, num_hidden_layers=28, **sizes)).save_pretrained(place)


def run(line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Exit code, and all that a command says on the terminal."""
    command, *words = shlex.split(line.replace("SMALL", SMALL).replace('["', "'[\"").replace('"]', "\"]'"))
    if words and words[-1].startswith("^C@"):
        press = ctrl_c_after(int(words.pop().removeprefix("^C@")))
        monkeypatch.setattr(LitRewardModel, "on_train_batch_start", press, raising=False)
    monkeypatch.setattr(sys, "argv", [f"{command}.py", *words])
    root, handlers = logging.getLogger(), logging.getLogger().handlers[:]
    code: object = 0
    try:
        getattr(cli, command)()
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        root.handlers[:] = handlers
    shown = capfd.readouterr()
    return code, shown.out + shown.err


def ctrl_c_after(steps: int) -> Callable[..., None]:
    def press(module: LitRewardModel, *_: object) -> None:
        if module.trainer.global_step == steps:
            os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.parametrize("line", LINES, ids=[line[0] for line in LINES])
def test_a_command_does_what_was_meant(
    line: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    typed, expected, says, says_not = (part.strip() for part in [*line, ""][:4])
    if ("thin" in typed or "backbone" in typed) and not TOKENIZER.is_dir():
        pytest.skip(f"{TOKENIZER} is not there: set CRM_DATA_ROOT to a folder with qwen3_tokenizer")
    monkeypatch.chdir(folder)
    code, shown = run(typed, monkeypatch, capfd)
    assert code == int(expected), shown
    plain = " ".join(shown.split())
    for part in filter(None, map(str.strip, says.split(";;"))):
        assert part in plain, shown
    assert not says_not or says_not.replace(r"\n", "\n") not in shown, shown
