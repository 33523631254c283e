"""Help lists what a command takes, and nothing that it would refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.errors import HydraException

from crm.cli import train
from crm.cli.mistakes import group_names, option_names, taken_groups
from crm.config import ENTRY_POINTS, compose

ROOT = Path(__file__).resolve().parents[1]
NEEDED = {command: ["judge=length"] for command in ("evaluate", "leaderboard", "app", "serve")}
NEEDED |= {"bank": ["out=x"], "prepare": ["out=x"]}


@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_the_groups_in_the_help_are_those_that_can_be_given(command: str, tmp_path: Path) -> None:
    taken = taken_groups(command)
    assert set(taken) <= set(group_names())
    for group in group_names():
        try:
            compose(command, [*NEEDED.get(command, []), f"{group}={option_names(group)[0]}"], tmp_path)
            refused = False
        except HydraException as error:
            refused = f"'{group}'" in str(error)
        except ValueError:
            refused = False  # it is taken, and wants more settings
        assert refused == (group not in taken), group


@pytest.mark.slow
@pytest.mark.parametrize(("command", "word"), [("train", "--help"), ("prepare", "-h")])
def test_help_prints_them(command: str, word: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(
        [sys.executable, ROOT / f"{command}.py", word], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0 and shown.stderr == ""
    groups, settings = shown.stdout.split("== Settings ==")
    whole = groups.split("== Groups ==")[1].replace("\n    ", " ")
    listed = dict(re.findall(r"^(\w+): (.*)$", whole, re.MULTILINE))
    assert listed == {group: ", ".join(option_names(group)) for group in taken_groups(command)}
    assert "\nseed: " in settings or "\n  seed: " in settings
    assert list(tmp_path.iterdir()) == [], "help leaves no run folder"


def test_help_shows_the_settings_as_the_other_words_leave_them(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["crm-train", "loss=ranking", "--help"])
    train()
    assert "loss:\n  name: ranking\n" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["crm-train", "los=ranking", "--help"])
    with pytest.raises(SystemExit) as ended:
        train()
    assert ended.value.code == 2 and "los" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_help_loads_neither_torch_nor_what_only_a_run_needs(command: str) -> None:
    """So that it comes within two seconds."""
    heavy = ("torch", "transformers", "lightning", "pandas", "sklearn", "matplotlib", "datasets", "datasketch", "scipy")
    code = f"import sys; sys.argv = ['crm', '--help']; from crm import cli; cli.{command}();"
    code += f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
