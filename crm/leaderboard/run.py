"""`leaderboard.py`: rank the LLMs of a bank; tables, a plot, and the ranking in the terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from crm.io.files import replace_file
from crm.io.installed import commit
from crm.io.processes import ALONE, Processes, start
from crm.judges.judge import OracleJudge
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.judges.traits_judge import TraitsJudge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.config import LeaderboardConfig
from crm.leaderboard.matrix import open_matrix
from crm.leaderboard.own_words import OwnWords
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.validity import flawed_responses
from crm.model.config import training_config
from crm.report.plots import one_leaderboard
from crm.report.tables import caption, print_table, write_table
from crm.schema import GENERIC_CRITERION
from crm.training.tracking import check_tracker, track

log = logging.getLogger(__name__)
SHORTEN = "shorten the responses with bank.max_words, or take another judge"
ASK_AGAIN = "the log says why; the same command asks again"


def run_leaderboard(config: LeaderboardConfig, show: bool = True) -> Leaderboard:
    """Score the chosen topics under the criteria and write every view of the ranking."""
    check_judge(config)
    check_tracker(config.logger.kinds)
    bank = open_bank(config.bank, config.topics)
    title = _title(config, bank)
    processes = start(config.devices, config.nodes)
    opened = open_judge(config)
    criteria = tuple(config.criteria) or (GENERIC_CRITERION,)
    signed = zip(criteria, config.weights, strict=True) if config.weights else ()
    counted = [f"{by:g} x {text}" for text, by in signed] or list(criteria)
    if isinstance(opened.judge, TraitsJudge):
        matrix = open_matrix(bank, config.bank.path, config.scored_by)
        board, counted = rank_own_words(config, OwnWords(opened.judge.reader, matrix))
    else:
        board = rank_bank(opened, bank, criteria, config.weights, progress=config.progress, processes=processes)
    flawed = flawed_responses(bank, config.criteria)
    if config.drop_flawed:
        board = without_flawed(board, flawed)
    if board.unanswered:
        log.warning("bank %s: %s", bank.name, board.explain_unread())
    if processes.first:
        write_leaderboard(config, board, flawed, counted, title, show)
        track(
            config.logger,
            Path(config.run_dir),
            name=f"{opened.name} on {config.bank.name}",
            group="leaderboard",
            config=asdict(config),
            numbers={f"win_rate/{model}": rate for model, rate in board.win_rates().items()},
        )
    return board


def rank_bank(
    opened: OpenedJudge,
    bank: Bank,
    criteria: Sequence[str],
    weights: Sequence[float],
    *,
    progress: bool,
    processes: Processes = ALONE,
) -> Leaderboard:
    """By the vectors of the bank's responses where the judge has a late head, else by comparisons with the baseline.

    Raises ``ValueError`` for weights of criteria without such vectors, and where there is no verdict at all.
    """
    from crm.leaderboard.index import index_bank  # and with it transformers, which own words do without
    from crm.leaderboard.scoring import TOO_LONG, score_bank

    where: Any = {"folder": opened.predictions, "progress": progress, "processes": processes}
    found = index_bank(opened.judge, bank, **where)
    if found is not None:
        outcomes, why, way_out = found.outcomes(criteria, weights), TOO_LONG, SHORTEN
    elif weights:
        raise ValueError(
            f"weights={list(weights)}: {opened.name} reads all criteria together and cannot weigh them; leave weights "
            "out, or take a checkpoint with head=late"
        )
    else:
        outcomes, counts = score_bank(opened.judge, bank, criteria, **where)
        log.info("bank %s: %s", bank.name, ", ".join(f"{key} {value}" for key, value in counts.items()))
        lost = opened.judge.left_out
        why = f"{counts[lost]} readings {lost}, the others failed"
        way_out = ASK_AGAIN if counts[lost] and lost != TOO_LONG else SHORTEN
        if isinstance(opened.judge, OracleJudge):
            way_out = "it knows the simulation's sentences alone, as in 'criteria=[\"Prefers concise answers\"]'"
    if not outcomes.readable.any():
        raise ValueError(f"bank={bank.name}: {opened.name} gave no verdict on any comparison ({why}); {way_out}")
    return Leaderboard(outcomes)


def rank_own_words(config: LeaderboardConfig, words: OwnWords) -> tuple[Leaderboard, list[str]]:
    """By the columns of the bank's criteria matrix that the criteria ask for, and what each clause counts; writes
    ``understood.json``.

    Raises ``ValueError`` where nothing is understood, and where no query has a score for every LLM.
    """
    found = words.understood(config.criteria, config.weights)
    rows = json.dumps([asdict(each) for each in found], indent=2, ensure_ascii=False)
    replace_file(Path(config.run_dir) / "understood.json", rows + "\n")
    for each in found:
        log.info("%s", each)
    outcomes = words.outcomes(config.criteria, config.weights, progress=config.progress)
    return Leaderboard(outcomes), [each.counted for each in found]


def without_flawed(board: Leaderboard, flawed: pd.DataFrame) -> Leaderboard:
    """By the queries to which every LLM has a response without flaws. Raises ``ValueError`` where there is none."""
    whole = ~flawed.loc[list(board.given.queries)].any(axis=1).to_numpy()
    if not whole.any():
        raise ValueError("drop_flawed=true: to each query some LLM has a response with a flaw; leave it out")
    log.info("%d of %d queries are left out: a response there has a flaw", (~whole).sum(), len(whole))
    return Leaderboard(board.given.on(whole))


def _title(config: LeaderboardConfig, bank: Bank) -> str:
    """The bank in words, for captions; a warning where its LLMs are simulated and the judge knows real ones."""
    if config.bank.name != "simulated":
        return f"bank {bank.name}: {len(bank.authors)} LLMs"
    title = f"bank=simulated: {len(bank.authors)} simulated LLMs"
    trained_on = training_config(config.checkpoint).get("data") or {}
    if config.judge.name == "oracle" or trained_on.get("name") == "simulation":
        return title
    log.warning("%s, no real ones; rank real ones with bank=alpacaeval or bank=folder bank.path=<folder>", title)
    return f"{title}, no real ones"


def write_leaderboard(
    config: LeaderboardConfig, board: Leaderboard, flawed: pd.DataFrame, counted: Sequence[str], bank: str, show: bool
) -> None:
    """The tables ``leaderboard`` and ``bradley_terry``, ``leaderboard.png``, ``criteria.json``; prints the ranking."""
    run_dir, criteria, weights = Path(config.run_dir), config.criteria or [GENERIC_CRITERION], config.weights
    queries, unread = len(board.outcomes.queries), board.explain_unread()
    asked = f"criteria {' | '.join(counted)}; {bank}"
    line = "; ".join(filter(None, (caption(queries), asked, caption(commit=commit()), unread)))
    counts = flawed.loc[list(board.outcomes.queries)].sum()
    table = board.frame().assign(flawed=lambda rows: rows["model"].map(counts))
    write_table(run_dir, "leaderboard", table, line)
    write_table(run_dir, "bradley_terry", board.bradley_terry(), line)
    one_leaderboard(run_dir / "leaderboard.png", board.frame(), " · ".join(counted), board.baseline)
    facts = {
        "criteria": criteria,
        **({"weights": weights} if weights else {}),
        "counted": list(counted),
        "queries": queries,
        "topics": board.topics,
        "baseline": board.baseline,
        "unread": dict(board.unread),
        "queries_left_out": board.left_out,
        "unanswered": dict(board.unanswered),
    }
    replace_file(run_dir / "criteria.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if show:
        print_table(
            table.drop(columns=["tied_with", "baseline", *([] if board.unread else ["unread"])]),
            f"{' · '.join(counted)} — win rate against {board.baseline}, {queries} queries ({run_dir})\n{bank}",
        )
        if unread:
            Console().print(unread)
