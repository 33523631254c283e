"""A trained late judge on the unseen queries of a public bank. In: a checkpoint. Out: `TraitBoards`, a trait each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from crm.criteria.counting import TRAITS, Trait
from crm.criteria.trait_wordings import wording
from crm.dataset.tastes import unseen_queries
from crm.judges import open_checkpoint
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank.public import read_public_bank
from crm.leaderboard.bank_judge import index_bank
from experiments.real_judge.boards import Floats, TraitBoards, trait_boards


def rank(checkpoint: Path, root: str, *, data_seed: int, queries: int, folder: Path) -> list[TraitBoards]:
    """Boards of AlpacaEval's LLMs on ``queries`` unseen queries; the ceiling is from as many other unseen ones."""
    bank = read_public_bank("alpacaeval", root)
    unseen = unseen_queries(root, data_seed)
    own = [query for query in bank.queries if query.id in unseen]
    here, there = (replace(bank, queries=tuple(part)) for part in (own[:queries], own[queries : 2 * queries]))
    judge = open_checkpoint(checkpoint, batch_size=64, precision="32-true")[0]
    indexed = index_bank(judge, here, folder, progress=True)
    if indexed is None:
        raise ValueError(f"checkpoint={checkpoint}: its head reads criteria and response together; train head=late")
    baseline = here.authors.index(here.baseline)

    def scores(trait: Trait, sign: int) -> Floats:
        wishes = torch.stack([indexed.reader.wish([text], None) for text in wording(trait.name, sign).unseen])
        return indexed.index.scores(wishes).astype(np.float64)

    return [
        trait_boards(trait, scores(trait, 1), scores(trait, -1), counts(here, trait), counts(there, trait), baseline)
        for trait in TRAITS
    ]


def counts(bank: Bank, trait: Trait) -> Floats:
    """(Q, M) measures of a trait."""
    return np.array(
        [[trait.measure(bank.responses[author][query.id]) for author in bank.authors] for query in bank.queries]
    )
