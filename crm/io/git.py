"""Which code made a result. Out: the commit of the checkout that this package runs from."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit() -> str:
    """Commit of the code at work, with ``+changes`` where the tree differs; ``unknown`` outside a checkout."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(  # noqa: S603 - fixed words, no shell
            ["git", "-C", str(here), *words],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
