"""An audit that could not be made is never taken for one that found nothing."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.audit.advisories import KNOWN_TO_BE_WEAK, NONE, PINS, SOME, UNKNOWN, SilentError, ask_pip_audit, audit

WEAK = {"name": "jinja2", "version": "2.4.1", "vulns": [{"id": "CVE-1", "fix_versions": ["3.0", "2.9"]}]}
FINE = {"name": "rich", "version": "15.0.0", "vulns": []}
SKIPPED = {"name": "torch", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("canary", "answer", "code", "said"),
    [
        ([WEAK], [FINE, FINE], NONE, "advisories: no known weakness in 2 pinned packages"),
        ([WEAK], [FINE, WEAK], SOME, "jinja2 2.4.1: CVE-1, mended in 3.0, 2.9"),
        ([WEAK], [FINE, SKIPPED], UNKNOWN, "NOT AUDITED: nothing can be said of torch"),
        ([WEAK], [WEAK, SKIPPED], SOME, "1 known weaknesses"),
        ([FINE], [FINE], UNKNOWN, f"NOT AUDITED: .* knows nothing of {KNOWN_TO_BE_WEAK}"),
        ([SKIPPED], [FINE], UNKNOWN, "NOT AUDITED"),
        (SilentError("no such host"), [FINE], UNKNOWN, "NOT AUDITED: .*: no such host"),
        ([WEAK], SilentError("cut"), UNKNOWN, "NOT AUDITED: .*: cut"),
    ],
)
def test_only_an_answer_about_every_package_is_clean(
    canary: Any, answer: Any, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(pins: Path) -> Any:
        found = answer if pins == PINS else canary
        if pins != PINS:
            assert pins.read_text(encoding="utf-8").strip() == KNOWN_TO_BE_WEAK
        if isinstance(found, Exception):
            raise found
        return found

    assert audit(ask) == code
    output = capsys.readouterr()
    text = output.out + output.err
    assert re.search(said, text), text
    assert ("no known weakness" in text) == (code == NONE)


@pytest.mark.parametrize("text", ["", "Traceback", "[]", '{"fixes": []}'])
def test_what_is_no_answer_of_the_tool_is_told(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], 1, stdout=text, stderr="one\nName or service not known\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(SilentError, match=r"^Name or service not known$"):
        ask_pip_audit(PINS, [])


def test_the_tool_is_asked_about_the_file_with_what_was_added(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> Any:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, stdout=json.dumps({"dependencies": [WEAK]}), stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    assert ask_pip_audit(PINS, ["--ignore-vuln", "CVE-2"]) == [WEAK]
    assert commands[0][1:3] == ["-m", "pip_audit"] and commands[0][-4:] == [
        "--requirement",
        str(PINS),
        "--ignore-vuln",
        "CVE-2",
    ]
