"""In: the name of a suite such as ``D-_replace`` and the preferences of each base. Out: its fixed comparisons.

They are those that a prepared dataset holds, or a function of the data alone: never of the seed of a run.

A name is a base (``D``, ``T``, ``C``, ``C_axes``, ...), then ``+`` (direction original) or ``-`` (reverse), then
``_<noise>`` where the criteria are perturbed.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from crm.data.comparisons import FIXED_SEED, make_comparisons
from crm.data.noise import NOISES, CriteriaPool
from crm.data.own import dataset
from crm.data.splits import Splits
from crm.schema import Comparison, Preference

SIGNS = {"+": "original", "-": "reverse"}


@dataclass(frozen=True, slots=True)
class SuiteSpec:
    """A suite's name taken apart: ``base`` picks the preferences, ``direction`` and ``noise`` what is done to them."""

    name: str
    base: str
    direction: str
    noise: str


def suite_names(bases: Collection[str], noises: Sequence[str] = ("none",)) -> list[str]:
    """Every suite of these bases and noises: for ``["D"], ["none", "add"]``: D+, D-, D+_add, D-_add."""
    endings = ["" if noise == "none" else f"_{noise}" for noise in noises]
    return [f"{base}{sign}{ending}" for base in bases for ending in endings for sign in SIGNS]


def parse_suite(name: str, bases: Collection[str]) -> SuiteSpec:
    """Take a name apart. Raises ``ValueError`` with the nearest valid name for one that no base and noise make."""
    for base in bases:
        for sign, direction in SIGNS.items():
            for noise in NOISES:
                if name == base + sign + ("" if noise == "none" else f"_{noise}"):
                    return SuiteSpec(name, base, direction, noise)
    valid = suite_names(bases, NOISES)
    near = difflib.get_close_matches(name, valid, n=1, cutoff=0.0)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(
        f"suite: {name!r} is not a suite of this data; {hint}A name is one of {', '.join(bases) or 'no bases'}, "
        f"then + or -, then optionally _ and one of {', '.join(NOISES[1:])}"
    )


def draw_suite(
    name: str,
    preferences_by_base: Mapping[str, Sequence[Preference]],
    pool: CriteriaPool | None,
    *,
    seed: int = FIXED_SEED,
    criteria_mode: str = "own",
) -> tuple[list[Comparison], dict[str, int]]:
    """The comparisons of one suite and the counts of `make_comparisons`. Drawn once, at epoch 0; ties are dropped."""
    spec = parse_suite(name, list(preferences_by_base))
    return make_comparisons(
        preferences_by_base[spec.base],
        direction=spec.direction,
        noise=spec.noise,
        pool=pool,
        seed=seed,
        epoch=0,
        criteria_mode=criteria_mode,
    )


def fixed_suites(
    names: Sequence[str], splits: Splits, *, written: Path | None = None, criteria_mode: str = "own"
) -> dict[str, tuple[list[Comparison], dict[str, int]]]:
    """The comparisons of each suite, the same for every run on these data, and where they are from, in counts.

    Those that stand in the dataset's folder ``written``, as far as their preferences were kept when subsampling; where
    no folder or no file of that suite is given, and under another ``criteria_mode``, drawn with `FIXED_SEED` and with
    training rows as the pool of noise.
    """
    pool = cache(lambda: CriteriaPool.from_preferences(splits.train))  # one for all, and only where it is needed
    suites = {}
    for name in names:
        spec = parse_suite(name, list(splits.suites))
        made = dataset.suite(written, name) if written and criteria_mode == "own" else None
        if made is None:
            noise = pool() if spec.noise != "none" else None
            suites[name] = draw_suite(name, splits.suites, noise, criteria_mode=criteria_mode)
            continue
        kept = {row.id for row in splits.suites[spec.base]}
        rows = [row for row in made if row.preference_id in kept]
        suites[name] = rows, {"read": len(made), "made": len(rows), "dropped_by_subsampling": len(made) - len(rows)}
    return suites
