"""Have a judge read comparisons. In: comparisons. Out: readings in both orders, appended to a prediction file.

An interrupted run goes on where it stopped: every (comparison, order) stands in the file exactly once, under one
fingerprint of judge and data.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from filelock import FileLock, Timeout
from rich.progress import Progress

from crm.evaluation.prediction_file import Key, finished, share_of
from crm.io.processes import ALONE, Processes
from crm.judges import Asked, Judge, Reading
from crm.schema import Comparison, Prediction, to_json

log = logging.getLogger(__name__)


def predict(
    judge: Judge,
    comparisons: Sequence[Comparison],
    *,
    suite: str,
    digest: str,
    path: Path,
    progress: bool,
    processes: Processes = ALONE,
) -> dict[str, int]:
    """Append the missing predictions of a suite to ``path``; counts of wanted, already there, made, and left out.

    Several processes each read a block of what is missing into a file of their own, and the first one puts them
    together; another run at the same file waits. A line that a kill cut off is removed first. Raises ``ValueError``
    when the file belongs to another fingerprint, or when two comparisons share an id.
    """
    if len({row.id for row in comparisons}) < len(comparisons):
        twice = next(name for name, count in Counter(row.id for row in comparisons).items() if count > 1)
        raise ValueError(f"suite {suite}: the comparison id {twice!r} occurs twice; every row needs an id of its own")
    wanted: list[Asked] = [(row, order) for row in comparisons for order in ("ab", "ba")]
    with _held(path, processes):
        done = processes.from_first(lambda: finished(path, digest))
        missing = [pair for pair in wanted if (pair[0].id, pair[1]) not in done]
        blocks = _blocks(judge, wanted, missing) if processes.size == 1 else [processes.share(missing)]
        file = path if processes.size == 1 else share_of(path, processes.rank)
        made = _append(judge, blocks, done, suite, digest, file, progress and processes.first)
        if processes.size > 1:
            processes.wait()
            made = len(processes.from_first(lambda: finished(path, digest))) - len(done)
    return {"readings": len(wanted), "already_there": len(done), "made": made, judge.left_out: len(missing) - made}


@contextmanager
def _held(path: Path, processes: Processes) -> Iterator[None]:
    """Have ``path`` for this run alone: two at once would each append what both found missing."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))

    def take() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.info("another run writes %s; waiting for it", path)
            lock.acquire()

    processes.from_first(take)
    try:
        yield
    finally:
        if processes.first:
            lock.release()


def _blocks(judge: Judge, wanted: Sequence[Asked], missing: Sequence[Asked]) -> list[Sequence[Asked]]:
    """What is ``missing``, with all that is computed together with it: then no number depends on where a run ended.

    A block of which an earlier run has left nothing but what cannot be read is not computed again.
    """
    if judge.together == 1:
        return [missing]
    keys = {_key(pair) for pair in missing}

    def to_read(block: Sequence[Asked]) -> bool:
        lacking = [pair for pair in block if _key(pair) in keys]
        # Of a block that nothing is known of, reading it finds out what fits: asking first would encode it twice.
        return len(lacking) == len(block) or any(map(judge.fits, lacking))

    blocks = (wanted[start : start + judge.together] for start in range(0, len(wanted), judge.together))
    return [block for block in blocks if to_read(block)]


def _key(pair: Asked) -> Key:
    return pair[0].id, pair[1]


def _append(
    judge: Judge,
    blocks: Sequence[Sequence[Asked]],
    done: Collection[Key],
    suite: str,
    digest: str,
    path: Path,
    progress: bool,
) -> int:
    """Read ``blocks`` and append to ``path`` what is not ``done``; how many readings that gave."""
    made = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file, Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task(f"{suite:>12}", total=sum(map(len, blocks)))
        for readings in chain.from_iterable(judge.read(block) for block in blocks):
            new = [reading for reading in readings if (reading.comparison.id, reading.order) not in done]
            file.write("".join(to_json(_prediction(reading, suite, digest)) + "\n" for reading in new))
            file.flush()
            made += len(new)
            bar.advance(task, len(readings))
    return made


def _prediction(reading: Reading, suite: str, digest: str) -> Prediction:
    return Prediction(
        comparison_id=reading.comparison.id,
        order=reading.order,
        preference_logit=reading.preference_logit,
        label=reading.comparison.label,
        cluster=reading.comparison.cluster,
        suite=suite,
        fingerprint=digest,
        score_a=reading.score_a,
        score_b=reading.score_b,
        failure=reading.failure,
        tokens=reading.tokens,
    )
