"""In: the name of a suite such as ``D-_replace`` and the preferences of each base. Out: its fixed comparisons.

A name is a base (``D``, ``T``, ``C``, ``C_axes``, ...), then ``+`` (direction original) or ``-`` (reverse), then
``_<noise>`` where the criteria are perturbed.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from crm.dataset.comparisons import make_comparisons
from crm.dataset.noise import NOISES, CriteriaPool
from crm.schema import Comparison, Preference

SIGNS = {"+": "original", "-": "reverse"}

log = logging.getLogger(__name__)


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
    name: str, preferences_by_base: Mapping[str, Sequence[Preference]], pool: CriteriaPool | None, seed: int
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
    )


def build_suite(
    name: str, preferences_by_base: Mapping[str, Sequence[Preference]], pool: CriteriaPool | None, seed: int
) -> list[Comparison]:
    """`draw_suite`, with its counts written to the log so that a suite never shrinks unseen."""
    comparisons, counts = draw_suite(name, preferences_by_base, pool, seed)
    log.info("suite %s: %s", name, ", ".join(f"{key} {count}" for key, count in counts.items()))
    return comparisons
