"""One suite's prediction file in the making. In: comparisons and who reads them. Out: the file, every reading once.

`SuiteFile` says what is missing and takes readings as they come. Several processes each write a share beside the file,
and the first one puts them together. Who computes the readings, and where, it does not know.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from filelock import FileLock, Timeout

from crm.evaluation.prediction_file import Key, finished, share_of
from crm.io.processes import ALONE, Processes
from crm.judges import Asked, Judge, Reading
from crm.schema import Comparison, Prediction, to_json

log = logging.getLogger(__name__)


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

    @contextmanager
    def begun(self, processes: Processes) -> Iterator[None]:
        """`begin` at the start; `abandon` where it was not finished."""
        try:
            self.begin(processes)
            yield
        finally:
            self.abandon()

    def begin(self, processes: Processes) -> None:
        """Have the file for this run alone and see what stands in it; all ``processes`` together.

        Another run at the same file is waited for: two at once would each append what both found missing. A line that
        a kill cut off is removed. Raises ``ValueError`` when the file belongs to another digest.
        """
        self._processes, self._portions, self._made = processes, None, 0
        processes.from_first(self._hold)
        self._done = processes.from_first(lambda: finished(self.path, self._digest))
        self._missing = [pair for pair in self.wanted if _key(pair) not in self._done]
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
        keys = {_key(pair) for pair in self._missing}

        def to_read(portion: Sequence[Asked]) -> bool:
            lacking = [pair for pair in portion if _key(pair) in keys]
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
        self._file.write("".join(to_json(_prediction(row, self.suite, self._digest)) + "\n" for row in new))
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


def _key(pair: Asked) -> Key:
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
