"""What is chosen from, for whom, and its worth. In: `BestOfNConfig`. Out: `Candidates`; their gold and its unit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from crm.criteria.profiles import teller
from crm.io.chat.cache import ReplyCache
from crm.io.chat.config import make_endpoint
from crm.judges import open_judge
from crm.leaderboard.bank.opening import open_bank
from crm.rewards.best_of_n import personalized_rewardbench as prb
from crm.rewards.best_of_n.candidates import Candidates, of_bank, read_file, read_prompts, simulated
from crm.rewards.best_of_n.config import BestOfNConfig
from crm.rewards.best_of_n.estimator import Floats
from crm.rewards.best_of_n.gold import by_judge, by_trait, of_column, opposite_of, trait_named, wish_for
from crm.rewards.best_of_n.sampling import Sampler
from crm.rewards.scoring import Rewards
from crm.schema import GENERIC_CRITERION

log = logging.getLogger(__name__)
SAMPLES = Path("outputs/best_of_n_samples.sqlite")
"""Replies of endpoints, kept between runs."""


def open_candidates(config: BestOfNConfig) -> list[Candidates]:
    """The pool that the settings name, before they say anything about criteria."""
    settings = config.candidates
    if settings.name == "simulation":
        return simulated(seed=config.seed, count=settings.queries, n=settings.n)
    if settings.name == "bank":
        return of_bank(open_bank(config.bank))
    path = Path(str(settings.path))
    if settings.name == "file":
        return read_file(path)
    if settings.name == "personalized_rewardbench":
        tell = teller("first", posts=settings.posts)
        assert tell is not None, "a kind of profile that tells nothing"
        return prb.candidates_of(prb.read_samples(path), settings.told, tell)
    sampler = Sampler(make_endpoint(config.endpoint, "endpoint"), ReplyCache(SAMPLES), seed=config.seed)
    found = sampler.sample(read_prompts(path), settings.n, progress=config.progress)
    for kind, count in sorted(sampler.failures.items()):
        log.warning("%d samples without a response: %s", count, kind)
    return found


def usable(candidates: Sequence[Candidates]) -> list[Candidates]:
    """Those with two responses or more. Raises ``ValueError`` where there are none."""
    found = [own for own in candidates if len(own.responses) > 1]
    if len(found) < len(candidates):
        log.warning("%d of %d queries left out: fewer than 2 responses", len(candidates) - len(found), len(candidates))
    if not found:
        raise ValueError(
            f"candidates: none of {len(candidates)} queries has 2 responses or more; rows of one query must repeat "
            "its text and its criteria"
        )
    return found


def told(config: BestOfNConfig, candidates: Sequence[Candidates]) -> list[Candidates]:
    """With the criteria that the settings give, and the opposite where it is known."""
    criteria, opposite = tuple(config.criteria), tuple(config.opposite)
    if config.gold.name == "trait" and not criteria:
        criteria = (wish_for(str(config.gold.trait), config.gold.sign),)
    found = [replace(own, criteria=criteria or own.criteria, opposite=opposite or own.opposite) for own in candidates]
    if config.gold.name == "trait":
        against = (wish_for(str(config.gold.trait), -config.gold.sign),)
        return [replace(own, opposite=own.opposite or against) for own in found]
    return [replace(own, opposite=own.opposite or opposite_of(own.criteria)) for own in found]


def gold_of(config: BestOfNConfig, candidates: Sequence[Candidates]) -> tuple[Floats | None, str]:
    """(Q, n) and its unit; None where nothing is known. Raises ``ValueError`` where what was asked for is not there."""
    settings, name = config.gold, config.gold.name
    if name == "auto":
        name = _known_by_itself(config, candidates)
    if name == "trait":
        sign = "" if settings.sign > 0 else "less "
        return by_trait(candidates, trait_named(str(settings.trait)), settings.sign), f"{sign}{settings.trait}, counted"
    if name == "column":
        if not any(own.gold for own in candidates):
            raise ValueError(
                "gold=column: no row has a number in the column gold; name another gold, such as gold=trait"
            )
        return of_column(candidates), "column gold"
    if name in ("judge", "oracle"):
        kind = settings.judge if name == "judge" else "oracle"
        judge = replace(config.judge, name=kind, path=settings.path)
        opened = open_judge(replace(config, judge=judge, checkpoint=settings.checkpoint))
        found = by_judge(Rewards(opened.judge), candidates)
        if np.isnan(found).all():
            raise ValueError(_nothing_known(name, opened.name, candidates))
        return found, "nats of the true user" if name == "oracle" else f"nats by {opened.name}"
    log.warning("gold=auto: nobody knows what these responses are worth, so that only rewards are shown; name a gold")
    return None, "not known"


def _known_by_itself(config: BestOfNConfig, candidates: Sequence[Candidates]) -> str:
    is_simulated = config.candidates.name == "simulation"
    is_simulated |= config.candidates.name == "bank" and config.bank.name == "simulated"
    if is_simulated:
        return "oracle"
    return "column" if any(own.gold for own in candidates) else "none"


def _nothing_known(gold: str, judge: str, candidates: Sequence[Candidates]) -> str:
    asked = candidates[0].criteria or (GENERIC_CRITERION,)
    return (
        f"gold={gold}: {judge} gives no number to any response under {' | '.join(asked)!r}; the oracle knows the "
        'simulation\'s texts and wordings alone, such as criteria=["Prefers concise answers"]'
    )
