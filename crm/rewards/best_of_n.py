"""`best_of_n.py`: what the best of k responses by a judge is worth, as a table and a plot.

Best-of-k draws k of the n responses and takes the one with the highest score. The estimator is unbiased, over all
subsets of k: the i-th lowest score is the highest of a subset in C(i-1, k-1) of C(n, k) cases; equal scores share
theirs. A response whose score is NaN is left out, and a query with fewer than k left has NaN. Letters: Q queries,
K values of k, n responses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import BeforeValidator, FiniteFloat

from crm.data.fields import items
from crm.io.draws import grouped
from crm.io.files import replace_file, with_nulls
from crm.io.installed import commit
from crm.io.rows import Intake
from crm.io.words import count_words
from crm.judges.judge import OracleJudge
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import open_bank
from crm.report.plots import COLOURS, GREY, MARKERS, save_figure, short_name, tidy_axes
from crm.report.statistics import Floats, mean_interval
from crm.report.tables import caption, number, print_table, write_table
from crm.rewards.config import BestOfNConfig
from crm.rewards.rows import read_row
from crm.rewards.scoring import Group, Rewards, Turns
from crm.schema import Message, RecordError, prompt_key, validated

log = logging.getLogger(__name__)
Gold = Annotated[FiniteFloat | None, BeforeValidator(lambda given: given if str(given).strip() else None)]
"""A number, or its text; blank and null are unknown."""
STYLES: dict[str, dict[str, Any]] = {
    "judge": {"color": COLOURS[0], "marker": MARKERS[0]},
    "blind": {"color": COLOURS[3], "marker": MARKERS[3]},
    "opposite": {"color": COLOURS[1], "marker": MARKERS[1]},
    "length": {"color": COLOURS[2], "marker": MARKERS[2]},
    "random": {"color": GREY, "linestyle": ":"},
    "oracle": {"color": "#000000", "linestyle": "--"},
}


@dataclass(frozen=True)
class Candidates:
    """Responses to one prompt, for a user with these criteria; ``gold`` and ``authors`` of each, or empty.

    ``id`` is that of a bank's query; empty for a row of a file.
    """

    prompt: Turns
    responses: tuple[str, ...]
    criteria: tuple[str, ...] = ()
    gold: tuple[float | None, ...] = ()
    authors: tuple[str, ...] = ()
    id: str = ""

    def group(self, criteria: Sequence[str]) -> Group:
        """What a judge reads under ``criteria``."""
        return Group(tuple(criteria), self.prompt, tuple((Message("assistant", text),) for text in self.responses))

    @property
    def cluster(self) -> str:
        """The prompt's key."""
        return prompt_key(self.prompt)


def run_best_of_n(config: BestOfNConfig, show: bool = True) -> pd.DataFrame:
    """Write ``best_of_n.md``, ``.png``, ``picks.jsonl`` and ``results.json`` into the run folder; return `curves`.

    Raises ``ValueError`` where there is nothing to choose from, or the judge read none of it.
    """
    check_judge(config)
    found = read_file(Path(config.candidates)) if config.candidates else of_bank(open_bank(config.bank))
    pool = [replace(own, criteria=tuple(config.criteria) or own.criteria) for own in found if len(own.responses) > 1]
    if not pool:
        raise ValueError(f"candidates: none of {len(found)} queries has 2 responses; repeat the query in each row")
    opened = open_judge(config)
    groups = [own.group(own.criteria) for own in pool]
    judge, blind = np.split(table(Rewards(opened.judge).of_groups([*groups, *(own.group(()) for own in pool)])), 2)
    if np.isnan(judge).all():
        raise ValueError(f"candidates: {opened.name} read no response; take shorter ones")
    gold, unit = _gold(config, pool, judge)
    pickers = {"judge": judge, "blind": blind, "length": words_of(pool)}
    read = np.where(np.isnan(judge), np.nan, gold)
    ks = sizes(min(config.max_k, reached(read)))
    frame = curves(pickers, read, [own.cluster for own in pool], ks)
    if gold is judge:  # whoever picks by it is the judge
        frame = frame[frame["picked_by"] != "oracle"]
    responses = sum(len(own.responses) for own in pool)
    counts = {"queries": len(pool), "queries_left_out": len(found) - len(pool), "responses": responses}
    counts |= {name: responses - int((~np.isnan(each)).sum()) for name, each in (("no_gold", gold), ("unread", judge))}
    one = len({own.criteria for own in pool}) == 1
    asked = (" · ".join(pool[0].criteria) or "no criteria") if one else "the criteria of each query"
    _write(config, frame, counts, opened, f"{asked}: {unit}")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in picks(pool, judge, ks))
    replace_file(Path(config.run_dir) / "picks.jsonl", lines)
    if show:
        print_table(gold_table(frame), f"{unit} ({config.run_dir})")
    log.info("best of n: %s", ", ".join(f"{name} {value}" for name, value in counts.items() if value))
    return frame


def _write(
    config: BestOfNConfig, frame: pd.DataFrame, counts: Mapping[str, int], opened: OpenedJudge, title: str
) -> None:
    folder, line = Path(config.run_dir), caption(counts["queries"], opened.seeds, opened.name, commit())
    write_table(folder, "best_of_n", gold_table(frame), f"{title}; {line}")
    plot(folder / "best_of_n.png", frame, title)
    run = opened.facts() | {"title": title, "seed": config.seed, "commit": commit()}
    document = {"version": 2, "run": run, "counts": counts, "curves": with_nulls(frame.to_dict("records"))}
    replace_file(folder / "results.json", json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _gold(config: BestOfNConfig, pool: Sequence[Candidates], judge: Floats) -> tuple[Floats, str]:
    """Gold (Q, n) and its unit: the simulation's truth, that of the file, else the ``judge``'s own reward."""
    simulated = config.candidates is None and config.bank.name == "simulated"
    if simulated:
        gold = Rewards(OracleJudge()).of_groups([own.group(own.criteria) for own in pool])
    else:
        gold = [[*own.gold] or [None] * len(own.responses) for own in pool]
    if not np.isnan(judge + (found := table(gold))).all():
        return found, "nats of the true user" if simulated else "gold of the file"
    way_out = "name a user of the simulated bank, or give candidates=<file> with a column gold"
    log.warning("gold: nobody knows what these responses are worth; the table has the judge's own reward; %s", way_out)
    return judge, "reward of the judge (nats)"


def picks(pool: Sequence[Candidates], rewards: Floats, ks: Sequence[int]) -> list[dict[str, Any]]:
    """A row for each query and each n of ``ks`` that it reaches: the best of its first n responses by ``rewards``.

    ``index`` counts from 0, and of equals the first is taken; null where the judge read none of them.
    """
    rows = []
    for own, scores in zip(pool, rewards, strict=True):
        for n in (n for n in ks if n <= len(own.responses)):
            row: dict[str, Any] = {"id": own.id or own.cluster, "criteria": own.criteria, "n": n}
            row |= dict.fromkeys(("index", "response", "author", "reward"))
            if not np.isnan(scores[:n]).all():
                index = int(np.nanargmax(scores[:n]))
                row |= {"index": index, "response": own.responses[index], "reward": float(scores[index])}
                row |= {"author": own.authors[index]} if own.authors else {}
            rows.append(row)
    return rows


def read_file(path: Path) -> list[Candidates]:
    """Rows as `score.py` reads them, those of a prompt and the same ``criteria`` together; ``gold`` where it is known.

    Raises ``ValueError`` with ``file:line: field: why`` for a bad row.
    """

    def parse(row: dict[str, Any], _line: int) -> Candidates:
        asked, given = read_row(row, ()), row.get("gold")
        if any(len(turns) > 1 for turns in asked.group.responses):
            raise RecordError("row", "a response of several turns; expected text")
        texts = tuple(turns[0].content for turns in asked.group.responses)
        listed = items(given, "gold") if given and asked.kind != "single" else [given] * len(texts)
        if len(listed) != len(texts):
            raise RecordError("gold", f"expected a number for each of {len(texts)} responses, got {len(listed)}")
        gold = tuple(validated(Gold, each, "gold") for each in listed)
        return Candidates(asked.group.prompt, texts, asked.group.criteria, gold)

    rows = Intake(strict=True).rows(path, parse)
    return [
        replace(own[0], responses=sum((one.responses for one in own), ()), gold=sum((one.gold for one in own), ()))
        for own in grouped(rows, lambda one: (one.cluster, one.criteria)).values()
    ]


def of_bank(bank: Bank) -> list[Candidates]:
    """A response of each LLM to every query."""
    texts = {query: tuple(bank.responses[author][query.id] for author in bank.authors) for query in bank.queries}
    return [Candidates(query.prompt, own, authors=bank.authors, id=query.id) for query, own in texts.items()]


def table(rows: Sequence[Sequence[float | None]]) -> Floats:
    """(Q, n) numbers; None and what a shorter row lacks are NaN."""
    return np.array([*zip_longest(*rows)], dtype=np.float64).T


def words_of(candidates: Sequence[Candidates]) -> Floats:
    """(Q, n) words of each response."""
    return table([[float(count_words(text)) for text in own.responses] for own in candidates])


def curves(pickers: Mapping[str, Floats], gold: Floats, clusters: Sequence[str], ks: Sequence[int]) -> pd.DataFrame:
    """By ``picked_by`` and ``k`` an `Interval`: mean ``gold`` (Q, n) of the best of k by each picker's scores (Q, n).

    ``random`` and ``oracle`` are pickers too. Intervals are Student's t, clustered by prompt. A response without gold
    is not picked; k without a value has no row.
    """
    rows = []
    for name, scores in {**pickers, "random": np.zeros_like(gold), "oracle": gold}.items():
        values = expected(best_of_k(np.where(np.isnan(gold), np.nan, scores), ks), gold)
        for place, k in enumerate(ks):
            known = ~np.isnan(values[:, place])
            if known.any():
                named = [cluster for cluster, there in zip(clusters, known, strict=True) if there]
                rows.append({"picked_by": name, "k": k, **asdict(mean_interval(values[known, place], named))})
    return pd.DataFrame(rows).replace([np.inf, -np.inf], np.nan)


def gold_table(frame: pd.DataFrame) -> pd.DataFrame:
    """A picker a row, k a column, cells ``mean [low, high]``."""
    cells = [number(row.mean, row.low, row.high) for row in frame[["mean", "low", "high"]].itertuples(name="Row")]
    shown = frame.assign(cell=cells).pivot(index="picked_by", columns="k", values="cell").fillna("–")
    shown = shown.loc[list(dict.fromkeys(frame["picked_by"]))].rename(columns=lambda k: f"k = {k}")
    return shown.reset_index().rename_axis(None, axis=1)


def plot(path: Path, frame: pd.DataFrame, title: str) -> Path:
    """Gold over k on a logarithmic axis, with bands."""
    figure = Figure(figsize=(7.5, 4.3), layout="constrained")
    figure.suptitle(short_name(title, 90), fontsize=11)
    axes, ks = figure.subplots(), sorted(frame["k"].unique())
    for name, style in STYLES.items():
        if len(own := frame[frame["picked_by"] == name].sort_values("k")):
            axes.plot(own["k"], own["mean"], label=name, markersize=4, linewidth=1.4, **style)
            axes.fill_between(own["k"], own["low"], own["high"], color=style["color"], alpha=0.13, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    axes.set_xlabel("k: responses to pick from (95 % bands, clustered by prompt)")
    axes.set_ylabel("gold of the pick")
    tidy_axes(axes)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return save_figure(figure, path)


def sizes(largest: int) -> tuple[int, ...]:
    """The values of k to show: powers of two up to ``largest`` (1 or more), and ``largest`` itself."""
    return (*(2**power for power in range((largest - 1).bit_length())), largest)


def reached(known: Floats) -> int:
    """The largest k, 1 or more, for which at least 9 of 10 queries have responses: numbers of ``known`` (Q, n)."""
    counts = (~np.isnan(known)).sum(axis=1)
    return max(1, int(np.quantile(counts, 0.1, method="lower")))


def best_of_k(scores: Floats, ks: Sequence[int]) -> Floats:
    """(Q, K, n) probability that a response is the best of k drawn without replacement, from ``scores`` (Q, n)."""
    return np.stack([_of_query(row, ks) for row in np.asarray(scores, dtype=np.float64)])


def expected(picked: Floats, values: Floats) -> Floats:
    """(Q, K) expected value of the pick, of ``picked`` (Q, K, n) and ``values`` (Q, n).

    NaN for a query with fewer than k responses, and where a possible pick has no value.
    """
    unknown = np.isnan(values)
    found = np.einsum("qkn,qn->qk", picked, np.where(unknown, 0, values))
    hidden = np.einsum("qkn,qn->qk", picked, unknown.astype(np.float64))
    return np.where(hidden > 0, np.nan, found)


def _of_query(row: Floats, ks: Sequence[int]) -> Floats:
    """(K, n) of one query."""
    picked = np.full((len(ks), len(row)), np.nan)
    read = np.flatnonzero(~np.isnan(row))
    order = read[np.argsort(row[read], kind="stable")]
    _, block, counts = np.unique(row[order], return_inverse=True, return_counts=True)
    for place, k in enumerate(ks):
        if k <= len(order):
            lowest = np.arange(len(order), 1, -1)
            highest = np.cumprod(np.concatenate([[k / len(order)], (lowest - k).clip(0) / (lowest - 1)]))[::-1]
            picked[place] = 0
            picked[place, order] = (np.bincount(block, highest) / counts)[block]
    return picked
