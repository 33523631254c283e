"""A simulated bank as a trained late judge reads it: contrasts of a pool, and the true levels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crm.data.simulation.lexicon import HELD_OUT_AXES, TRAIN_AXES, wordings
from crm.judges.crm_judge import open_checkpoint
from crm.leaderboard.bank.opening import simulate_bank
from crm.leaderboard.index import index_bank
from crm.picking.criteria import Contrasts, contrasts
from crm.report.statistics import Floats

POOL = 12
"""Criteria: the first axes that training had."""
TYPED_WORDING = 7
"""Which of the wordings a person types; the pool has the first. Training had neither."""


@dataclass(frozen=True)
class World:
    """``pool`` (Q, M, POOL) in the pool's wordings; ``typed`` (2, Q, M, POOL), of the side for and the side against, in
    a person's own; ``levels`` (Q, M, A), the pool's axes first.
    """

    pool: Contrasts
    typed: tuple[Contrasts, Contrasts]
    levels: Floats
    baseline: int


def world(checkpoint: Path, folder: Path, seed: int) -> World:
    """Bank ``seed``, 13 LLMs and 240 queries, indexed under ``folder``. Raises ``ValueError`` for another head."""
    simulated = simulate_bank(seed=seed)
    bank = simulated.bank
    judge = open_checkpoint(checkpoint, batch_size=64, precision="32-true")[0]
    indexed, reader = index_bank(judge, bank, folder, progress=True), judge.late_reader
    if indexed is None or reader is None:
        raise ValueError(f"{checkpoint}: keeps no vectors of responses; train head=late")
    axes = TRAIN_AXES[:POOL]

    def scores(sign: int, wording: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        criteria = [wordings(axis, sign, "held_out")[wording] for axis in axes]
        return indexed.scores_for(reader.criterion_vectors(criteria))

    nothing = np.zeros((POOL, len(bank.queries), len(bank.authors)), dtype=np.float32)
    typed = (contrasts(scores(1, TYPED_WORDING), nothing), contrasts(scores(-1, TYPED_WORDING), nothing))
    order = (*axes, *TRAIN_AXES[POOL:], *HELD_OUT_AXES)
    levels = [
        [[simulated.levels[author][query.id][axis] for axis in order] for author in bank.authors]
        for query in bank.queries
    ]
    pool = contrasts(scores(1, 0), scores(-1, 0))
    return World(pool, typed, np.array(levels, dtype=np.float64), bank.authors.index(bank.baseline))
