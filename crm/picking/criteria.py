"""Criteria that a person may have, each with its opposite, and what they say of the responses of a bank.

A contrast is half of what a criterion's score has over its opposite's, in units of how much two responses to one query
differ in it. Letters: Q queries, M models, K criteria, C candidate pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass as checked_dataclass

from crm.criteria.pool import read_entries
from crm.leaderboard.outcomes import Flags
from crm.report.statistics import Floats, Indices
from crm.schema import Text

SIMULATED = files("crm.picking").joinpath("pool_simulated.yaml")
"""For the simulated bank, whose judges know other words than those of real text."""
LEAST_UNIT = 1e-6
"""A criterion in which responses differ by less says nothing, and its contrasts are 0."""
ALIKE = 0.8
"""Correlation from which two criteria are one."""


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PoolEntry:
    """Two criteria as a judge reads them; a weight below 0 is the opposite's."""

    name: Text
    like: Text
    opposite: Text


Pool = Annotated[tuple[PoolEntry, ...], Field(min_length=2, max_length=64)]


def read_pool(path: Path | Traversable | None = None) -> tuple[PoolEntry, ...]:
    """The entries of a YAML file, or the 12 of the package. Raises ``ValueError`` naming entry and field."""
    return read_entries(path or files("crm.picking").joinpath("pool.yaml"), Pool)


@dataclass(frozen=True)
class Contrasts:
    """``values`` (Q, M, K), NaN where a response could not be read; ``units`` (K,) in log-odds of the judge."""

    values: Floats
    units: Floats

    def difference(self, query: int | Indices, left: int | Indices, right: int | Indices) -> Floats:
        """(K,), or (C, K) for places (C,) each: what the left response has over the right one."""
        return np.asarray(self.values[query, left] - self.values[query, right])

    def ranked_on(self, baseline: int) -> Flags:
        """(Q,): was the baseline read and another response, and does none lack only some of its contrasts?"""
        missing = np.isnan(self.values)
        unread = np.asarray(missing.all(axis=2))
        whole = (unread == missing.any(axis=2)).all(axis=1)
        return np.asarray(whole & ~unread[:, baseline] & ((~unread).sum(axis=1) > 1))

    def pairs(self, count: int, rng: np.random.Generator) -> Indices:
        """(C, 3) query, left and right, drawn among those that differ and were read; C is at most ``count``."""
        queries, models, _ = self.values.shape
        query, left = rng.integers(queries, size=count), rng.integers(models, size=count)
        drawn = np.stack((query, left, (left + rng.integers(1, models, size=count)) % models), axis=1)
        gaps = self.difference(*drawn.T)
        return np.asarray(drawn[np.isfinite(gaps).all(axis=1) & (gaps != 0).any(axis=1)])


def contrasts(likes: npt.NDArray[np.float32], opposites: npt.NDArray[np.float32]) -> Contrasts:
    """From scores (K, Q, M) of the criteria and of their opposites; 0 for an opposite that nobody named."""
    raw = (likes.astype(np.float64) - opposites).transpose(1, 2, 0) / 2
    spread = np.ma.masked_invalid(raw).var(axis=1, ddof=1)  # masked where fewer than two responses were read
    units = np.sqrt(2 * spread.mean(axis=0).filled(0.0))
    known = units > LEAST_UNIT
    return Contrasts(np.where(known, raw / np.where(known, units, 1.0), np.where(np.isnan(raw), np.nan, 0.0)), units)


def joined(typed: Contrasts, pool: Contrasts) -> tuple[Contrasts, Indices]:
    """What a person typed, then the criteria of a pool that are not `ALIKE` to any of it; and places of the latter.

    The sign of a correlation does not matter: an opposite is the same criterion.
    """
    one, other = _centred(typed.values), _centred(pool.values)
    kept = np.flatnonzero((np.abs(one.T @ other) < ALIKE).all(axis=0))
    values = np.concatenate((typed.values, pool.values[..., kept]), axis=2)
    return Contrasts(values, np.concatenate((typed.units, pool.units[kept]))), kept


def _centred(values: Floats) -> Floats:
    read = np.ma.masked_invalid(values)
    centred = (read - read.mean(axis=1, keepdims=True)).filled(0.0).reshape(-1, values.shape[2])
    length = np.sqrt((centred**2).sum(axis=0))
    return np.asarray(centred / np.where(length > 0, length, 1.0))
