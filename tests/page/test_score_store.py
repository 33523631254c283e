"""Scores that were kept are there again, for the same judge, criteria and texts only, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from crm.page.score_store import ScoreStore, comparison_key, criteria_key
from crm.schema import Comparison, Message


def row(text: str = "yes", name: str = "one") -> Comparison:
    turns = [(Message(role, words),) for role, words in (("user", "Why?"), ("assistant", text), ("assistant", "no"))]
    return Comparison(name, name, ("short",), *turns, label="tie", direction="none")


def test_keys_are_of_texts_alone() -> None:
    assert comparison_key(row()) == comparison_key(replace(row(name="two"), criteria=("long",)))
    assert comparison_key(row()) != comparison_key(row("Yes"))
    swapped = replace(row(), response_a=row().response_b, response_b=row().response_a)
    assert comparison_key(swapped) != comparison_key(row())
    assert criteria_key(("a", "b")) != criteria_key(("b", "a")) and criteria_key(("ab",)) != criteria_key(("a", "b"))


def test_what_was_kept_is_known_under_its_judge_and_criteria_only(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "deep" / "scores.sqlite")
    keys = [f"{n:032x}" for n in range(1000)]
    store.keep("j", "c", [((key, "ab"), float(n)) for n, key in enumerate(keys)] + [((keys[0], "ba"), None)])
    store.keep("j", "c", [((keys[0], "ab"), 77.0)])  # the first stays
    known = store.known("j", "c", keys)
    assert known == {(key, "ab"): float(n) for n, key in enumerate(keys)} | {(keys[0], "ba"): None}
    assert store.known("j", "other", keys) == store.known("k", "c", keys) == store.known("j", "c", []) == {}
    assert len(store) == 1001
    store.close()
    assert len(ScoreStore(tmp_path / "deep" / "scores.sqlite")) == 1001


def test_many_threads_write_one_file(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path / "scores.sqlite")

    def write(part: int) -> None:
        for n in range(50):
            store.keep("j", "c", [((f"{part}-{n}", "ab"), 0.5)])

    threads = [threading.Thread(target=write, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 400


@pytest.mark.slow
def test_a_kill_loses_no_kept_score(tmp_path: Path) -> None:
    """The process says what it has kept, is killed while it goes on, and all of that is there."""
    path = tmp_path / "scores.sqlite"
    code = (
        "import itertools, sys\nfrom crm.page.score_store import ScoreStore\n"
        f"store = ScoreStore({str(path)!r})\n"
        "for n in itertools.count():\n"
        "    store.keep('j', 'c', [((f'{n}-{m}', 'ab'), 0.5) for m in range(20)])\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = [int(process.stdout.readline()) for _ in range(30)]
    os.kill(process.pid, signal.SIGKILL)
    said += [int(text) for text in process.stdout.read().split()]
    process.wait()
    store = ScoreStore(path)
    wanted = [f"{n}-{m}" for n in said for m in range(20)]
    assert len(store.known("j", "c", wanted)) == len(wanted) >= 600
    assert len(store) % 20 == 0, "a portion is kept as a whole or not at all"


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database" * 100, encoding="utf-8")
    with pytest.raises(ValueError, match=r"scores=.*text: cannot be used"):
        ScoreStore(tmp_path / "text")
