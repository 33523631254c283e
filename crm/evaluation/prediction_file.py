"""A suite's prediction file, from first reading to last. In: comparisons, a judge. Out: each reading exactly once.

`SuiteFile` says what is missing and takes readings as they come, whoever computes them: `predict` asks a judge, suites
of a checkpoint are read under a trainer (`crm.evaluation.datamodule`). Several processes write a share each,
``<name>.<rank>.part`` beside the file; the first one puts them together, or the next run where this one was killed.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout
from rich.progress import Progress

from crm.io.files import read_records, record_line, replace_file
from crm.io.processes import ALONE, Processes
from crm.judges.judge import Asked, Judge, Reading
from crm.schema import Comparison, Prediction, to_json

log = logging.getLogger(__name__)
Key = tuple[str, str]


def reading_digest(judge_digest: str, comparisons: Sequence[Comparison]) -> str:
    """16 hex digits of the judge and every byte of the comparisons, in any order of them."""
    rows = sorted(hashlib.sha256(to_json(row).encode("utf-8", "surrogatepass")).hexdigest() for row in comparisons)
    return hashlib.sha256("|".join([judge_digest, *rows]).encode()).hexdigest()[:16]


def read_predictions(path: Path | str) -> list[Prediction]:
    """Read a prediction file; errors and a cut-off last line are treated as in `crm.io.files.read_records`."""
    return read_records(path, Prediction)


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
    """Append the missing readings of a suite to ``path``; counts of wanted, already there, made, and left out.

    Several processes each read a block of what is missing. Raises ``ValueError`` as `SuiteFile` does.
    """
    file = SuiteFile(judge, comparisons, suite=suite, digest=digest, path=path)
    try:
        file.begin(processes)
        with Progress(disable=not (progress and processes.first), transient=True) as bar:
            portions = file.portions()
            task = bar.add_task(f"{suite:>12}", total=sum(map(len, portions)))
            for readings in chain.from_iterable(map(judge.read, portions)):
                file.append(readings)
                bar.advance(task, len(readings))
            return file.finish()
    finally:
        file.abandon()


class SuiteFile:
    """The readings of ``comparisons`` in both orders, in ``path``, under one ``digest``.

    `begin`, `append` and `finish` in this order; `abandon` where it ends otherwise, which keeps what was appended.
    Raises ``ValueError`` when two comparisons share an id.
    """

    def __init__(self, judge: Judge, comparisons: Sequence[Comparison], *, suite: str, digest: str, path: Path) -> None:
        if len({row.id for row in comparisons}) < len(comparisons):
            twice = next(name for name, count in Counter(row.id for row in comparisons).items() if count > 1)
            raise ValueError(
                f"suite {suite}: the comparison id {twice!r} occurs twice; every row needs an id of its own"
            )
        self.suite, self.path = suite, path
        self.wanted: list[Asked] = [(row, order) for row in comparisons for order in ("ab", "ba")]
        self._judge, self._digest = judge, digest
        self._processes = ALONE
        self._lock = FileLock(path.with_name(f".{path.name}.lock"))
        self._done: set[Key] = set()
        self._missing: list[Asked] = []
        self._portions: list[Sequence[Asked]] | None = None
        self._made = 0
        self._file: TextIO | None = None

    def begin(self, processes: Processes) -> None:
        """Have the file for this run alone and see what stands in it; all ``processes`` together.

        Another run at the same file is waited for: two at once would each append what both found missing. A line that
        a kill cut off is removed. Raises ``ValueError`` when the file belongs to another digest.
        """
        self._processes, self._portions, self._made = processes, None, 0
        processes.from_first(self._hold)
        self._done = processes.from_first(lambda: finished(self.path, self._digest))
        self._missing = [pair for pair in self.wanted if _asked_key(pair) not in self._done]
        place = self.path if processes.size == 1 else share_of(self.path, processes.rank)
        place.parent.mkdir(parents=True, exist_ok=True)
        self._file = place.open("a", encoding="utf-8")

    def _hold(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            log.info("another run writes %s; waiting for it", self.path)
            self._lock.acquire()

    def portions(self) -> list[Sequence[Asked]]:
        """What this process has to read: of several, its share of what is missing.

        One process alone reads with it all that is computed together with it: then no number depends on where a run
        ended. A portion of which an earlier run has left nothing but what cannot be read is not computed again.
        """
        if self._portions is None:
            self._portions = self._cut()
        return self._portions

    def _cut(self) -> list[Sequence[Asked]]:
        together = self._judge.together
        if self._processes.size > 1 or together == 1:
            own = self._processes.share(self._missing)
            return [own[at : at + together] for at in range(0, len(own), together)] if together > 1 else [own]
        keys = {_asked_key(pair) for pair in self._missing}

        def to_read(portion: Sequence[Asked]) -> bool:
            lacking = [pair for pair in portion if _asked_key(pair) in keys]
            # Of a portion that nothing is known of, reading it finds out what fits: asking first would encode it twice.
            return len(lacking) == len(portion) or any(map(self._judge.fits, lacking))

        portions = (self.wanted[start : start + together] for start in range(0, len(self.wanted), together))
        return [portion for portion in portions if to_read(portion)]

    def lacks(self, comparison_id: str, order: str) -> bool:
        """Whether this reading did not stand in the file when the run began."""
        return (comparison_id, order) not in self._done

    def append(self, readings: Iterable[Reading]) -> None:
        """Write those that the file lacks; they stand there when this returns."""
        assert self._file is not None, "begin comes first"
        new = [reading for reading in readings if self.lacks(reading.comparison.id, reading.order)]
        self._file.write("".join(record_line(_prediction(row, self.suite, self._digest)) for row in new))
        self._file.flush()
        self._made += len(new)

    def finish(self) -> dict[str, int]:
        """Put the shares together and let the file go; counts of wanted, already there, made and left out, of all."""
        self._close()
        if self._processes.size > 1:
            self._processes.wait()
            self._made = len(self._processes.from_first(lambda: finished(self.path, self._digest))) - len(self._done)
        self.abandon()
        left_out = len(self._missing) - self._made
        counts = {"readings": len(self.wanted), "already_there": len(self._done), "made": self._made}
        return {**counts, self._judge.left_out: left_out}

    def abandon(self) -> None:
        """Let the file go as it is; calling it again changes nothing."""
        self._close()
        self._lock.release()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _asked_key(pair: Asked) -> Key:
    return pair[0].id, pair[1]


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


def share_of(path: Path, rank: int) -> Path:
    """Where the process ``rank`` writes its part of ``path``."""
    return path.with_name(f"{path.name}.{rank}.part")


def finished(path: Path, digest: str) -> set[Key]:
    """(comparison id, order) of all predictions in ``path``, after its shares were added and cut lines removed.

    Raises ``ValueError`` when the file, or a share, holds predictions of another fingerprint.
    """
    shares = sorted(path.parent.glob(f"{escape(path.name)}.*.part"))
    done = {_key(row): row for row in _rows(path, digest)}
    before = len(done)
    for share in shares:
        for row in _rows(share, digest):
            # A kill between writing the file and removing the shares leaves rows in both.
            done.setdefault(_key(row), row)
    if len(done) > before:
        replace_file(path, "".join(map(record_line, done.values())))
    for share in shares:
        share.unlink()
    return set(done)


def _key(row: Prediction) -> Key:
    return row.comparison_id, row.order


def _rows(path: Path, digest: str) -> list[Prediction]:
    if not path.exists():
        return []
    _drop_cut_line(path)
    rows = read_records(path, Prediction)
    others = {row.fingerprint for row in rows} - {digest}
    if others:
        raise ValueError(
            f"{path}: holds predictions of {', '.join(sorted(others))}, this run is {digest}; move it away"
        )
    return rows


def _drop_cut_line(path: Path) -> None:
    """Cut the file after its last line break: what follows was being written when the run was killed."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if end != len(content):
        with path.open("r+b") as file:
            file.truncate(end)
