"""A stranger's first hour: the lines of ``commands.txt`` do what was meant, or say in a sentence why not."""

import gzip
import json
import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Model

from crm.training.lit_module import LitRewardModel
from tests.conftest import TINY_MODEL, Command
from tests.model.helpers import qwen3

pytestmark = pytest.mark.slow
TOKENIZER = Path(os.environ.get("CRM_DATA_ROOT", "data")) / "qwen3_tokenizer"
SMALL = "schedule.max_steps=2 trainer.progress=false " + " ".join(TINY_MODEL[:4])
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
            short = (f"It is {number}.", ["Prefers concise answers"])
            long = f"After some thought, and on balance, it is {number}, for reasons of order {number}."
            sides = [short, (long, ["Prefers detailed answers"])][:: 1 if number % 2 else -1]
            topic = ("rivers", "stars", "bread", "chess", "trains")[number % 5]
            (chosen, criteria), (rejected, other) = sides
            row = {"prompt": f"{topic}: what about number {number * 37 % 101}?", "chosen": chosen, "rejected": rejected}
            file.write(json.dumps({**row, "criteria": criteria, "criteria_rejected": other}) + "\n")
    (place / "folder").mkdir()
    (place / "folder/pairs.jsonl").write_text((place / "pairs.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    rows = [f"Question {n} about {n * 7}?,First {n},Second {n},{'ab'[n % 2]}" for n in range(40)]
    (place / "votes.csv").write_text("\n".join(["question,answer_a,answer_b,winner", *rows]) + "\n", encoding="utf-8")
    if TOKENIZER.is_dir():
        write_thin_qwen3(place / "thin")
    return place


def write_thin_qwen3(place: Path) -> None:
    """Qwen3-0.6B in everything but size: its tokenizer, 28 thin layers, random weights."""
    place.mkdir()
    (place / "tokenizer.json").write_bytes(gzip.decompress((TOKENIZER / "tokenizer.json.gz").read_bytes()))
    (place / "tokenizer_config.json").write_bytes((TOKENIZER / "tokenizer_config.json").read_bytes())
    torch.manual_seed(0)
    Qwen3Model(qwen3(16, 32, 2, 28, keys=1, size=8, vocab_size=151936)).save_pretrained(place)


def ctrl_c_after(steps: int) -> Callable[..., None]:
    def press(module: LitRewardModel, *_: object) -> None:
        if module.trainer.global_step == steps:
            os.kill(os.getpid(), signal.SIGINT)

    return press


@pytest.mark.parametrize("line", LINES, ids=[line[0] for line in LINES])
def test_a_command_does_what_was_meant(line: list[str], folder: Path, monkeypatch: Any, command: Command) -> None:
    typed, expected, says, says_not = (part.strip() for part in [*line, ""][:4])
    if ("thin" in typed or "backbone" in typed) and not TOKENIZER.is_dir():
        pytest.skip(f"{TOKENIZER} is not there: set CRM_DATA_ROOT to a folder with qwen3_tokenizer")
    words = shlex.split(typed.replace("SMALL", SMALL).replace('["', "'[\"").replace('"]', "\"]'"))
    while words[0].partition("=")[0].isupper():
        monkeypatch.setenv(*words.pop(0).split("="))
    name, *words = words
    if words and words[-1].startswith("^C@"):
        press = ctrl_c_after(int(words.pop().removeprefix("^C@")))
        monkeypatch.setattr(LitRewardModel, "on_train_batch_start", press, raising=False)
    monkeypatch.chdir(folder)
    code, *printed = command(name, *words)
    shown = "".join(printed)
    assert code == int(expected), shown
    plain = " ".join(shown.split())
    for part in filter(None, map(str.strip, says.split(";;"))):
        assert part in plain, shown
    assert not says_not or says_not.replace(r"\n", "\n") not in shown, shown
