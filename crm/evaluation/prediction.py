"""Have a judge read comparisons. In: comparisons. Out: readings in both orders, appended to a prediction file.

An interrupted run goes on where it stopped: every (comparison, order) stands in the file exactly once, under one
fingerprint of judge and data. Checkpoints on suites are read by a trainer instead (`crm.evaluation.datamodule`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from rich.progress import Progress

from crm.evaluation.prediction_file import SuiteFile
from crm.io.processes import ALONE, Processes
from crm.judges import Judge
from crm.schema import Comparison


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
    file = SuiteFile(judge, comparisons, suite=suite, digest=digest, path=path)
    with file.begun(processes), Progress(disable=not (progress and processes.first), transient=True) as bar:
        portions = file.portions()
        task = bar.add_task(f"{suite:>12}", total=sum(map(len, portions)))
        for readings in chain.from_iterable(map(judge.read, portions)):
            file.append(readings)
            bar.advance(task, len(readings))
        return file.finish()
