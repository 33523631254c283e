"""Scores that were kept are there again, for the same judge, criteria and texts: after a kill, and after damage."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from crm.config import compose
from crm.page.run import make_ranker
from crm.page.score_store import FORMAT, Key, ScoreStore, comparison_key, criteria_key
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


@pytest.mark.parametrize("content", [b"no database" * 100, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(ValueError, match=r"scores=.*text: cannot be used .*move it away, .* scored again"):
        ScoreStore(tmp_path / "text")
    assert (tmp_path / "text").read_bytes() == content


def test_the_page_names_a_damaged_file_at_its_start(tmp_path: Path) -> None:
    (tmp_path / "scores.sqlite").write_bytes(b"\xff" * 5000)
    with pytest.raises(ValueError, match=r"scores=.*scores.sqlite: cannot be used .*move it away"):
        make_ranker(compose("app", ["judge=length", "bank.queries_per_topic=1", f"predictions={tmp_path}"], tmp_path))


def test_a_file_of_a_later_version_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "scores.sqlite"
    ScoreStore(path).close()
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version={FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"its format is {FORMAT + 1}, this version reads up to {FORMAT}"):
        ScoreStore(path)
    assert path.read_bytes() == before


SCORES: dict[tuple[str, str], dict[Key, float | None]] = {
    (f"judge {judge}", criteria_key((wish,))): {
        (f"{n:032x}", order): None if n == 7 else random.Random(f"{judge} {wish} {n} {order}").gauss(0, 3)
        for n in range(120)
        for order in ("ab", "ba")
    }
    for judge in range(2)
    for wish in ("short", "long", "sources")
}


def test_scores_of_the_first_version_are_taken_over(tmp_path: Path) -> None:
    """As that version made its file; a text where a number should be is no score."""
    path = tmp_path / "scores.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS scores (judge TEXT, criteria TEXT, comparison TEXT, shown TEXT, "
            "logit REAL, PRIMARY KEY (judge, criteria, comparison, shown)) WITHOUT ROWID"
        )
        rows = [(*who, *key, logit) for who, scores in SCORES.items() for key, logit in scores.items()]
        database.executemany("INSERT INTO scores VALUES (?, ?, ?, ?, ?)", [*rows, ("j", "c", "k", "ab", "text")])
        database.commit()
    for _ in range(2):  # and stay
        store = ScoreStore(path)
        assert all(store.known(*who, {key for key, _ in scores}) == scores for who, scores in SCORES.items())
        assert len(store) == len(rows) and store.known("j", "c", ["k"]) == {}
        store.close()


def kept(path: Path) -> ScoreStore:
    store = ScoreStore(path)
    for who, scores in SCORES.items():
        store.keep(*who, scores.items())
    return store


def lost_after(path: Path) -> int | None:
    """How many scores a damaged file does not give any more, and takes again; ``None`` where it is refused.

    Fails where it gives another number than the one kept.
    """
    try:
        store = ScoreStore(path)
    except ValueError as error:
        assert str(path) in str(error) and "move it away" in str(error)
        return None
    lost = 0
    for who, scores in SCORES.items():
        known = store.known(*who, {key for key, _ in scores})
        assert known.items() <= scores.items(), "a number that was never kept"
        lost += len(scores) - len(known)
        store.keep(*who, scores.items())
        assert store.known(*who, {key for key, _ in scores}).items() <= scores.items()
    store.close()
    return lost


def test_no_flipped_byte_gives_another_score(tmp_path: Path) -> None:
    """Of the file, and of the log of what a killed process had not yet put into it."""
    store, whole = kept(tmp_path / "scores.sqlite"), tmp_path / "whole.sqlite"
    killed = [tmp_path / "killed.sqlite", tmp_path / "killed.sqlite-wal"]
    for path in killed:
        shutil.copy(str(path).replace("killed", "scores"), path)
    store.close()
    shutil.copy(store.path, whole)
    drawn, found = random.Random(5), []
    for target, others, times in ((whole, [], 64), (killed[1], killed[:1], 16)):
        content = bytearray(target.read_bytes())
        for number in range(times):
            folder = tmp_path / f"{target.name} {number}"
            folder.mkdir()
            for other in others:
                shutil.copy(other, folder)
            flipped, place = bytearray(content), drawn.randrange(len(content))
            flipped[place] ^= drawn.randrange(1, 256)
            (folder / target.name).write_bytes(flipped)
            found.append(lost_after(folder / target.name.removesuffix("-wal")))
    assert found.count(None) and any(found) and found.count(0), "refused, scored again, and harmless: all three happen"


def test_a_changed_number_is_none(tmp_path: Path) -> None:
    """Also where the file as such is sound: a number of another score, or one that somebody typed."""
    store = kept(tmp_path / "scores.sqlite")
    (who, scores), *_ = SCORES.items()
    first, second, third = [key for key, logit in scores.items() if logit is not None][:3]
    with contextlib.closing(sqlite3.connect(store.path)) as database:
        change = (
            "UPDATE logits SET logit = ? WHERE comparison = ? AND shown = ? AND "
            "wish = (SELECT id FROM wishes WHERE judge = ? AND criteria = ?)"
        )
        database.execute(change, (9.5, *first, *who))
        database.execute(change, (scores[third], *second, *who))
        database.commit()
    keys = {key for key, _ in scores}
    assert store.known(*who, keys) == {key: logit for key, logit in scores.items() if key not in (first, second)}
    store.keep(*who, [(first, scores[first]), (second, scores[second])])
    assert store.known(*who, keys) == scores


def test_what_was_asked_for_first_gives_way_when_the_file_is_full(tmp_path: Path) -> None:
    most = 200_000
    store = ScoreStore(tmp_path / "scores.sqlite", most)
    scores = [((f"{n:032x}", "ab"), float(n)) for n in range(300)]
    for wish in range(40):
        for start in range(0, 300, 60):
            store.keep("j", f"{wish}", scores[start : start + 60])
    there = [len(store.known("j", f"{wish}", [key for (key, _), _ in scores])) for wish in range(40)]
    assert there == sorted(there) and set(there) == {0, 300} and 2 <= there.count(300) <= 12
    store.keep("j", "large", [((f"{n:032x}", "ab"), 0.5) for n in range(6000)])
    assert len(store) == 6000, "what is being asked for stays whole"
    store.keep("j", "after", scores)
    assert len(store) == 300
    store.close()
    assert store.path.stat().st_size < 6000 * 120 + most


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """As root may write whatever its mode is, SQLite's own switch stands in."""
    path = tmp_path / "scores.sqlite"
    kept(path).close()
    content = bytearray(path.read_bytes())
    content[18] = 3  # the version that writers need, by the format of SQLite's files
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"cannot be used .attempt to write a readonly database"):
        ScoreStore(path)


def test_a_file_that_breaks_while_it_is_used_is_none_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = kept(tmp_path / "scores.sqlite")
    (who, scores), *_ = SCORES.items()
    store._database.execute("DROP TABLE logits")
    with caplog.at_level(logging.WARNING):
        assert store.known(*who, {key for key, _ in scores}) == {}
        store.keep(*who, scores.items())
    assert [record.exc_info for record in caplog.records] == [None, None]
    assert "cannot be read" in caplog.text and "were not kept" in caplog.text and str(store.path) in caplog.text
