"""Forked children that are killed. In: a function and seconds. Out: whether it was killed, or ended by itself.

They are forked, so that what this process has imported and opened costs them nothing. Ctrl-C is for the parent, who
then kills them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from bench.soak.tied import end_with_parent

FORK = multiprocessing.get_context("fork")
PATIENCE_S = 300.0
"""Seconds after which a child that nobody meant to kill counts as one that hangs."""


class ChildError(Exception):
    """A child that ended otherwise than it should: the last line that it wrote."""


def killed_after(seconds: float | None, log: Path, target: Callable[..., Any], *arguments: Any) -> bool:
    """Run ``target`` in a child; SIGKILL after so many seconds, or never. Whether it was killed.

    Raises `ChildError` where it failed by itself, or hangs.
    """
    process = started(log, target, *arguments)
    try:
        process.join(PATIENCE_S if seconds is None else seconds)
        if process.is_alive() and seconds is None:
            raise ChildError(f"hangs: not done after {PATIENCE_S:g} s")
    finally:
        process.kill()
        process.join()
    if process.exitcode == 0:
        return False
    if process.exitcode == -signal.SIGKILL and seconds is not None:
        return True
    raise ChildError(f"exit code {process.exitcode}: {last_line(log)}")


def exit_code(log: Path, target: Callable[..., Any], *arguments: Any) -> int | None:
    """How a child ended; ``None`` for one that hung and was killed."""
    process = started(log, target, *arguments)
    try:
        process.join(PATIENCE_S)
        return process.exitcode
    finally:
        process.kill()
        process.join()


def started(log: Path, target: Callable[..., Any], *arguments: Any) -> BaseProcess:
    """The child, at work; what it prints goes to ``log``."""
    process = FORK.Process(target=_work, args=(log, target, arguments), daemon=True)
    process.start()
    return process


def _work(log: Path, target: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.stdout = sys.stderr = file = log.open("w", encoding="utf-8", buffering=1)  # open until the child's end
    for stream in (1, 2):
        os.dup2(file.fileno(), stream)
    target(*arguments)


def last_line(log: Path) -> str:
    """The last words of a child, or none."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "said nothing")
    return "said nothing"
