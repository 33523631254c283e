"""A million spoiled lines through every reader of one's own files. In: a `Task`. Out: counts that add up, or not.

How many lines a file has is counted in its bytes, not by the reader. Every line is a function of the seed, the number
of its file and the reader, so that a failure can be made again.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from bench.soak.stage import Found, Limit, Task
from bench.soak.watch import Watch
from crm.io.draws import generator
from crm.io.intake import Intake
from crm.io.untrusted import json_lines
from crm.schema import RecordError
from crm.votes.catalogue import Read
from crm.votes.own import arena, published, records, table, trl

LINES = 1_000_000
OF_A_FILE = 4_000
SPOILED = 0.7
"""Share of lines that are spoiled; the others are whole rows."""
MOST_GROWTH_MB = 20.0
ASK = {"role": "user", "content": "Wie heißt «das»?"}
TURNS = [[ASK, {"role": "assistant", "content": text}] for text in ("Ein Wort; kurz", "Zwei,\nWorte 😀")]
SIDES = {"response_a": TURNS[0][1:], "response_b": TURNS[1][1:]}
WHOLE: dict[str, dict[str, Any]] = {
    "records": {"prompt": [ASK], **SIDES, "winner": "a", "criteria_a": ["kurz", "klar"], "topic": "Art"},
    "train_rows": {"model_a": TURNS[0], "model_b": TURNS[1], "human_winner": "model_b", "a_criteria": ["kurz"]}
    | {"b_criteria": ["lang"], "a_broad_criteria_topic": ["Form"], "b_broad_criteria_topic": ["Form"]},
    "eval_rows": {"prompt": ASK["content"], "model_a": TURNS[0], "model_b": TURNS[1]}
    | {"criteria": ["kurz"], "preference": "model_a"},
    "arena": {"model_a": "x", "model_b": "y", "winner": "tie", "conversation_a": TURNS[0], "conversation_b": TURNS[1]},
    "trl": {"prompt": "Why?", "chosen": "Because", "rejected": "No\nidea", "margin": 0.5},
    "table": {"prompt": "p, q", "response_a": 'x "y"', "response_b": "z", "winner": "left", "criteria_a": "kurz; klar"},
}
"""A good row of each reader but its id."""
READERS: dict[str, Read] = {
    "records": records.read,
    "train_rows": published.read_train,
    "eval_rows": published.read_eval,
    "arena": arena.read,
    "trl": trl.read,
    "table": partial(table.read, columns={}, winners={}),
}
NONSENSE = (
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b'"', b"{", b"[" * 50, b"}", b"NaN", b"1e999", b"-", b"9" * 5000),
    *(b"null", b"true", b'"a": 1, ', b"\r", b"\n", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\\u0000", b"[[", b" ", b","),
)

OTHERS: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**70, 0.5, "", " ", "a", "[", '["x"]', "[NaN]", "tie", [], {}, [None], ["x", 3], {"a": 1}),
    *(
        [ASK],
        [ASK, ASK],
        [{"role": "user"}],
        [{"role": "root", "content": "x"}],
        [TURNS],
        "x" * 20_000,
        [[[[[[[[]]]]]]]],
    ),
)


def run(task: Task) -> Found:
    """Files of `OF_A_FILE` lines, a reader after the other, until there were `LINES` of them."""
    found, watch, own = Found(), Watch(task.started), psutil.Process(os.getpid())
    wanted, names, kept = task.count(LINES), list(READERS), Counter[str]()
    file = task.folder / "rows.jsonl"
    while found.tried["lines"] < wanted and not task.over:
        number, name = found.tried["files"], names[found.tried["files"] % len(names)]
        content = lines(task.seed, number, name, min(OF_A_FILE, wanted))
        file.write_bytes(content)
        found.tried["files"] += 1
        found.tried["lines"] += expected_rows(content)
        try:
            read_values(found, file, expected_rows(content), f"file {number}")
            kept[name] += read_records(found, READERS[name], file, expected_rows(content), f"file {number}, {name}")
        except Exception as error:  # any exception at all is what is looked for
            found.fail("exception", f"file {number}, {name}: {type(error).__name__}: {error}")
        watch.look(own, now=number == len(names))  # by then each reader was used
        task.tell(found.tried["lines"] / wanted, f"{found.tried['lines']:,} lines")
    watch.look(own, now=True)
    warm = watch.points[min(1, len(watch.points) - 1)]
    found.watched = {"reader of rows": watch.points}
    found.limits = [
        Limit("lines", found.tried["lines"], at_least=wanted),
        Limit("kept, by the reader that kept fewest", min(kept.values(), default=0), at_least=1),
        Limit("rejected", found.tried["rejected"], at_least=1),
        Limit("memory grown by, MB", round(watch.points[-1][1] - warm[1], 1), at_most=MOST_GROWTH_MB),
    ]
    return found


def lines(seed: int, number: int, name: str, count: int) -> bytes:
    """A file of lines, most of them spoiled; the first few are whole, from which a table's columns are known."""
    draws = generator(seed, number, name, "rows soak")
    made = []
    for place in range(count):
        row = {"idx" if name == "eval_rows" else "id": f"{number} {place}", **WHOLE[name]}
        kind = draws.random() / SPOILED if place > 3 else 1.0
        if kind < 0.5:
            _spoil_field(row, draws)
        line = json.dumps(row, ensure_ascii=place % 2 == 0).encode()
        made.append(spoiled(line, draws) if 0.5 <= kind < 1.0 else line)
    return b"\n".join(made) + b"\n"


def _spoil_field(row: dict[str, Any], draws: random.Random) -> None:
    """A value of another kind, a field too few, or one too many: JSON still, but hardly a row."""
    name = draws.choice(list(row))
    if draws.random() < 0.2:
        del row[name]
    else:
        row[draws.choice((name, name, name, f"{name} "))] = draws.choice(OTHERS)


def spoiled(line: bytes, draws: random.Random) -> bytes:
    """The line after one to three changes."""
    for _ in range(draws.randint(1, 3)):
        start, kind = draws.randrange(len(line) + 1), draws.randrange(5)
        end = min(len(line), start + draws.randint(1, 30))
        inserted = (b"", draws.choice(NONSENSE), line[start:end] * 2, bytes([draws.randrange(256)]), line[end:][:30])
        line = line[:start] + inserted[kind] + line[end:]
    return line


def expected_rows(content: bytes) -> int:
    """Lines of a file; a blank one at the very end is no row."""
    whole = content.split(b"\n")[:-1]
    return len(whole) - (not whole[-1].strip())


def read_values(found: Found, file: Path, expected: int, where: str) -> None:
    """Each line as a value or an error, by the reader of lines alone."""
    values = [value for _, value in json_lines(file)]
    found.tried["unreadable"] += sum(isinstance(value, RecordError) for value in values)
    if len(values) != expected:
        found.fail("lines lost", f"{where}: {expected} lines, {len(values)} values")


def read_records(found: Found, read: Read, file: Path, expected: int, where: str) -> int:
    """Each line as a record or a rejection: how many were kept.

    A table may refuse a file as a whole, in a sentence that names it.
    """
    reading = Intake(strict=False)
    try:
        records = sum(1 for _ in read(file, reading))
    except ValueError as error:
        found.tried["files refused"] += 1
        if not str(error).startswith(str(file)):
            found.fail("exception", f"{where}: {error}")
        return 0
    found.tried["kept"] += reading.kept
    found.tried["rejected"] += reading.rejected
    if not expected == reading.read == reading.kept + reading.rejected or records != reading.kept:
        told = f"{reading.read} read, {reading.kept} kept, {reading.rejected} rejected, {records} records"
        found.fail("counts", f"{where}: {expected} lines, {told}")
    return reading.kept
