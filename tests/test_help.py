"""Help lists what a command takes, and nothing that it would refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException

from crm.cli import train
from crm.cli.mistakes import group_names, option_names, taken_groups
from crm.config import ENTRY_POINTS, config_dir, register

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("command", ENTRY_POINTS)
def test_the_groups_in_the_help_are_those_that_can_be_given(command: str) -> None:
    """All at once; of the others, each command is given every fifth, so that all are given to some."""
    register()
    taken, groups = taken_groups(command), group_names()
    assert set(taken) <= set(groups)
    others = [group for group in groups if group not in taken]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        compose(command, overrides=[f"{group}={option_names(group)[0]}" for group in taken])
        for group in others[list(ENTRY_POINTS).index(command) % 5 :: 5]:
            with pytest.raises(HydraException, match=f"Could not override '{group}'"):
                compose(command, overrides=[f"{group}={option_names(group)[0]}"])


@pytest.mark.slow
def test_help_prints_them(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shown = subprocess.run(
        [sys.executable, ROOT / "train.py", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0 and shown.stderr == ""
    groups, settings = shown.stdout.split("== Settings ==")
    whole = groups.split("== Groups ==")[1].replace("\n    ", " ")
    listed = dict(re.findall(r"^(\w+): (.*)$", whole, re.MULTILINE))
    assert listed == {group: ", ".join(option_names(group)) for group in taken_groups("train")}
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
def test_help_loads_neither_torch_nor_what_only_a_run_needs() -> None:
    """Of all commands, one after the other, so that it comes soon."""
    heavy = ("torch", "transformers", "lightning", "pandas", "sklearn", "matplotlib", "datasets", "datasketch", "scipy")
    code = "import sys; sys.argv = ['crm', '-h']; from crm import cli;"
    code += f"[getattr(cli, command)() for command in {tuple(ENTRY_POINTS)}];"
    code += f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert done.stdout.count("== Settings ==") == len(ENTRY_POINTS)
