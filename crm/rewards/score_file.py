"""`score.py`: a score for every response of a file, by any reward model.

Scores are written portion by portion beside ``out``, so that the same command goes on after a kill. Rows come out in
their order with all their columns, and what cannot be read has null and a reason, never a number.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import math
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from rich.progress import track
from scipy.special import expit

from crm.data.catalogue import place_of
from crm.io import rows as formats
from crm.io.files import drafted
from crm.io.processes import Processes, start
from crm.judges.open import check_judge, open_judge
from crm.model.manifest import sha256
from crm.rewards.config import ScoreConfig
from crm.rewards.rows import Asked, read_row
from crm.rewards.scoring import Group, Reward, Rewards
from crm.schema import RecordError

log = logging.getLogger(__name__)
PORTION = 1_024
"""Rows that are scored together and then written."""
FOUND = ("score", "scores", "p_first", "criterion_effects")
"""Columns that are written; those of the input with these names are left out."""


@dataclass
class Counts:
    """What the rows of an output hold; a row that could not be read counts as one response."""

    rows: int = 0
    responses: int = 0
    unscored: Counter[str] = field(default_factory=Counter)
    """Responses without a score, by what their reason begins with."""
    examples: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Of each kind, the first row and its reason."""

    def add(self, row: Mapping[str, Any]) -> None:
        """Count the next row of the output."""
        scores = row["scores"] if "scores" in row else [row["score"]]
        self.rows += 1
        self.responses += len(scores)
        if None in scores:
            kind = row["reason"].partition(":")[0]
            self.unscored[kind] += scores.count(None)
            self.examples.setdefault(kind, (self.rows, row["reason"]))


class Scorer:
    """Scores rows by one judge."""

    def __init__(self, config: ScoreConfig) -> None:
        self.config = config
        opened = open_judge(config)
        self.judge, self.name = opened.judge, config.checkpoint or opened.name
        self.rewards = Rewards(opened.judge)

    def score(self, rows: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
        """Each row, by its place in a file, with what was found."""
        asked = [_read(row, self.config.criteria) for _, row in rows]
        groups = [group for each in asked if isinstance(each, Asked) for group in self._groups(each)]
        scores = iter(self.rewards.of_groups(groups))
        found = []
        for (place, row), each in zip(rows, asked, strict=True):
            columns = row if isinstance(row, dict) else {"row": place}
            columns = {name: value for name, value in columns.items() if name not in FOUND}
            if isinstance(each, RecordError):
                found.append({**columns, "score": None, "reason": str(each)})
                continue
            own, *without = (next(scores) for _ in self._groups(each))
            named = {"score": own[0]} if each.kind == "single" else {"scores": own}
            found.append(columns | named | self._more(each, own) | _effects(each, own, without))
        return found

    def _groups(self, asked: Asked) -> list[Group]:
        """What is read for a row: its group, and to ``explain`` its score that without each of its criteria."""
        own, places = asked.group, range(len(asked.group.criteria) if self.config.explain else 0)
        return [own, *(replace(own, criteria=own.criteria[:at] + own.criteria[at + 1 :]) for at in places)]

    def check_first(self, asked: Asked) -> None:
        """Raise ``ValueError`` where the first row of a file is one that the judge cannot score."""
        if not self.rewards.pointwise and asked.kind == "single":
            raise ValueError(
                f"{self.name}: compares responses and gives a single one no score; give rows with chosen and rejected, "
                "or a list of responses, or a model with head=scalar or head=late"
            )

    def _more(self, asked: Asked, scores: Sequence[Reward]) -> dict[str, Any]:
        """``p_first`` and ``reason``, where they apply."""
        more: dict[str, Any] = {}
        if asked.kind == "pair":
            # Of a head that compares both scores are log-odds of the same pair, the second less than 0 by the first.
            first, second = scores[0], scores[1] if self.rewards.pointwise else 0.0
            more["p_first"] = None if first is None or second is None else float(expit(first - second))
        if None in scores:
            more["reason"] = self._reason(asked, scores.index(None))
        return more

    def _reason(self, asked: Asked, at: int) -> str:
        if not self.rewards.pointwise and len(asked.group.responses) == 1:
            return "single response: the model compares responses"
        why = self.rewards.why_no_reward(asked.group, at)
        limit = getattr(getattr(self.judge, "encoder", self.judge), "max_length", None)
        return f"too long: more than {limit} tokens" if why == "too_long" else f"no score: {why.replace('_', ' ')}"


def run_score(config: ScoreConfig) -> Path | None:
    """Score ``input`` into ``out``; returns its path, None for a pipe.

    Raises ``ValueError`` where ``out`` exists, for an input that is not there or of which no row can be read, and for a
    judge that cannot be opened.
    """
    out = Path(config.out)
    if config.out != "-" and out.exists() and not config.overwrite:
        raise ValueError(f"out={out}: exists; name another file, or add overwrite=true")
    check_judge(config)
    with TemporaryDirectory() as folder:
        if config.input == "-":
            source = [Path(folder, "standard_input.jsonl")]
            with source[0].open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        else:
            files = _files(config.input)
            source = [file for file in files if file.resolve() != out.resolve()] or files
        total, first = _check_rows(source, config)
        processes = start(config.devices, config.nodes)
        scorer = Scorer(config)
        scorer.check_first(first)
        started, earlier = time.perf_counter(), 0
        if config.out == "-":
            counts = _write(scorer, _rows(source), total, sys.stdout, config.progress)
        else:
            counts, earlier = _resumable(scorer, source, total, out, processes)
        if processes.first:
            _tell(counts, scorer.name, (total - earlier) / (time.perf_counter() - started), config.out, source)
    return None if config.out == "-" else out


def _check_rows(source: Sequence[Path], config: ScoreConfig) -> tuple[int, Asked]:
    """How many rows there are, and the first that can be read. Raises ``ValueError`` where there is none."""
    total, first, why = 0, None, ""
    for place, row in _rows(source):
        total += 1
        if first is None:
            asked = _read(row, config.criteria)
            first = asked if isinstance(asked, Asked) else None
            why = why or f"{place}: {asked}"
            if first is not None and "criteria" not in row:
                for name in get_close_matches("criteria", map(str, row), cutoff=0.8):
                    log.warning("in=%s: its column %s is not read; did you mean criteria?", config.input, name)
    if first is None:
        raise ValueError(f"in={config.input}: " + (f"no row can be scored; {why}" if total else "holds no rows"))
    return total, first


def _resumable(
    scorer: Scorer, source: Sequence[Path], total: int, out: Path, processes: Processes
) -> tuple[Counts, int]:
    """Each process writes the rows of its block beside ``out``, on from what is there; the first one joins them.

    Returns what ``out`` holds, and how many of its rows were there before.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    config = scorer.config
    files: Any = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in source]
    if config.input == "-":  # spooled anew by each run
        files = sha256(source[0])
    asked = [scorer.judge.digest, files, list(config.criteria), config.explain, processes.size]
    key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:8]
    parts = [out.with_name(f".{out.name}.{key}.{rank}.part") for rank in range(processes.size)]
    done = processes.from_first(lambda: [_whole_portions(part) for part in parts])
    if sum(done) and processes.first:
        log.info("going on after %d rows that an earlier run has scored", sum(done))
    block, own = processes.share(range(total)), done[processes.rank]
    with parts[processes.rank].open("a", encoding="utf-8") as file:
        rows = islice(_rows(source), block[0] + own if len(block) else total, block[-1] + 1 if len(block) else total)
        _write(scorer, rows, len(block) - own, file, scorer.config.progress and processes.first)
    processes.wait()
    return processes.from_first(lambda: _join(parts, out)), sum(done)


def _write(scorer: Scorer, rows: Iterator[tuple[str, Any]], total: int, file: IO[str], progress: bool) -> Counts:
    """Score rows portion by portion; returns what was written."""
    counts, portions = Counts(), iter(lambda: list(islice(rows, PORTION)), [])
    shown = progress and sys.stderr.isatty()
    for portion in track(portions, "scoring", math.ceil(total / PORTION), disable=not shown, transient=True):
        tenths = 10 * counts.rows // total
        for row in scorer.score(portion):
            counts.add(row)
            file.write(_json(row) + "\n")
        file.flush()
        if progress and not shown and 10 * counts.rows // total > tenths:
            log.info("scored %d of %d rows", counts.rows, total)
    return counts


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _whole_portions(part: Path) -> int:
    """Rows in a part, whole portions of them: the others are removed, so that the same rows are scored together."""
    whole = end = size = 0
    with part.open("a+b") as file:
        file.seek(0)
        for row, line in enumerate(file, start=1):
            size += len(line)
            if row % PORTION == 0 and line.endswith(b"\n"):
                whole, end = row, size
        file.truncate(end)
    return whole


def _join(parts: Sequence[Path], out: Path) -> Counts:
    """Write the parts one after the other, as the name of ``out`` says; returns what they hold."""
    counts = Counts()
    with drafted(out) as draft:
        with draft.open("wb") as file:
            for part in parts:
                with part.open("rb") as lines:
                    for line in lines:
                        counts.add(json.loads(line))
                        file.write(line)
        if out.suffix == ".csv":
            _to_csv(draft)
        elif out.suffix == ".parquet":
            _to_parquet(draft, out)
    for part in parts:
        part.unlink()
    return counts


def _to_csv(draft: Path) -> None:
    """The JSON lines of ``draft`` as CSV, in the same place; lists and mappings are JSON in their cells."""
    with TemporaryDirectory() as folder:
        lines = Path(shutil.move(draft, folder))
        columns = {name: None for _, row in formats.json_lines(lines) for name in row}
        with draft.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            for _, row in formats.json_lines(lines):
                nested = {name: _json(value) for name, value in row.items() if isinstance(value, list | dict)}
                writer.writerow(row | nested)


def _to_parquet(draft: Path, out: Path) -> None:
    """The JSON lines of ``draft`` as Parquet, in the same place."""
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    try:
        with TemporaryDirectory() as cache:
            Dataset.from_json(str(draft), cache_dir=cache).to_parquet(str(draft))
    except Exception as error:  # its class depends on what is wrong with which column
        raise ValueError(f"out={out}: the rows do not fit in a table ({error!s:.120}); write .jsonl") from None


def _files(source: str) -> list[Path]:
    """The files that ``in`` names, fetched where they are on the hub."""
    try:
        return formats.data_files(place_of(source))
    except ValueError as error:
        raise ValueError(str(error).replace("data.path=", "in=")) from None


def _rows(files: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """Place (``file:line``) and content of every row, or its `RecordError`."""
    for file in files:
        for number, row in formats.rows(file):
            yield f"{file.name}:{number}", row


def _read(row: Any, criteria: Sequence[str]) -> Asked | RecordError:
    if isinstance(row, RecordError):
        return row
    try:
        return read_row(row, criteria)
    except RecordError as error:
        return error


def _effects(asked: Asked, scores: Sequence[Reward], without: Sequence[Sequence[Reward]]) -> dict[str, Any]:
    """``criterion_effects``, if asked for: by criterion, the score with it less the score without it."""
    effects: dict[str, Any] = {}
    for criterion, others in zip(asked.group.criteria, without, strict=False):
        each = [None if a is None or b is None else a - b for a, b in zip(scores, others, strict=True)]
        effects[criterion] = each[0] if asked.kind == "single" else each
    return {"criterion_effects": effects} if effects else {}


def _tell(counts: Counts, name: str, speed: float, out: str, source: Sequence[Path]) -> None:
    scored = counts.responses - counts.unscored.total()
    summary = f"scored {scored} of {counts.responses} responses in {counts.rows} rows by {name}"
    log.info("%s; %.1f rows/s -> %s", summary, speed, out)
    for kind, number in counts.unscored.most_common():
        at, reason = counts.examples[kind]
        place, _ = next(islice(_rows(source), at - 1, None))
        log.warning("%d without a score: %s (first: %s: %s)", number, kind, place, reason)
