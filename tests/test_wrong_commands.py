"""Wrong command lines, each really run: exit code 2, one line that names what is wrong, no traceback, no run."""

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
from crm.model.backbone import add_lora
from crm.training.tracking import check_tracker
from tests.conftest import Command

WRONG = r"""
train learningrate=1                                | learningrate: no such setting; did you mean learning_rate?
train data.pth=votes.jsonl                          | data.pth: no such setting; did you mean data.path?
train ++nothing=1                                   | nothing: no such setting
train data                                          | data: cannot be read as a setting; write name=value
train ""                                            | '': cannot be read as a setting; write name=value
train wandb=true                                    | wandb: no such setting; logger=wandb, or logger=[csv,wandb]
train eval_dataset=x.jsonl                          | eval_dataset: no such setting; data=<folder> with the files
train model=gpt2                                    | a model of a hub or a folder, model=pretrained model.path=gpt2
train runs/mine                                     | runs/mine: a path needs the name of a setting; write resume=
train votes/pairs.jsonl                             | write data=votes/pairs.jsonl
evaluate conf                                       | write checkpoint=conf
train mine.yaml                                     | write config=mine.yaml
train config=mine.yaml                              | schedule.max_step: no such setting; did you mean
train config=mine.yaml experiment=paper             | config=mine.yaml experiment=paper: each chooses all settings
train config=no.yaml                                | config=no.yaml: no such file; give a run's folder
evaluate config=mine.yaml                           | config=mine.yaml: settings of train.py; for its model, checkpoint=
train config=conf                                   | while parsing
train --config-path={here} --config-name=mine       | config=<file> reads settings from a file
train --config-dir=recipes experiment=mine          | Key 'learning_rate' not in 'OptimizerConfig'
train data=one.jsonl,capitals.csv                   | put them into one, data=<folder>, or -m runs a job for each
train data=[one.jsonl,capitals.csv]                 | put them into one, data=<folder>
train --nope                                        | nope: no such setting
train -x                                            | -x: no such option; settings are written name=value
train -m hydra/launcher=joblb seed=1,2              | its plugin is missing: pip install 'crm-leaderboard[sweeps]'
train -m optimizer.lr=interval(0,1)                 | BasicSweeper does not support sweep type : INTERVAL
train -m seed=1,                                    | quote the value, and the whole for the shell: 'seed="1,"'
train -m hydra.sweep.dir=/proc/x seed=1,2           | /proc/x: No such file or directory; name another place
train data=file "data.path=it's.jsonl"              | for the shell: 'data.path="it'"'"'s.jsonl"'
train data=dsp data.path=votes.jsonl                | data.path='votes.jsonl': expected none with data=dsp; data=v
train data=file data.path=x.csv                     | data.path='x.csv': no such file or folder
train seed=${nope:1}                                | seed: Unsupported interpolation type nope
train seed=???                                      | seed: not given; add seed=<value>
train data=file                                     | data: not given; write data=pairs.jsonl
train data=dsp data.sources=[dsp]                   | data.sources=['dsp']: expected names, for data=mixture only
train data=mixture data.sources=[table]             | data.sources='table': expected one of
train head=scalar head.kept=4                       | head.kept=4: expected null with head=scalar
train trainer.strategy=fsdp optimizer.name=muon     | optimizer.name='muon': expected adamw with
train model.lora_rank=4                             | model.lora_rank=4: expected 0 for a model without model.path
train model.gradient_checkpointing=sometimes        | gradient_checkpointing='sometimes': expected auto, true or false
train model.hidden_size=7                           | model.hidden_size=7: expected a multiple of model.heads
train model.path=/nonexistent data=simulation       | model.path=/nonexistent: no such folder
train resume=maybe                                  | resume=maybe: no such folder; give the folder of a training run
train resume=. | resume=.: it holds no config.yaml of a run; give the folder of a training run
train resume=true                                   | resume=true: no checkpoint
evaluate judge=llm                                  | judge.base_url=None: expected a value
evaluate judge=length suite=standrd                 | suite=standrd: no such suite; did you mean standard?
evaluate judge=length suite=rm_bench data=simulation | data=simulation: benchmarks read files under data.root
evaluate judge=length suite=rewardbench              | suite=rewardbench: no such suite; did you mean reward_bench
evaluate judge=length suite=D                        | D+ and D- name the two sides of suite D
evaluate judge=length suite=rm_bench data.root=.     | suite=rm_bench: data.path=hf://THU-KEG/RM-Bench
evaluate judge=length suite=hhh data.root=.          | its owners publish it at https://github.com/prometheus-eval
evaluate judge=length against=x                      | suite=rm_bench (two models on votes: -m checkpoint=A,B data=v
evaluate judge=length model.max_length=9             | model: no such setting; did you mean judge.model?
evaluate judge=length limit=3                        | limit=3: expected a benchmark beside it: suite=rm_bench
evaluate judge=length data=dsp data.root=x | data=dsp: there is no folder x/dsp; run `crm-prepare fetch=dsp out=x`
train data=trl data.path=pairs.jsonl                | a file or folder is data=<path>, and its columns tell the format
prepare annotator=openai                            | annotator: has settings of its own; write annotator.<setting>=
prepare annotator.model=x | annotator.base_url=None: expected a value: an endpoint has a base_url and a model
prepare data.name=dataset data.path=x               | data.name='dataset': expected votes
prepare fetch=trl                                   | fetch='trl': expected one of alpacaeval, justeval, dsp,
leaderboard judge=length criteria=short,funny       | 'criteria=[short,funny]' is a list, 'criteria="short,funny"' a
leaderboard judge=length "criteria=[it's]"          | quote texts inside and the whole
leaderboard judge=length criteria=[a] weights=[1,2] | weights=[1.0, 2.0]: expected as many numbers as criteria
leaderboard judge=length criteria=[a] weights=[0]   | weights=[0.0]: expected one at least that is not 0
leaderboard judge=length bank.baseline=gpt-5        | bank.baseline='gpt-5'
leaderboard judge=traits dislikes=[lists]            | weights below 0 dislike: criteria=[lists] weights=[-1]
leaderboard judge=length bank=./one.jsonl           | there are alpacaeval, folder, justeval, simulated; a folder of
leaderboard judge=length data=dsp                   | data: no such group of this command, there are bank
leaderboard judge=length predictions=conf           | Not a directory; name another place
prepare out=x                                       | data.name='simulation': expected votes: data=votes.csv,
bank                                                | out='': expected the bank's folder, out=banks/mine
bank out=x author=one responses=one.jsonl           | queries=null: x holds no bank yet
bank out=x author=m responses=x endpoint.base_url=http://127.0.0.1:1/v1 | expected a file or an endpoint, not both
bank score judge=llm judge.base_url=http://x/v1 judge.model=y ratings=x.csv | expected a file, or a judge, not both
bank score judge=traits dry_run=true                | dry_run=True: expected judge=llm
best_of_n judge=length candidates=nope.jsonl        | nope.jsonl:
best_of_n judge=length candidates=one.jsonl         | candidates: none of 1 queries has 2 responses
score judge=length in=nowhere.jsonl out=x.jsonl     | in='nowhere.jsonl': no such file or folder
score judge=length in=one.jsonl out=one.jsonl       | out=one.jsonl: exists
score judge=length in=one.jsonl                     | out: not given
score one.jsonl                                     | write in=one.jsonl
score in=one.jsonl out=x.jsonl                      | crm-score: model: not given; add model=<run folder
score judge=length in=empty.jsonl out=x.jsonl       | in=empty.jsonl: holds no rows
app checkpoint=none hosts=[http://x.example]        | hosts='http://x.example': expected names such as leaderboard
app judge=length port=99999                         | port=99999: expected a number in [1, 65535]
app judge=length                                    | your settings of bank and: python leaderboard.py judge=length
serve                                               | checkpoint: not given; add checkpoint=<run folder
"""
FILES = {
    "conf": "{a file where a folder is expected",
    "mine.yaml": "seed: 3\nschedule: {max_step: 3}\n",
    "recipes/experiment/mine.yaml": "# @package _global_\noptimizer: {learning_rate: 2e-5}\n",
    "one.jsonl": '{"query": "Why?", "response": "So."}\n',
    "capitals.csv": "Prompt,Response\n2+2?,4\n",
    "empty.jsonl": "",
}
LINES = [tuple(map(str.strip, line.split(" | "))) for line in WRONG.strip().splitlines()]


@pytest.mark.parametrize(("line", "message"), LINES, ids=[line for line, _ in LINES])
def test_a_wrong_command_ends_with_one_sentence(line: str, message: str, command: Command, tmp_path: Path) -> None:
    for file, text in FILES.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    name, *words = shlex.split(line.replace("{here}", str(tmp_path)))
    code, _, error = command(name, *words)
    assert code == 2
    name = "bank_score" if line.startswith("bank score ") else name
    assert error.startswith(f"{script(name)}: ") and error.count("\n") == 1
    assert message in error and "Traceback" not in error


MISSING: list[tuple[str, str, Callable[[], Any]]] = [
    ("tensorboard", "tensorboard", lambda: check_tracker(["csv", "tensorboard"])),
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
def test_without_its_packages_a_server_says_what_to_install(name: str, monkeypatch: Any, command: Command) -> None:
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
