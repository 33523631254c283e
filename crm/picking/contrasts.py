"""What each criterion says of every response of a bank.

A contrast is half of what the criterion's score has over its opposite's, in units of how much two responses to one
query differ in it. Letters: Q queries, M models, K criteria, C candidate pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crm.report.statistics import Floats, Indices

LEAST_UNIT = 1e-6
"""A criterion in which responses differ by less says nothing, and its contrasts are 0."""
ALIKE = 0.8
"""Correlation from which two criteria are one."""


@dataclass(frozen=True)
class Contrasts:
    """``values`` (Q, M, K), NaN where a response could not be read; ``units`` (K,) in log-odds of the judge."""

    values: Floats
    units: Floats

    def difference(self, query: int, left: int, right: int) -> Floats:
        """(K,): what the left response has over the right one."""
        return np.asarray(self.values[query, left] - self.values[query, right])

    def gaps(self, pairs: Indices) -> Floats:
        """(C, K): the `difference` of each of ``pairs`` (C, 3)."""
        query, left, right = pairs.T
        return np.asarray(self.values[query, left] - self.values[query, right])

    def pairs(self, count: int, rng: np.random.Generator) -> Indices:
        """(C, 3) query, left and right, drawn among those that differ and were read; C is at most ``count``."""
        queries, models, _ = self.values.shape
        drawn = np.stack(
            (
                rng.integers(queries, size=count),
                left := rng.integers(models, size=count),
                (left + rng.integers(1, models, size=count)) % models,
            ),
            axis=1,
        )
        gaps = self.gaps(drawn)
        return np.asarray(drawn[np.isfinite(gaps).all(axis=1) & (gaps != 0).any(axis=1)])


def contrasts(likes: npt.NDArray[np.float32], opposites: npt.NDArray[np.float32]) -> Contrasts:
    """From scores (K, Q, M) of the criteria and of their opposites; 0 for an opposite that nobody named."""
    raw = (likes.astype(np.float64) - opposites).transpose(1, 2, 0) / 2
    spread = np.nanvar(raw, axis=1, ddof=1).mean(axis=0) if raw.shape[1] > 1 else np.zeros(raw.shape[2])
    units = np.sqrt(2 * spread)
    known = units > LEAST_UNIT
    return Contrasts(np.where(known, raw / np.where(known, units, 1.0), np.where(np.isnan(raw), np.nan, 0.0)), units)


def joined(typed: Contrasts, pool: Contrasts) -> tuple[Contrasts, Indices]:
    """What a person typed and then the criteria of a pool that are not `ALIKE` to any of it; and places of the latter.

    The sign of a correlation does not matter: an opposite is the same criterion.
    """
    one, other = _centred(typed.values), _centred(pool.values)
    kept = np.flatnonzero((np.abs(one.T @ other) < ALIKE).all(axis=0))
    values = np.concatenate((typed.values, pool.values[..., kept]), axis=2)
    return Contrasts(values, np.concatenate((typed.units, pool.units[kept]))), kept


def _centred(values: Floats) -> Floats:
    centred = np.nan_to_num(values - np.nanmean(values, axis=1, keepdims=True)).reshape(-1, values.shape[2])
    length = np.sqrt((centred**2).sum(axis=0))
    return np.asarray(centred / np.where(length > 0, length, 1.0))
