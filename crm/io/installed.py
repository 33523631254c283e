"""What is installed here. Out: the commit of the code at work, and what other packages add to this one.

A package adds a head, a judge, a source or a bank by an entry point of the group ``crm.heads``, ``crm.judges``,
``crm.sources`` or ``crm.banks`` (docs/extending.md). Only what somebody has installed is ever imported: no setting and
no file that was downloaded can name code.
"""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

Kind = Literal["heads", "judges", "sources", "banks"]


def check_known(field: str, name: str, own: Collection[str], kind: Kind) -> None:
    """Raise ``ValueError`` unless ``name`` is one of ``own`` or of those that installed packages add."""
    if name not in own and name not in (added := _added(kind)):
        raise ValueError(
            f"{field}={name!r}: expected one of {', '.join([*own, *sorted(added)])}; another package can add more by "
            f"entry points of the group crm.{kind}, see docs/extending.md"
        )


def plugin(kind: Kind, name: str) -> Any:
    """What an installed package adds under ``name``, which `check_known` has found."""
    return _added(kind)[name].load()


def _added(kind: Kind) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"crm.{kind}")}


def commit() -> str:
    """Commit of the code at work, with ``+changes`` where the tree differs; ``unknown`` outside a checkout."""
    git = ["git", "-C", str(Path(__file__).resolve().parent), "describe", "--always", "--abbrev=12", "--exclude=*"]
    try:
        found = subprocess.run([*git, "--dirty=+changes"], capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()
