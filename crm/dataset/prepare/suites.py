"""In: the suites' preferences. Out: their comparisons, fixed: both directions, clean and with every noise."""

from __future__ import annotations

from collections.abc import Sequence

from crm.dataset.noise import NOISES, CriteriaPool
from crm.dataset.prepare.split import read_part
from crm.dataset.prepare.workspace import Workspace
from crm.dataset.suites import draw_suite, suite_names
from crm.io.parquet import read_parquet, write_parquet
from crm.schema import Comparison, Preference

BASES = ("D", "T", "C")


def planned_suites(noises: Sequence[str]) -> list[str]:
    """Names of the suites: every base, both directions, every noise."""
    return suite_names(BASES, noises)


def make_suites(space: Workspace, noises: Sequence[str], seed: int) -> dict[str, int]:
    """Write every suite as `crm.dataset.suites.draw_suite` draws it, an empty one too; counts of comparisons.

    Suites of other noises, which an earlier run made of other rows, are removed.
    """
    for name in {*planned_suites(NOISES)} - {*planned_suites(noises)}:
        space.suite(name).unlink(missing_ok=True)
    pool = CriteriaPool.from_preferences(read_parquet(space.part("train"), Preference))
    counts = {}
    for base in BASES:
        rows = {base: read_part(space, base)}
        for name in suite_names([base], noises):
            comparisons, _ = draw_suite(name, rows, pool, seed=seed)
            counts[name] = write_parquet(space.suite(name), Comparison, comparisons)
    return counts
