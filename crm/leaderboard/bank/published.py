"""The ranking of a bank's LLMs that others have published: what "most people" prefer, by whom and when."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from crm.data.public.banks import FOLDERS
from crm.leaderboard.bank.config import BankConfig

ALPACAEVAL = "weighted_alpaca_eval_gpt4_turbo_leaderboard.csv"


@dataclass(frozen=True)
class PublishedRanking:
    """``rates`` in [0, 1] and names to ``display``, by LLM; ``title`` says whose they are and of when."""

    title: str
    rates: dict[str, float]
    display: dict[str, str]


def published_ranking(bank: BankConfig, models: Collection[str]) -> PublishedRanking | None:
    """What is beside the bank's files about ``models``; None where nothing is, or not about all of them."""
    path = Path(bank.root) / FOLDERS["alpacaeval"] / ALPACAEVAL
    if bank.name != "alpacaeval" or not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["samples"].partition("/results/")[2].partition("/")[0]: row for row in csv.DictReader(file)}
    if not set(models) <= rows.keys():
        return None
    return PublishedRanking(
        "AlpacaEval 2's, as GPT-4 Turbo judged in 2024 (win rates at equal length)",
        {name: float(rows[name]["length_controlled_winrate"]) / 100 for name in models},
        {name: rows[name]["name"] for name in models},
    )
