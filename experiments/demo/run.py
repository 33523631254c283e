"""The demo: heads trained from scratch on the simulated arena, their suites, two leaderboards and a report."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from crm.io.files import replace_file, with_nulls
from crm.leaderboard.bank.opening import SimulatedBank, simulate_bank
from crm.leaderboard.ranking import Leaderboard, compare
from crm.report.plots import one_leaderboard, suite_accuracy
from crm.report.tables import caption, print_table, suite_table, write_table
from crm.schema import Result
from experiments.demo.charts import learning_curves, two_leaderboards
from experiments.jobs import Job, JobResult, commits, run_jobs
from experiments.report import Section, render_report
from experiments.truth import true_win_rates

HEADS = ("scalar", "late")
"""One a core: ``scalar`` is a plain classifier that transformers loads, ``late`` serves page and leaderboards."""
ALL_HEADS = (*HEADS, "pairwise_span")
RANKING_HEAD = "late"
"""The head whose leaderboards are shown."""
USERS = {"detailed": ("Prefers detailed answers",), "concise": ("Prefers concise answers",), "general": ()}
"""Criteria of the three leaderboards; the general user names none."""
SCALAR_WARM_UP = ("head=scalar", "loss=ranking", "schedule.max_steps=1000")
"""Before a joint head without pretrained weights: a backbone that has learned to read responses one by one learns to
read two in one prompt several times sooner than one from scratch."""
STAGES: dict[str, tuple[tuple[str, ...], ...]] = {"pairwise_span": (SCALAR_WARM_UP, ())}
BANK_SEED = 1
ATTACKED = 200
"""Pairs that each head is attacked on."""


def run_demo(
    out: Path, seed: int, overrides: Sequence[str], queries_per_topic: int = 20, heads: Sequence[str] = HEADS
) -> dict[str, Any]:
    """Run ``heads`` side by side, then write tables, plots, ``report.html`` and ``summary.json``; returns the last.

    ``overrides`` are of ``train.py``; those of ``data`` hold for the suites too. With more heads than `HEADS` each is
    also evaluated with noised criteria, attacked, and ranks.
    """
    started = time.perf_counter()
    jobs = [demo_job(head, out, seed, overrides, queries_per_topic, len(heads) > len(HEADS)) for head in heads]
    finished = run_jobs(jobs, len(jobs))  # also on two cores: they share them to the end, and none is idle
    results = {head: finished[head].results["suites"] for head in heads}
    boards = finished[RANKING_HEAD].leaderboards
    summary = summarise_demo(finished, results, boards, jobs, queries_per_topic)
    write_pictures(out, results, boards, summary["leaderboard"]["tau_contradictory"])
    line = caption(None, [seed], "demo", summary["commit"])
    table = suite_table(results)
    write_table(out, "suites", table, line)
    for user, board in boards.items():
        write_table(
            out, f"leaderboard_{user}", board.frame(), caption(None, [seed], " ".join(USERS[user]), summary["commit"])
        )
    summary["seconds"]["total"] = round(time.perf_counter() - started, 1)
    replace_file(out / "summary.json", json.dumps(summary, indent=2, ensure_ascii=False))
    effects = {head: found for head in heads if (found := finished[head].effects) is not None}
    write_report(out, table, boards, effects, summary)
    show(out, table, boards, summary)
    return summary


def demo_job(head: str, out: Path, seed: int, overrides: Sequence[str], queries_per_topic: int, thorough: bool) -> Job:
    """The job of one head: its experiment file, the suites of the simulation, three leaderboards, attacks."""
    data = tuple(word for word in overrides if word.startswith("data."))
    ranks = thorough or head == RANKING_HEAD
    return Job(
        name=head,
        folder=out / head,
        overrides=(f"experiment=demo_{head}", "trainer=cpu", f"seed={seed}", *overrides),
        stages=STAGES.get(head, ((),)),
        evaluations={"suites": ("suite=all" if thorough else "suite=standard", *data)},
        attacked=ATTACKED if thorough else 0,
        evaluated=data,
        leaderboards=USERS if ranks else {},
        ranking=(f"bank.queries_per_topic={queries_per_topic}",),
    )


def summarise_demo(
    finished: Mapping[str, JobResult],
    results: Mapping[str, Sequence[Result]],
    boards: Mapping[str, Leaderboard],
    jobs: Sequence[Job],
    queries_per_topic: int,
) -> dict[str, Any]:
    """The numbers of the run, as ``summary.json`` holds them. Tau is Kendall's, against the simulation's truth."""
    simulated = simulate_bank(seed=BANK_SEED, queries_per_topic=queries_per_topic)
    taus = {head: taus_of(job.leaderboards, simulated) for head, job in finished.items() if job.leaderboards}
    board = boards["detailed"]
    return {
        "heads": {
            head: {
                "suites": {
                    row.suite: {"accuracy": row.value, "n": row.n, "low": row.low, "high": row.high}
                    for row in rows
                    if row.metric == "accuracy"
                },
                "leaderboard": taus.get(head, {}),
                "attacks": _by_attack(finished[head].effects),
            }
            for head, rows in results.items()
        },
        "leaderboard": {
            **taus[RANKING_HEAD],
            "judge": RANKING_HEAD,
            "models": len(board.win_rates()),
            "queries": len(board.wins),
        },
        "seconds": {head: {key: round(value, 1) for key, value in finished[head].seconds.items()} for head in finished},
        "commit": commits(job.folder for job in jobs),
        "config": {job.name: [" ".join((*(job.overrides or ()), *stage)) for stage in job.stages] for job in jobs},
    }


def _by_attack(effects: pd.DataFrame | None) -> dict[str, Any]:
    return {} if effects is None else with_nulls(effects.set_index("attack").to_dict("index"))


def taus_of(boards: Mapping[str, Leaderboard], simulated: SimulatedBank) -> dict[str, float]:
    """Kendall's tau of the two users' leaderboards with each other, with its interval, and with the truth."""
    tau = compare(boards["detailed"], boards["concise"], BANK_SEED)
    truths = {
        f"tau_truth_{user}": compare(boards[user], true_win_rates(simulated, USERS[user]), BANK_SEED).mean
        for user in ("detailed", "concise")
    }
    return {"tau_contradictory": tau.mean, "tau_low": tau.low, "tau_high": tau.high, **truths}


def write_pictures(
    out: Path, results: Mapping[str, Sequence[Result]], boards: Mapping[str, Leaderboard], tau: float
) -> None:
    """Learning curves, suite accuracy, each leaderboard, and the two users' against each other."""
    learning_curves(out / "learning_curves.png", {head: pd.read_csv(out / head / "metrics.csv") for head in results})
    suite_accuracy(out / "suite_accuracy.png", clean_suites(results))
    for user, board in boards.items():
        one_leaderboard(out / f"leaderboard_{user}.png", board.frame(), " · ".join(USERS[user]), board.baseline)
    left, right = boards["detailed"].frame(), boards["concise"].frame()
    two_leaderboards(out / "leaderboards.png", left, right, (USERS["detailed"][0], USERS["concise"][0]), tau)


def clean_suites(results: Mapping[str, Sequence[Result]]) -> dict[str, list[Result]]:
    """The suites without noise, which fit into one plot."""
    return {head: [row for row in rows if row.suite.endswith(("+", "-"))] for head, rows in results.items()}


def write_report(
    out: Path,
    table: pd.DataFrame,
    boards: Mapping[str, Leaderboard],
    effects: Mapping[str, pd.DataFrame],
    summary: Mapping[str, Any],
) -> None:
    """``report.html``."""
    sections = [
        Section(
            "Does it listen to the criteria?",
            "Accuracy on the simulated arena. + conditions on the winner's criteria, - on the loser's: the two "
            "accuracies of a judge that ignores criteria add up to 1. D: as in training. T: unseen topics. "
            "C: unseen wordings. C_axes: tastes never seen in training; a model trained from scratch has no way to "
            "know them, so chance is what to expect there. S: answers of one sentence, + asked by users who prefer "
            "concise answers, - by those who prefer detailed ones. Votes are noisy: a perfect judge gets about 98.5 %, "
            "and all of S. _add, _remove and _replace perturb the criteria.",
            {"Accuracy with 95 % intervals, clustered by prompt": table},
            {"Accuracy of every suite": out / "suite_accuracy.png"},
        ),
        Section(
            "Two users, two leaderboards",
            f"The same LLMs and queries, judged by the {summary['leaderboard']['judge']} head.",
            {f"{' '.join(USERS[user]) or 'No criteria'}": board.frame() for user, board in boards.items()},
            {
                "Ranks of the two users": out / "leaderboards.png",
                **{f"Leaderboard: {user}": out / f"leaderboard_{user}.png" for user in boards},
            },
        ),
        Section("How it learned", "", {}, {"Learning curves": out / "learning_curves.png"}),
    ]
    if effects:
        attacked = Section(
            "Does it withstand attacks?",
            f"A text was added to the response that the user does not prefer, in {ATTACKED} pairs and both orders. "
            "flipped: the share of right verdicts that it reversed; by_neutral_text: what as many characters "
            "about nothing do. empty: how often an empty response wins.",
            {f"The {head} head": found for head, found in effects.items()},
            {},
        )
        sections.insert(-1, attacked)
    facts = {**summary["leaderboard"], "commit": summary["commit"], "seconds": summary["seconds"]}
    board = summary["leaderboard"]
    opening = (
        f"{len(summary['heads'])} reward models were trained from scratch on simulated "
        "preferences. Asked for detailed and for concise "
        f"answers, they rank {board['models']} simulated LLMs with Kendall's tau {board['tau_contradictory']:.2f} "
        f"between the two; against the simulation's truth tau is {board['tau_truth_detailed']:.2f} and "
        f"{board['tau_truth_concise']:.2f}."
    )
    render_report(
        out / "report.html",
        title="Customizable reward models: the demo",
        sections=sections,
        facts=facts,
        summary=opening,
    )


def show(out: Path, table: pd.DataFrame, boards: Mapping[str, Leaderboard], summary: Mapping[str, Any]) -> None:
    """The end of the run in the terminal."""
    clean = table[table["suite"].str.endswith(("+", "-"))]
    print_table(clean, "Accuracy with 95 % intervals (unseen axes are expected at chance)")
    for user in ("detailed", "concise"):
        frame = boards[user].frame()[["rank", "model", "win_rate", "low", "high", "rank_low"]]
        print_table(frame, " · ".join(USERS[user]))
    board = summary["leaderboard"]
    Console().print(
        f"Kendall's tau between the two leaderboards {board['tau_contradictory']:.2f}; against the truth "
        f"{board['tau_truth_detailed']:.2f} (detailed) and {board['tau_truth_concise']:.2f} (concise). "
        f"{summary['seconds']['total']:.0f} s. Open {out / 'report.html'}"
    )
