"""Run functions in processes of one thread, several at a time."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from rich.progress import track

CHILD_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    # glibc keeps freed memory instead of giving it back after every step: a quarter of the page faults.
    "MALLOC_TRIM_THRESHOLD_": str(1 << 32),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
}


def side_by_side(tasks: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]], workers: int, what: str) -> None:
    """Each task in a process of its own, ``workers`` at a time; the first error ends the call."""
    for name, value in CHILD_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, end_with_parent, max_tasks_per_child=1) as pool:
        futures = [pool.submit(function, *arguments) for function, arguments in tasks]
        try:
            for future in track(as_completed(futures), what, total=len(futures)):
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def end_with_parent() -> None:
    """Let this process end when the one that started it does, even if that was killed and could tell nobody."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
