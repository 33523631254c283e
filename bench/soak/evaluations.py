"""Evaluations that are killed at any moment. In: a `Task`, a checkpoint. Out: whether every id stands there once.

A prediction file is written until it is whole, by as many processes as were killed on the way. It has to hold both
orders of every comparison once, with the numbers of a file that one process wrote.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import torch

from bench.soak.children import ChildError, killed_after
from bench.soak.stage import Found, Limit, Task
from crm.evaluation.prediction_file import predict
from crm.io.draws import generator
from crm.judges import CrmJudge, open_checkpoint
from crm.schema import Comparison, Message

KILLS = 200
ROWS = 240
BATCH = 4
WORDS = ("tea", "trains", "rain", "homework", "gardens", "東京", "ü")
Numbers = dict[tuple[str, str], float]


def run(task: Task, checkpoint: Path) -> Found:
    """Kill `KILLS` times, over as many files as that takes."""
    torch.set_num_threads(1)
    found, draws = Found(), generator(task.seed, 0, "evaluations", "soak")
    judge, _ = open_checkpoint(checkpoint, batch_size=BATCH, precision="32-true")
    rows, wanted = comparisons(task.seed), task.count(KILLS)
    log, whole, path = (task.folder / name for name in ("evaluation.log", "whole.jsonl", "killed.jsonl"))
    begun = task.passed
    killed_after(None, log, write, judge, rows, whole)
    seconds, expected = task.passed - begun, numbers(whole, found)
    _compare_ids(found, whole, expected, rows)
    while found.tried["kills"] < wanted and not task.over:
        path.unlink(missing_ok=True)
        found.tried["files"] += 1
        try:
            while killed_after(
                draws.uniform(0.0, seconds) if found.tried["kills"] < wanted else None, log, write, judge, rows, path
            ):
                found.tried["kills"] += 1
                task.tell(found.tried["kills"] / wanted, f"{found.tried['kills']} kills")
            _compare(found, path, expected, rows)
        except ChildError as error:
            found.fail("did not go on", str(error))
    found.limits = [Limit("kills", found.tried["kills"], at_least=wanted)]
    found.measured = {"readings of a file": len(expected), "seconds of a file": round(seconds, 2)}
    return found


def comparisons(seed: int) -> list[Comparison]:
    """`ROWS` of all lengths, in no order."""
    draws = generator(seed, 0, "comparisons", "soak")

    def words(most: int) -> str:
        return " ".join(draws.choices(WORDS, k=draws.randint(1, most)))

    return [
        Comparison(
            id=f"東京 {number}",
            preference_id=f"p{number}",
            criteria=(f"Likes {words(3)}",),
            prompt=(Message("user", f"{number} {words(5)}?"),),
            response_a=(Message("assistant", words(12)),),
            response_b=(Message("assistant", words(12)),),
            label=draws.choice(("a", "b", "tie")),
        )
        for number in range(ROWS)
    ]


def write(judge: CrmJudge, rows: list[Comparison], path: Path) -> None:
    """What the file lacks."""
    predict(judge, rows, suite="D+", digest="soak", path=path, progress=False)


def numbers(path: Path, found: Found) -> Numbers:
    """Comparison and order to logit, read line by line without the reader under test."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for (name, order), count in Counter((row["comparison_id"], row["order"]) for row in rows).items():
        if count > 1:
            found.fail("an id twice", f"{name} {order}: {count} times")
    return {(row["comparison_id"], row["order"]): row["preference_logit"] for row in rows}


def _compare(found: Found, path: Path, expected: Numbers, rows: list[Comparison]) -> None:
    own = numbers(path, found)
    _compare_ids(found, path, own, rows)
    for key in expected.keys() & own.keys():
        if own[key] != expected[key]:
            found.fail("another number", f"{key}: {own[key]}, uninterrupted {expected[key]}")


def _compare_ids(found: Found, path: Path, own: Numbers, rows: list[Comparison]) -> None:
    for name, order in {(row.id, order) for row in rows for order in ("ab", "ba")} ^ own.keys():
        found.fail("an id missing or made up", f"{path.name}: {name} {order}")
