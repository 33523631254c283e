"""Final numbers as one run in W&B or TensorBoard. W&B is offline unless the user has logged in."""

from __future__ import annotations

import math
import netrc
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

import pandas as pd

WANDB_HOST = "api.wandb.ai"
NO_TENSORBOARD = "logger=tensorboard: pip install 'crm-leaderboard[tensorboard]', or use logger=csv"


class Tracker(Protocol):
    """The settings ``logger``; a name or group of None is the caller's."""

    kinds: list[str]
    mode: str | None

    def wandb_settings(self, name: str, group: str) -> dict[str, Any]:
        """What `wandb.init` takes of them."""
        ...


def track(
    tracker: Tracker,
    run_dir: Path,
    *,
    name: str,
    group: str,
    config: Mapping[str, Any],
    numbers: Mapping[str, float],
    tables: Mapping[str, pd.DataFrame],
) -> None:
    """Log ``numbers``, named ``split/name``, and ``tables`` as one run; ``csv`` adds nothing to the run folder.

    The run has ``name`` and ``group`` where ``tracker`` has none. Numbers that are not finite are left out.
    """
    known = {key: float(value) for key, value in numbers.items() if math.isfinite(value)}
    if "wandb" in tracker.kinds:
        run = {**tracker.wandb_settings(name, group), "config": dict(config), "mode": wandb_mode(tracker.mode)}
        _to_wandb(run_dir, run, known, tables)
    if "tensorboard" in tracker.kinds:
        _to_tensorboard(run_dir / "tensorboard", known)


def check_tracker(kinds: Sequence[str]) -> None:
    """Raise ``ValueError`` for a tracker that is not installed, before anything is computed."""
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError(NO_TENSORBOARD)


def wandb_mode(mode: str | None) -> Literal["online", "offline", "disabled"]:
    """The ``mode`` that was asked for, else that of ``WANDB_MODE``, else online where a key is at hand."""
    chosen = mode or os.environ.get("WANDB_MODE") or ("online" if _wandb_key() else "offline")
    return "disabled" if chosen == "disabled" else "offline" if chosen in ("offline", "dryrun") else "online"


def _wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


def _to_wandb(
    run_dir: Path, run: Mapping[str, Any], numbers: Mapping[str, float], tables: Mapping[str, pd.DataFrame]
) -> None:
    import wandb

    (run_dir / "wandb").mkdir(parents=True, exist_ok=True)
    with wandb.init(dir=run_dir, **run) as started:
        started.log({**numbers, **{key: wandb.Table(dataframe=frame) for key, frame in tables.items()}})


def _to_tensorboard(folder: Path, numbers: Mapping[str, float]) -> None:
    from tensorboard.summary import Writer

    writer = Writer(str(folder))
    for key, value in numbers.items():
        writer.add_scalar(key, value, step=0)
    writer.close()
