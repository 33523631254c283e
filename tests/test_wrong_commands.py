"""Wrong command lines, each really run: exit code 2, one line that names what is wrong, no traceback, no run."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import lightning.pytorch  # noqa: F401 - a line that is taken by mistake then fails instead of training
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from crm import cli
from crm.cli.help import script
from crm.cli.mistakes import quoted

ROOT = Path(__file__).resolve().parents[1]
Run = Callable[..., tuple[object, str]]

WRONG = r"""
train modle=tiny                                    | modle: no such setting; did you mean model?
train los=ranking                                   | los: no such setting; did you mean loss?
train data.pth=votes.jsonl                          | data.pth: no such setting; did you mean data.path?
train ++nothing=1                                   | nothing: no such setting
train ~model.nothing                                | model.nothing
train data=record                                   | did you mean records?
train data=                                         | data=: no such option, there are arena
train experiment=../../etc/passwd                   | experiment/../../etc/passwd: no such configuration file
train head=nothing                                  | head=nothing: no such option
train hydra/launcher=nope                           | pip install 'crm-leaderboard[sweeps]'
train data                                          | data: cannot be read as a setting; write name=value
train =1                                            | =1: cannot be read as a setting; write name=value
train ""                                            | '': cannot be read as a setting; write name=value
train "a=b\nc"                                      | cannot be read as a setting
train --nope                                        | --nope: no such option; settings are written name=value
train --config-name=nope                            | nope: no such configuration file
train -m optimizer.lr=interval(0,1)                 | interval(...): searching is Optuna's, hydra/sweeper=optuna
train -m seed=1,                                    | quote the value, and the whole for the shell: 'seed="1,"'
train data=records data.path=größe.jsonl            | for the shell: 'data.path="größe.jsonl"'
train data=records data.path=a#b.jsonl              | for the shell: 'data.path="a#b.jsonl"'
train data=records data.path=~/b.jsonl              | for the shell: 'data.path="~/b.jsonl"'
train data=records "data.path=it's.jsonl"           | for the shell: 'data.path="it'"'"'s.jsonl"'
train data=records data.path=a,b.jsonl              | a text is quoted: 'data.path="a,b.jsonl"'
train data=summeval data.path=votes.jsonl           | data.path='votes.jsonl': expected none for data=summeval; say
train data=records                                  | data.path=None: expected a file or folder for data=records
train data=table data.path=x.csv                    | data.path='x.csv': no such file or folder
train data=table data.path=conf                     | conf
train data.train=-5                                 | data.train=-5: expected 0 (all) or more
train seed=-1                                       | seed=-1: expected a number in [0, 4294967295]
train seed=1.5                                      | seed: Value '1.5' of type 'float' could not be converted
train seed=null                                     | seed: field 'seed' is not Optional
train seed=${nope:1}                                | seed: Unsupported interpolation type nope
train seed=???                                      | seed: not given; add seed=<value>
train schedule.epochs=1e9999                         | schedule.epochs: Value 'inf'
train optimizer.lr=nan                              | optimizer.lr=nan: expected a number above 0
train schedule.comparisons_per_step=0                          | schedule.comparisons_per_step=0: expected 1 or more
train trainer.precision=16                          | trainer.precision='16': expected one of 32-true
train model.hidden_size=7                           | model.hidden_size=7: expected a multiple of model.heads
train model.path=/nonexistent data=simulation        | model.path=/nonexistent: no such folder
train resume=maybe                                  | resume=maybe: no such folder; give the folder of a training run
train resume=true hydra.run.dir=empty               | resume=true: no checkpoint
train -m hydra.sweep.dir=/proc/x seed=1,2           | /proc/x: No such file or directory; name another place
evaluate                                            | checkpoint=None: expected a run folder of train.py
evaluate judge=llm                                  | judge.base_url=None: expected a value
evaluate judge=length suite=nope                    | suite=nope: no such option
evaluate judge=length data.path=x                   | data.path='x': expected none for data=simulation; say
evaluate judge=length suite.names=[[D+]]            | suite.names
leaderboard judge=length criteria=concise           | criteria: expected a list; write criteria=[a,b]
leaderboard judge=length "criteria=[it's]"          | quote texts inside and the whole
leaderboard judge=length criteria=[a,[b]]           | criteria=['a', ['b']]: expected a list of texts
leaderboard judge=length criteria=[a] weights=[1,2] | weights=[1.0, 2.0]: expected as many numbers as criteria
leaderboard judge=length sort=winrate               | sort='winrate': no such column
leaderboard judge=length data=records               | data: no such group of this command, there are bank
leaderboard judge=length bank.path=x                | bank.path='x': expected bank=folder with a path
leaderboard judge=length bank=folder bank.path=x    | x/bank.json: no such file
leaderboard judge=length predictions=/proc/x/y      | /proc/x: No such file or directory
leaderboard judge=length predictions=conf           | Not a directory; name another place
prepare sources=nope                                | sources: no such setting; did you mean data.sources?
prepare --dry                                       | --dry
prepare split.noises=[nope]                         | split.noises='nope': expected one of none
prepare out=/proc/x                                 | out='/proc/x': no folder can be made there
bank                                                | out='': expected the bank's folder, out=banks/mine
bank out=x bank=nope                                | bank: no such group of this command, there are fetch
best_of_n judge=length bank=folder                  | bank.path=None: expected a folder that holds a bank
best_of_n judge=length candidates=nope.jsonl        | nope.jsonl: 
app judge=length port=99999                         | port=99999: expected a number in [1, 65535]
app judge=length host=nope.invalid                  | host=nope.invalid port=7860: cannot be used
app judge=length                                    | rank for one person with: python leaderboard.py judge=length
serve                                               | checkpoint=None: expected a run folder of train.py
serve judge=length port=abc                         | port: Value 'abc' of type 'str' could not be converted
"""
LINES = [tuple(map(str.strip, line.split(" | "))) for line in WRONG.strip().splitlines()]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """A command with the words of its line, in a folder with the file ``conf`` and the folder ``full``, on a full disk.

    Its exit code and what it said on the stream of errors.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").write_text("in the way")
    (tmp_path / "full/.hydra").mkdir(parents=True)
    (tmp_path / "full/.hydra/config.yaml").symlink_to("/dev/full")

    def call(command: str, *words: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", [script(command), *words])
        with pytest.raises(SystemExit) as ended:
            getattr(cli, command)()
        return ended.value.code, capsys.readouterr().err

    return call


@pytest.mark.parametrize(("line", "said"), LINES, ids=[line for line, _ in LINES])
def test_a_wrong_command_ends_with_one_sentence(line: str, said: str, run: Run) -> None:
    command, *words = shlex.split(line.replace(r"\n", "\n"))
    code, shown = run(command, *words)
    assert code == 2
    assert shown.startswith(f"{script(command)}: ") and shown.count("\n") == 1
    assert said in shown
    assert "Traceback" not in shown


VALUES = ("größe", "a b", "it's", 'say "hi"', "back\\slash", 'both\\" and more', "ends\\", "a,b=c#d[e](f){g}", "~", "")


@pytest.mark.parametrize("value", VALUES)
def test_what_it_says_to_write_is_read_as_what_was_meant(value: str) -> None:
    """By a shell and by Hydra's own parser."""
    (word,) = shlex.split(quoted(f"data.path={value}"))
    (override,) = OverridesParser.create().parse_overrides([word])
    assert (override.key_or_group, override.value()) == ("data.path", value)


@pytest.mark.slow
@pytest.mark.parametrize("loaded", ["antlr4.Token", "torch.nn"])
def test_a_command_that_is_stopped_while_it_loads_says_so(loaded: str, tmp_path: Path) -> None:
    """Python tells what it has imported, so that the moment of the signal is always the same."""
    # A shell that starts us in the background has its children take no notice of the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", ROOT / "train.py", "hydra.run.dir=run"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    for line in process.stderr:
        if line.split()[-1] == loaded:
            break
    process.send_signal(signal.SIGINT)
    said = [line for line in process.stderr if not line.startswith("import time:")]
    assert process.wait(60) == 130
    assert len(said) == 1 and said[0].startswith("crm-train: stopped")
