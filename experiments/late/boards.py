"""Kendall's tau between a judge's leaderboards of the simulated LLMs and the true ones, by criterion.

Suites hold pairs that differ in what is asked. A leaderboard holds also all pairs that do not, so that a judge that
takes two criteria for one has good suites and wrong leaderboards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pandas as pd
from scipy.special import expit

from crm.data.simulation.lexicon import TRAIN_AXES, wordings
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.opening import SimulatedBank, simulate_bank
from crm.leaderboard.scoring import bank_comparisons
from crm.model.encoding import Order
from crm.model.heads import head_named
from crm.report.statistics import rank_correlation
from experiments.truth import true_win_rates

BANK_SEED, QUERIES_PER_TOPIC = 7, 5


def boards(judge: CrmJudge) -> pd.DataFrame:
    """Columns ``axis``, ``sign``, ``truth`` and ``opposite``: tau with the true win rates and with the other side's.

    Criteria about axes of training, in wordings that training never had; 13 LLMs, 60 queries.
    """
    simulated = simulate_bank(seed=BANK_SEED, queries_per_topic=QUERIES_PER_TOPIC)
    criteria = {(axis, sign): wordings(axis, sign, "held_out")[0] for axis in TRAIN_AXES for sign in (1, -1)}
    rates = win_rates(judge, simulated, list(criteria.values()))
    rows = []
    for (axis, sign), criterion in criteria.items():
        truth = true_win_rates(simulated, (criterion,))
        rows.append((axis, sign, tau(rates[criterion], truth), tau(rates[criterion], rates[criteria[axis, -sign]])))
    return pd.DataFrame(rows, columns=["axis", "sign", "truth", "opposite"])


def win_rates(judge: CrmJudge, simulated: SimulatedBank, criteria: list[str]) -> dict[str, dict[str, float]]:
    """By criterion and candidate; a head that reads both responses at once is asked in both orders."""
    bank = simulated.bank
    orders = get_args(Order) if head_named(judge.encoder.head).joint else get_args(Order)[:1]
    asked = [
        (replace(row, id=str(number)), order)
        for number, row in enumerate(row for criterion in criteria for row in bank_comparisons(bank, (criterion,)))
        for order in orders
    ]
    candidates = [name for name in bank.authors if name != bank.baseline]
    logits = np.zeros(len(criteria) * len(bank.queries) * len(candidates))
    for portion in judge.read(asked):
        for reading in portion:
            assert reading.preference_logit is not None, "a simulated text that is too long"
            logits[int(reading.comparison.id)] += reading.preference_logit / len(orders)
    rates = expit(logits.reshape(len(criteria), len(bank.queries), len(candidates))).mean(axis=1)
    return {
        criterion: dict(zip(candidates, row.tolist(), strict=True))
        for criterion, row in zip(criteria, rates, strict=True)
    }


def tau(one: dict[str, float], other: dict[str, float]) -> float:
    """Kendall's tau-b over the models of ``one``."""
    return rank_correlation(*(np.array([rates[name] for name in one]) for rates in (one, other)))
