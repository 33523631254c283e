"""The command: what ends is written as it ends, exit codes, the picture and the table; children end with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.soak import __main__ as soak
from bench.soak import tied
from bench.soak.report import to_markdown
from bench.soak.stage import Found, Limit, Task


def stage(run: Callable[[Task], Found]) -> soak.Stage:
    return soak.Stage(run, 1)


def sound(task: Task) -> Found:
    task.tell(0.5, "half")
    found = Found(limits=[Limit("kills", 3, at_least=3)])
    found.tried["kills"] = 3
    found.watched = {"server": [(0.0, 500.0, 9), (5.0, 501.0, 9)]}
    return found


def broken(_: Task) -> Found:
    raise OSError("no | room <b>")


def stopped(_: Task) -> Found:
    raise KeyboardInterrupt


def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **stages: Callable[[Task], Found]) -> tuple[int, Any]:
    monkeypatch.setattr(soak, "STAGES", {name: stage(one) for name, one in stages.items()})
    code = soak.main(["--minutes", "1", "--out", str(tmp_path), "--images", str(tmp_path)])
    return code, json.loads((tmp_path / "soak.json").read_text("utf-8"))


def test_a_sound_soak_ends_with_0_and_three_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = run(tmp_path, monkeypatch, rows=sound, disk=sound)
    assert code == 0 and found["commit"] and found["versions"]["torch"] and found["seed"] == 1
    assert found["stages"]["disk"]["limits"] == {"kills": {"found": 3, "at_least": 3, "held": True}}
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    text = (tmp_path / "soak.md").read_text("utf-8")
    assert text == to_markdown(found) and "Every limit held." in text and "| disk | 3 kills | 0 |" in text


def test_a_broken_limit_ends_with_1_and_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = run(tmp_path, monkeypatch, rows=broken, disk=sound)
    assert code == 1 and [row["held"] for row in found["stages"].values()] == [False, True]
    assert "- rows: broke off: OSError: no / room ‹b>" in (tmp_path / "soak.md").read_text("utf-8")


def test_what_was_stopped_keeps_what_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = run(tmp_path, monkeypatch, rows=sound, disk=stopped)
    assert code == 130 and list(found["stages"]) == ["rows"]
    assert "Ended before disk." in (tmp_path / "soak.md").read_text("utf-8")


@pytest.mark.slow
def test_one_that_waits_runs_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, found = run(tmp_path, monkeypatch, rows=sound, endpoint=sound)
    assert code == 0 and set(found["stages"]) == {"rows", "endpoint"}
    code, found = run(tmp_path, monkeypatch, rows=sound, endpoint=stopped)
    assert code == 1 and found["stages"]["endpoint"]["failures"] == {"ended": 1}


def test_minutes_have_to_be_some(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        soak.main(["--minutes", "0"])
    assert "--minutes 0: expected a number above 0" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has ended")
def test_what_is_tied_ends_with_its_parent() -> None:
    start = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
    sleeps = [sys.executable, tied.__file__, sys.executable, "-c", "import time; time.sleep(60)"]
    words = [sys.executable, "-c", start, *sleeps]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        ends = time.monotonic() + 20
        while "sleep" not in " ".join(child.cmdline()[:3]) and time.monotonic() < ends:
            time.sleep(0.01)
        os.kill(parent.pid, signal.SIGKILL)
    assert psutil.wait_procs([child], timeout=20)[1] == [] or child.status() == psutil.STATUS_ZOMBIE
