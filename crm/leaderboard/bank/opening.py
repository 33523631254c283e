"""Open a bank by its settings, made smaller where they say so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from crm.io.installed import plugin
from crm.leaderboard.bank.bank import Bank, check_baseline, load_bank
from crm.leaderboard.bank.config import BankConfig
from crm.leaderboard.bank.public import FOLDERS, read_public_bank, smaller_bank
from crm.leaderboard.bank.simulated import simulate_bank
from crm.schema import prompt_key


def open_bank(config: BankConfig) -> Bank:
    """The bank that the settings name, with their baseline, without the queries that they leave out.

    Raises ``ValueError`` where there is nobody to rank, or not that baseline.
    """
    if config.name == "simulated":
        bank = simulate_bank(seed=config.seed, queries_per_topic=config.queries_per_topic).bank
    elif config.name == "folder":
        bank = load_bank(Path(str(config.path)))
    elif config.name in FOLDERS:
        bank = read_public_bank(config.name, config.root)
    else:
        bank = plugin("banks", config.name)(config.path)
    if len(bank.responses) < 2:
        raise ValueError(
            f"bank {bank.name!r}: holds the responses of {bank.baseline!r} alone; add another model "
            "(python bank.py out=<folder> author=<name> responses=<file>)"
        )
    baseline = config.baseline or bank.baseline
    check_baseline(bank, baseline)
    bank = replace(bank, baseline=baseline)
    known = (read_public_bank(name, config.root) for name in config.without)
    without = {prompt_key(query.prompt) for other in known for query in other.queries}
    if not (without or config.queries or config.max_words):
        return bank
    return smaller_bank(bank, without=without, queries=config.queries, max_words=config.max_words, seed=config.seed)
