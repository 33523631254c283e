"""A trained late judge on the unseen queries of a public bank."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from crm.criteria.traits import Trait
from crm.judges.crm_judge import CrmJudge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import read_public_bank
from crm.leaderboard.index import index_bank
from experiments.real_judge.boards import Floats, TraitBoards, trait_boards
from experiments.real_judge.source import unseen_queries
from experiments.real_judge.traits import TRAITS, wording


def rank(judge: CrmJudge, root: str, *, data_seed: int, queries: int, folder: Path) -> list[TraitBoards]:
    """Boards of AlpacaEval's LLMs on ``queries`` unseen queries; the ceiling is from as many other unseen ones."""
    bank = read_public_bank("alpacaeval", root)
    unseen = unseen_queries(root, data_seed)
    own = [query for query in bank.queries if query.id in unseen]
    here, there = (bank.of_queries(some) for some in (own[:queries], own[queries : 2 * queries]))
    indexed, reader = index_bank(judge, here, folder, progress=True), judge.late_reader
    if indexed is None or reader is None:
        raise ValueError(f"head={judge.encoder.head}: reads criteria and response together; train head=late")
    baseline = here.authors.index(here.baseline)

    def scores(trait: Trait, sign: int) -> Floats:
        return indexed.scores_for(reader.criterion_vectors(wording(trait.name, sign).unseen)).astype(np.float64)

    return [
        trait_boards(trait, scores(trait, 1), scores(trait, -1), counts(here, trait), counts(there, trait), baseline)
        for trait in TRAITS
    ]


def counts(bank: Bank, trait: Trait) -> Floats:
    """(Q, M) measures of a trait."""
    return np.array(
        [[trait.measure(bank.responses[author][query.id]) for author in bank.authors] for query in bank.queries]
    )
