"""A run folder for one run at a time. In: its path. Out: a lock that ends with the process, however that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from crm.training.config import TrainConfig
from crm.training.sweep_jobs import SUMMARY, is_first_rank

LOCK = ".run.lock"


class AnotherRunError(ValueError):
    """The run folder belongs to another run: nothing may be written into it, not even that this one failed."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold ``folder`` (made if needed) for this run; the first of its processes holds it for all.

    Raises `AnotherRunError` where another run is at work there.
    """
    if not is_first_rank():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise AnotherRunError(
            f"hydra.run.dir={folder}: another training is at work there; wait for it, or name another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


def check_unfinished(config: TrainConfig) -> None:
    """Raise `AnotherRunError` where ``run_dir`` holds a finished run, unless ``overwrite=true`` or ``resume=true``."""
    folder = Path(config.run_dir)
    if (folder / SUMMARY).is_file() and not config.overwrite and not config.resume:
        raise AnotherRunError(
            f"hydra.run.dir={folder}: a finished run is there; name another folder, or overwrite=true replaces it"
        )
