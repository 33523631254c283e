"""Where a run is written down. In: a run folder and the kind of logger. Out: Lightning loggers, and a clean end.

CSV is always written, so that tables and plots never depend on a service. W&B is offline unless the user has logged
in: no prompt and no network.
"""

from __future__ import annotations

import logging
import netrc
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger

log = logging.getLogger(__name__)
WANDB_HOST = "api.wandb.ai"


def build_loggers(kind: str, run_dir: Path, *, project: str, name: str | None, config: dict[str, Any]) -> list[Logger]:
    """CSV first, then the chosen one. ``config`` is a plain dict and is logged to all of them."""
    loggers: list[Logger] = [CSVLogger(run_dir, name="", version="")]
    if kind == "wandb":
        from lightning.pytorch.loggers import WandbLogger

        offline = not wandb_logged_in()
        if offline:
            log.info("W&B runs offline (not logged in); `wandb sync %s` uploads it later", run_dir / "wandb")
        loggers.append(WandbLogger(name=name, project=project, save_dir=run_dir, offline=offline, config=config))
    elif kind == "tensorboard":
        loggers.append(_tensorboard(run_dir))
    for logger in loggers:
        logger.log_hyperparams(config)
    return loggers


def _tensorboard(run_dir: Path) -> Logger:
    from lightning.pytorch.loggers import TensorBoardLogger

    try:
        return TensorBoardLogger(run_dir, name="tensorboard", version="")
    except ModuleNotFoundError:
        raise ValueError("logger=tensorboard: pip install 'crm-leaderboard[tensorboard]', or use logger=csv") from None


def wandb_logged_in() -> bool:
    """Whether a key is at hand, in the environment or in netrc, and W&B is not switched off."""
    if os.environ.get("WANDB_MODE", "online") != "online":
        return False
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False


@contextmanager
def finished(loggers: list[Logger]) -> Iterator[None]:
    """End W&B's run whatever happens, as failed where the body raised: the next job of a sweep gets its own."""
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        if any(type(logger).__name__ == "WandbLogger" for logger in loggers):
            import wandb

            wandb.finish(exit_code=exit_code)
        for logger in loggers:
            logger.finalize("success" if exit_code == 0 else "failed")


def log_table(loggers: list[Logger], key: str, columns: list[str], rows: list[list[Any]]) -> None:
    """A table where the logger can show one (W&B); the caller keeps its own CSV."""
    for logger in loggers:
        if type(logger).__name__ == "WandbLogger":
            logger.log_table(key, columns=columns, data=rows)  # type: ignore[attr-defined]


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
