"""Rank the LLMs of a bank. In: a checked `LeaderboardConfig`. Out: tables, a plot, and the ranking in the terminal."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import torch

from crm.config import BankConfig, LeaderboardConfig
from crm.data.comparisons import GENERIC_CRITERION
from crm.evaluation.plots import one_leaderboard
from crm.evaluation.predict import open_judge
from crm.evaluation.run import print_table
from crm.evaluation.tables import caption, write_table
from crm.leaderboard.bank import Bank, load_bank
from crm.leaderboard.ranking import VIEWS, Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.models.export import read_manifest
from crm.processes import start
from crm.provenance import commit
from crm.simulation.bank import simulate_bank

log = logging.getLogger(__name__)
COLUMNS = ("rank", "rank_low", "model", "win_rate", "low", "high", "n", "mean_words", "tied_with")
"""Of the main table; checked before anything is scored."""


def run_leaderboard(config: LeaderboardConfig, show: bool = True) -> Leaderboard:
    """Score the chosen topics under the criteria and write every view of the ranking."""
    if config.threads:
        torch.set_num_threads(config.threads)
    folder = Path(config.checkpoint)
    if config.sort not in COLUMNS:
        raise ValueError(f"sort={config.sort!r}: no such column; choose one of {', '.join(COLUMNS)}")
    read_manifest(folder)
    bank = open_bank(config.bank).select(config.topics or None)
    processes = start(config.devices, config.nodes)
    judge, manifest = open_judge(folder, batch_size=config.batch_size, precision=config.precision)
    criteria = tuple(config.criteria) or (GENERIC_CRITERION,)
    matches, counts = score_bank(
        judge,
        manifest["digest"],
        bank,
        criteria,
        baseline=config.bank.baseline or bank.baseline,
        folder=Path(config.predictions) if config.predictions else folder.parent / "predictions",
        progress=config.progress,
        processes=processes,
    )
    log.info("bank %s: %s", bank.name, ", ".join(f"{key} {value}" for key, value in counts.items()))
    if not matches:
        raise ValueError(f"bank={bank.name}: every response is longer than the model's {manifest['max_length']} tokens")
    board = Leaderboard(matches)
    if processes.first:
        write_leaderboard(Path(config.run_dir), board, criteria, config.sort, show)
    return board


def open_bank(config: BankConfig) -> Bank:
    """A saved bank, or the simulated one."""
    if config.path is not None:
        return load_bank(Path(config.path))
    return simulate_bank(seed=config.seed, queries_per_topic=config.queries_per_topic).bank


def write_leaderboard(run_dir: Path, board: Leaderboard, criteria: tuple[str, ...], sort: str, show: bool) -> None:
    """``leaderboard.md/.csv``, a table a further view, ``leaderboard.png``, ``criteria.json``; prints the ranking."""
    queries = len({match.query_id for match in board.matches})
    line = caption(queries, (), " | ".join(criteria), commit())
    frame = board.frame("win_rate", sort=sort)
    write_table(run_dir, "leaderboard", frame, line)
    for view in VIEWS[1:]:  # the first is the leaderboard itself
        write_table(run_dir, view, board.frame(view), line)
    one_leaderboard(run_dir / "leaderboard.png", board.frame(), " · ".join(criteria), board.baseline)
    facts = {"criteria": criteria, "queries": queries, "topics": board.topics, "baseline": board.baseline}
    (run_dir / "criteria.json").write_text(json.dumps(facts, indent=2, ensure_ascii=False), encoding="utf-8")
    if show:
        print_table(
            frame.drop(columns="tied_with", errors="ignore"),
            f"{' · '.join(criteria)} — win rate against {board.baseline}, {queries} queries ({run_dir})",
        )
