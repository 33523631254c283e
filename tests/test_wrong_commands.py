"""Wrong command lines, each really run: exit code 2, one line that names what is wrong, no traceback, no run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch  # noqa: F401 - a line that is taken by mistake then fails instead of training
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from crm.cli.commands import script
from crm.cli.mistakes import quoted
from crm.criteria.topics import embed
from crm.data.public.plain import by_bm25
from crm.model.backbone import add_lora
from crm.training.tracking import check_tracker
from tests.conftest import Command

WRONG = r"""
train modle=tiny                                    | modle: no such setting; did you mean model?
train learningrate=1                                | learningrate: no such setting; did you mean learning_rate?
train data.pth=votes.jsonl                          | data.pth: no such setting; did you mean data.path?
train ++nothing=1                                   | nothing: no such setting
train data                                          | data: cannot be read as a setting; write name=value
train ""                                            | '': cannot be read as a setting; write name=value
train wandb=true                                    | wandb: no such setting; logger=wandb, or logger=[csv,wandb]
train model=gpt2                                    | a model of a hub or a folder, model=pretrained model.path=gpt2
train runs/mine                                     | runs/mine: a path needs the name of a setting; write resume=
train votes/pairs.jsonl                             | write data=votes/pairs.jsonl
evaluate conf                                       | write checkpoint=conf
train --nope                                        | --nope: no such option; settings are written nope=value
train -m hydra/launcher=slurm seed=1,2              | hydra/launcher=slurm: no srun here
train -m hydra/launcher=joblb seed=1,2              | its plugin is missing: pip install 'crm-leaderboard[sweeps]'
train -m optimizer.lr=interval(0,1)                 | interval(...): searching is Optuna's, hydra/sweeper=optuna
train -m seed=1,                                    | quote the value, and the whole for the shell: 'seed="1,"'
train -m hydra.sweep.dir=/proc/x seed=1,2           | /proc/x: No such file or directory; name another place
train data=file "data.path=it's.jsonl"              | for the shell: 'data.path="it'"'"'s.jsonl"'
train data=summeval data.path=votes.jsonl           | data.path='votes.jsonl': expected none with data=summeval; data=v
train data=file data.path=x.csv                     | data.path='x.csv': no such file or folder
train seed=${nope:1}                                | seed: Unsupported interpolation type nope
train seed=???                                      | seed: not given; add seed=<value>
train model.hidden_size=7                           | model.hidden_size=7: expected a multiple of model.heads
train model.path=/nonexistent data=simulation       | model.path=/nonexistent: no such folder
train resume=maybe                                  | resume=maybe: no such folder; give the folder of a training run
evaluate                                            | checkpoint: not given; add checkpoint=<run folder
evaluate judge=llm                                  | judge.base_url=None: expected a value
evaluate judge=length suite=standrd                 | suite=standrd: no such suite; did you mean standard?
evaluate judge=length suite=rewardbench              | suite=rewardbench: no such suite; did you mean reward_bench
evaluate judge=length suite=D                        | D+ and D- name the two sides of suite D
evaluate judge=length limit=3                        | limit=3: expected a benchmark beside it: suite=rm_bench
train data=trl data.path=pairs.jsonl                | a file or folder is data=<path>, and its columns tell the format
prepare annotator=openai                            | annotator: has settings of its own; write annotator.<setting>=
leaderboard judge=length criteria=short,funny       | 'criteria=[short,funny]' is a list, 'criteria="short,funny"' a
leaderboard judge=length "criteria=[it's]"          | quote texts inside and the whole
leaderboard judge=length criteria=[a] weights=[1,2] | weights=[1.0, 2.0]: expected as many numbers as criteria
leaderboard judge=length bank.baseline=gpt-5        | bank.baseline='gpt-5'
leaderboard judge=length data=dsp                   | data: no such group of this command, there are bank
leaderboard judge=length predictions=conf           | Not a directory; name another place
prepare out=x                                       | data.name='simulation': expected votes: data=votes.csv,
bank                                                | out='': expected the bank's folder, out=banks/mine
best_of_n judge=length candidates=nope.jsonl        | nope.jsonl:
app judge=length port=99999                         | port=99999: expected a number in [1, 65535]
app judge=length                                    | your settings of bank and: python leaderboard.py judge=length
serve                                               | checkpoint: not given; add checkpoint=<run folder
"""
LINES = [tuple(map(str.strip, line.split(" | "))) for line in WRONG.strip().splitlines()]


@pytest.mark.parametrize(("line", "message"), LINES, ids=[line for line, _ in LINES])
def test_a_wrong_command_ends_with_one_sentence(line: str, message: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("a file where a folder is expected")
    name, *words = shlex.split(line)
    code, _, error = command(name, *words)
    assert code == 2
    assert error.startswith(f"{script(name)}: ") and error.count("\n") == 1
    assert message in error and "Traceback" not in error


MISSING: list[tuple[str, str, Callable[[], Any]]] = [
    ("tensorboard", "tensorboard", lambda: check_tracker(["csv", "tensorboard"])),
    ("bm25s", "profiles", lambda: by_bm25("oak", ["Which oak?"])),
    ("sentence_transformers", "embeddings", lambda: embed(["oak"], model="x")),
    ("peft", "lora", lambda: add_lora(Mock(), 2, 2)),
]


@pytest.mark.parametrize(("package", "extra", "use"), MISSING, ids=[package for package, *_ in MISSING])
def test_a_missing_package_is_named_with_what_to_install(
    package: str, extra: str, use: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"{package}.*pip install 'crm-leaderboard\[{extra}\]'"):
        use()


@pytest.mark.parametrize("name", ["app", "serve"])
def test_without_its_packages_a_server_says_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    _, _, error = command(name, "judge=length", "checkpoint=x")
    assert error == f"crm-{name}: {name}: its packages are not installed; pip install 'crm-leaderboard[{name}]'\n"


VALUES = ("größe", "a b", "it's", 'say "hi"', "back\\slash", 'both\\" and more', "ends\\", "a,b=c#d[e](f){g}", "~", "")


@pytest.mark.parametrize("value", VALUES)
def test_what_it_says_to_write_is_read_as_what_was_meant(value: str) -> None:
    """By a shell and by Hydra's own parser."""
    (word,) = shlex.split(quoted(f"data.path={value}"))
    (override,) = OverridesParser.create().parse_overrides([word])
    assert (override.key_or_group, override.value()) == ("data.path", value)
