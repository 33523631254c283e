"""`bank.py score`: columns of a bank's criteria matrix by an LLM, a reward model, counting, or people's ratings."""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import FiniteFloat
from rich.progress import track

from crm.config import nearest
from crm.criteria.counting import MEASURES
from crm.criteria.grading import Grades, grades_model, grading_messages, grading_task
from crm.criteria.pool import Criterion, read_criteria
from crm.endpoint.client import ChatClient, Outcome
from crm.endpoint.replies import ReplyCache
from crm.io.draws import turn
from crm.io.files import shown_path
from crm.io.processes import Processes, start
from crm.io.rows import Intake
from crm.judges.judge import Judge
from crm.judges.open import PREDICTIONS, REPLIES, check_judge, open_judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.bank.responses import filled_column, prompt_cell
from crm.leaderboard.config import BankScoreConfig
from crm.leaderboard.matrix import Cells, Column, CriteriaMatrix, open_matrix
from crm.schema import GENERIC_CRITERION, Message, RecordError, prompt_key, short, validated

log = logging.getLogger(__name__)
PORTION = 16
"""Requests between two saves, times those under way at once."""
QUALITY = Criterion("General quality", "general quality", "poor quality", "How good most people would find the answer.")
"""What a reward model scores that reads no criteria."""


def run_bank_score(config: BankScoreConfig) -> CriteriaMatrix:
    """Score the criteria of the pool on the bank; what is in its matrix already is not scored again.

    Raises ``ValueError`` where nothing can be scored.
    """
    pool = read_criteria(Path(config.pool) if config.pool else None)
    if config.judge.name != "crm":
        config.checkpoint = None  # as all settings of another judge
    check_judge(config)
    bank = open_bank(config.bank)
    matrix = open_matrix(bank, config.bank.path)
    if config.ratings is not None:
        _by_people(matrix, pool, Path(config.ratings))
    elif config.judge.name == "traits":
        matrix.count(list(MEASURES), config.progress)
    elif config.judge.name == "llm":
        _by_llm(config, matrix, _judged(pool))
    else:
        blind = config.judge.name == "reward_model"
        _by_judge(config, matrix, [QUALITY] if blind else _judged(pool))
    missing: defaultdict[str, list[float]] = defaultdict(list)
    for name, column in matrix.columns.items():
        missing[column.by].append(float(np.isnan(matrix.raw(name)).mean()))
    found = (f"{len(each)} criteria by {by} ({np.mean(each):.1%} missing)" for by, each in missing.items())
    log.info("%s: %s", matrix.path, ", ".join(found) or "empty")
    return matrix


def _judged(pool: Sequence[Criterion]) -> list[Criterion]:
    """The criteria that a judge scores: those that cannot be counted. Raises ``ValueError`` where all can."""
    found = [each for each in pool if each.name not in MEASURES]
    if not found:
        raise ValueError("pool: all of its criteria can be counted (judge=traits); name others")
    return found


def _column(criterion: Criterion, by: str, *facts: Any) -> Column:
    """Of a criterion; ``facts`` decide its scores."""
    known = json.dumps([criterion.more, criterion.less, *facts])
    digest = hashlib.sha256(known.encode()).hexdigest()[:16]
    return Column(criterion.name, by, digest, criterion.more, criterion.less)


def _by_llm(config: BankScoreConfig, matrix: CriteriaMatrix, criteria: Sequence[Criterion]) -> None:
    """One call a response grades all criteria. Raises ``ValueError`` where no response is graded."""
    path = Path(config.predictions or PREDICTIONS) / REPLIES
    client = ChatClient(config.judge, ReplyCache(path) if path.is_file() or not config.dry_run else None)
    task, schema = grading_task(criteria), grades_model(criteria)
    facts = str(config.judge.base_url).rstrip("/"), config.judge.temperature
    columns = [_column(each, f"llm {config.judge.model}", grading_task([each]), *facts) for each in criteria]
    asked = _requests(matrix, columns, task)
    if config.dry_run:
        plan = client.plan_for(schema, list(asked.values()))
        calls = f"{plan.requests:,} responses, {plan.cached:,} replies are there: {plan.calls:,} calls"
        tokens = f"about {plan.prompt_tokens:,} tokens in, {plan.max_completion_tokens:,} out at most"
        log.info("%d criteria, %s, %s", len(criteria), calls, tokens)
        return
    failures: dict[str, Outcome[Grades]] = {}
    size = PORTION * config.judge.concurrency
    for begin in track(range(0, len(asked), size), "grading", disable=not config.progress, transient=True):
        portion = list(asked)[begin : begin + size]
        cells = np.full((len(matrix.keys), len(columns)), np.nan, np.float32)
        for place, outcome in zip(portion, client.ask_for(schema, [asked[each] for each in portion]), strict=True):
            if outcome.value is None:
                failures[matrix.keys[place]] = outcome
            else:
                cells[place] = np.array(outcome.value.grades(), np.float32)  # None is NaN
        if not np.isnan(cells).all():
            matrix.add(columns, cells)
    _tell(matrix.keys, matrix.scored(columns), failures)


def _requests(matrix: CriteriaMatrix, columns: Sequence[Column], task: str) -> dict[int, tuple[Message, Message]]:
    """By its place a request for each response that lacks a score; for equal texts one."""
    bank, missing = matrix.bank, np.asarray(np.isnan(matrix.scored(columns)).any(axis=1))
    texts = [(query.prompt, bank.responses[name][query.id]) for query in bank.queries for name in bank.authors]
    first = {key: place for place, key in reversed([*enumerate(matrix.keys)]) if missing[place]}
    return {place: grading_messages(task, *texts[place]) for place in sorted(first.values())}


def _tell(keys: Sequence[str], cells: Cells, failures: Mapping[str, Outcome[Grades]]) -> None:
    """Log what became of every response. Raises ``ValueError`` where none is graded."""
    without = [key for key, row in zip(keys, np.isnan(cells), strict=True) if row.all()]
    kinds = Counter(str(failures[key].failure) if key in failures else "cannot tell" for key in without)
    lost = "".join(f", {kind} {count:,}" for kind, count in sorted(kinds.items()))
    summary = f"{len(keys) - len(without):,} of {len(keys):,} responses graded{lost}"
    such = {str(each.failure): f"{each.failure}: {each.detail}" for each in failures.values()}
    if len(without) == len(keys):
        raise ValueError(f"judge=llm: {summary}; such as {'; '.join(such.values())}")
    log.info("%s; %s of %s grades", summary, f"{int((~np.isnan(cells)).sum()):,}", f"{cells.size:,}")
    if such:
        log.warning("the same command asks again for what failed, such as %s", "; ".join(such.values()))


def _by_judge(config: BankScoreConfig, matrix: CriteriaMatrix, criteria: Sequence[Criterion]) -> None:
    """A column a criterion: the score with ``more`` less that with ``less``.

    A head that compares has the mean log-odds against the bank's baseline for scores. A model that reads no criteria
    makes one column, `QUALITY`.
    """
    from crm.leaderboard.index import index_bank  # and with it transformers, which others do without

    processes = start(config.devices, config.nodes)
    opened, bank = open_judge(config), matrix.bank
    pairs = () if getattr(opened.judge, "pointwise", False) else (bank.baseline,)
    checkpoint = str(config.checkpoint or opened.name)
    by = shown_path(checkpoint) if Path(checkpoint).exists() else checkpoint
    columns = [_column(each, by, opened.judge.digest, *pairs) for each in criteria]
    missing = processes.from_first(lambda: np.asarray(np.isnan(matrix.scored(columns)).any(axis=0)))
    columns = [column for column, new in zip(columns, missing, strict=True) if new]
    where: Any = {"folder": opened.predictions, "progress": config.progress, "processes": processes}
    index = index_bank(opened.judge, bank, **where) if columns else None
    if index is not None:
        scores = index.scores([each.more for each in columns]) - index.scores([each.less for each in columns])
        _add(matrix, columns, np.moveaxis(scores, 0, -1), processes)
        return
    for column in columns:
        asked = [GENERIC_CRITERION] if criteria == [QUALITY] else [column.more, column.less]
        more, *less = (_scores(opened.judge, bank, text, where) for text in asked)
        _add(matrix, [column], more - sum(less), processes)


def _add(matrix: CriteriaMatrix, columns: Sequence[Column], scores: Cells, processes: Processes) -> None:
    if np.isnan(scores).all():
        way_out = "shorten the responses with bank.max_words, or take another judge"
        raise ValueError(f"bank={matrix.bank.name}: {columns[0].by} could score no response; {way_out}")
    if processes.first:
        matrix.add(columns, scores)


def _scores(judge: Judge, bank: Bank, criterion: str, where: Mapping[str, Any]) -> Cells:
    """(Q, M) in the order of the bank; NaN for what the judge could not read."""
    from crm.leaderboard.scoring import score_bank

    outcomes, _ = score_bank(judge, bank, [criterion], **where)
    alone = getattr(judge, "pointwise", False) and outcomes.scores is not None
    found = pd.DataFrame(outcomes.scores if alone else outcomes.logits, outcomes.queries, outcomes.models)
    cells: Cells = found.loc[[query.id for query in bank.queries], list(bank.authors)].to_numpy(np.float32)
    return np.where(np.isfinite(cells), cells, np.nan)


def _by_people(matrix: CriteriaMatrix, pool: Sequence[Criterion], path: Path) -> None:
    """A column a criterion that is rated in the file, by the mean of its ratings of a response.

    Raises ``ValueError`` naming file and line for a row that cannot be read, and where no row is about the bank.
    """
    known, bank = {each.name.casefold(): each for each in pool}, matrix.bank
    places = {key: query.id for query in bank.queries for key in (query.id, prompt_key(query.prompt))}
    found: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    others: Counter[str] = Counter()

    def parse(row: dict[str, Any], _line: int) -> None:
        given, model = (str(row[filled_column(row, [column])]) for column in ("criterion", "model"))
        name = given.casefold()
        if name not in known:
            raise RecordError("criterion", f"{short(given)} is not in the pool{nearest(name, known)}")
        query = str(row.get("query_id") or prompt_cell(row)[1])
        key = places.get(query) or places.get(prompt_key(turn("user", query)))
        score = validated(FiniteFloat, row.get("score"), "score")
        if key is None:
            others[f"query {short(query)}"] += 1
        elif model not in bank.responses:
            others[f"model {short(model)}{nearest(model, bank.responses)}"] += 1
        else:
            found[name, key, model].append(score)

    list(Intake(strict=True).rows(path, parse))
    such = f", such as {', '.join([*others][:2])}" if others else ""
    if not found:
        raise ValueError(f"ratings={path}: no row is about a query and a model of bank {bank.name!r}{such}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    names = dict.fromkeys(name for name, _, _ in found)
    columns = [_column(known[name], f"people ({shown_path(path)})", digest) for name in names]
    responses = [(query.id, who) for query in bank.queries for who in bank.authors]
    matrix.add(columns, [[np.mean(found.get((name, *place), [np.nan])) for name in names] for place in responses])
    counts = len(names), sum(map(len, found.values())), others.total(), such
    log.info("%d criteria: %d ratings; %d rows are about other queries or models%s", *counts)
