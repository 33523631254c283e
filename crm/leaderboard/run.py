"""`leaderboard.py`: rank the LLMs of a bank; tables, a plot, and the ranking in the terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console

from crm.io.files import replace_file
from crm.io.installed import commit
from crm.io.processes import Processes, start
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.config import LeaderboardConfig
from crm.leaderboard.indexed_bank import index_bank
from crm.leaderboard.ranking import VIEWS, Leaderboard, shown
from crm.leaderboard.scoring import TOO_LONG, score_bank
from crm.model.backbone import show_loading
from crm.model.config import training_config
from crm.report.plots import one_leaderboard
from crm.report.tables import caption, write_table
from crm.report.terminal import print_table
from crm.schema import GENERIC_CRITERION
from crm.training.tracking import check_tracker, track

log = logging.getLogger(__name__)
CRITERIA_FORMAT = 1
"""Of ``criteria.json``."""
COLUMNS = ("rank", "rank_low", "model", "win_rate", "low", "high", "n", "unread", "mean_words", "tied_with")
"""Of the main table; checked before anything is scored."""
SHORTEN = "shorten the responses with bank.max_words, or take another judge"
ASK_AGAIN = "the log says why; the same command asks again"


def run_leaderboard(config: LeaderboardConfig, show: bool = True) -> Leaderboard:
    """Score the chosen topics under the criteria and write every view of the ranking."""
    if config.threads:
        torch.set_num_threads(config.threads)
    if config.sort not in COLUMNS:
        raise ValueError(f"sort={config.sort!r}: no such column; choose one of {', '.join(COLUMNS)}")
    show_loading(config.progress)
    check_judge(config)
    check_tracker(config.logger.kinds)
    bank = open_bank(config.bank).select(config.topics or None)
    title = _title(config, bank)
    processes = start(config.devices, config.nodes)
    opened = open_judge(config)
    criteria = tuple(config.criteria) or (GENERIC_CRITERION,)
    board = rank_bank(config, opened, bank, criteria, processes)
    if board.unanswered:
        log.warning("bank %s: %s", bank.name, _unread(board))
    if processes.first:
        write_leaderboard(Path(config.run_dir), board, criteria, config.sort, show, config.weights, title)
        track(
            config.logger,
            Path(config.run_dir),
            name=f"{opened.name} on {config.bank.name}",
            group="leaderboard",
            config=asdict(config),
            numbers={f"win_rate/{model}": rate for model, rate in board.win_rates().items()},
            tables={"leaderboard": board.frame("win_rate", sort=config.sort)},
        )
    return board


def rank_bank(
    config: LeaderboardConfig, opened: OpenedJudge, bank: Bank, criteria: tuple[str, ...], processes: Processes
) -> Leaderboard:
    """By the vectors of the bank's responses where the judge has a late head, else by comparisons with the baseline.

    Raises ``ValueError`` for weights of criteria without such vectors, and where there is no verdict at all.
    """
    folder, name = opened.predictions, opened.name
    found = index_bank(opened.judge, bank, folder, progress=config.progress, processes=processes)
    if found is not None:
        outcomes = found.outcomes(criteria, config.weights)
        if not outcomes.readable.any():
            raise ValueError(_no_verdict(bank, name, TOO_LONG, SHORTEN))
        return Leaderboard(outcomes)
    if config.weights:
        raise ValueError(
            f"weights={config.weights}: {name} reads all criteria together and cannot weigh them; leave weights "
            "out, or take a checkpoint with head=late"
        )
    baseline, progress = bank.baseline, config.progress
    matches, counts = score_bank(
        opened.judge, bank, criteria, baseline=baseline, folder=folder, progress=progress, processes=processes
    )
    log.info("bank %s: %s", bank.name, ", ".join(f"{key} {value}" for key, value in counts.items()))
    if all(match.preference_logit is None for match in matches):
        left_out = opened.judge.left_out
        way_out = ASK_AGAIN if counts[left_out] and left_out != TOO_LONG else SHORTEN
        raise ValueError(_no_verdict(bank, name, f"{counts[left_out]} readings {left_out}, the others failed", way_out))
    return Leaderboard(matches)


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


def _unread(board: Leaderboard) -> str:
    """What a ranking lacks and what to do; empty where it is whole."""
    return board.explain_unread() + "; the same command asks for what is missing" * bool(board.unanswered)


def _no_verdict(bank: Bank, judge: str, why: str, way_out: str) -> str:
    return f"bank={bank.name}: {judge} gave no verdict on any comparison ({why}); {way_out}"


def write_leaderboard(
    run_dir: Path,
    board: Leaderboard,
    criteria: tuple[str, ...],
    sort: str,
    show: bool,
    weights: Sequence[float] = (),
    bank: str = "",
) -> None:
    """``leaderboard.md/.csv``, a table a further view, ``leaderboard.png``, ``criteria.json``; prints the ranking."""
    queries = len(board.outcomes.queries)
    asked = [f"{by:g} x {text}" for text, by in zip(criteria, weights, strict=True)] if weights else list(criteria)
    line = caption(queries, (), "; ".join(filter(None, (" | ".join(asked), bank))), commit())
    frame, unread = board.frame("win_rate", sort=sort), _unread(board)
    write_table(run_dir, "leaderboard", frame, "; ".join(filter(None, (line, unread))))
    for view in VIEWS[1:]:  # the first is the leaderboard itself
        table, why = board.frame(view), board.length_control.why if view == "length_controlled" else ""
        write_table(run_dir, view, table, "; ".join(filter(None, (line, unread, why))), shown(table))
    one_leaderboard(run_dir / "leaderboard.png", board.frame(), " · ".join(asked), board.baseline)
    facts = {
        "format": CRITERIA_FORMAT,
        "criteria": criteria,
        **({"weights": list(weights)} if weights else {}),
        "queries": queries,
        "topics": board.topics,
        "baseline": board.baseline,
        "unread": dict(board.unread),
        "queries_left_out": board.left_out,
        "unanswered": dict(board.unanswered),
        "queries_unanswered": board.incomplete,
    }
    replace_file(run_dir / "criteria.json", json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    if show:
        print_table(
            frame.drop(columns=["tied_with", *([] if board.unread else ["unread"])]),
            f"{' · '.join(asked)} — win rate against {board.baseline}, {queries} queries ({run_dir})\n{bank}".strip(),
        )
        if unread:
            Console().print(unread)
