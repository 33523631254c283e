"""`evaluate.py suite=<benchmark>`: a judge on public benchmarks, beside blind rules and published numbers."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pandas as pd
import torch
from huggingface_hub import EvalResult, ModelCard
from rich.progress import Progress, track

from crm.benchmarks.catalogue import BENCHMARKS, Benchmark, others_criteria, read_items
from crm.benchmarks.items import Item, Scores
from crm.benchmarks.report import (
    MOST_CATEGORIES,
    Outcome,
    categories,
    drop,
    estimate,
    flags,
    paired,
    published,
    table,
    unread,
)
from crm.config import nearest
from crm.data.catalogue import place_of
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.results import write_results
from crm.io.draws import generator
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.io.processes import Processes, start
from crm.io.rows import data_files
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.model.manifest import MANIFEST, sha256
from crm.model.model_card import CARD
from crm.picking.criteria import read_pool
from crm.picking.from_votes import taste_of
from crm.report.statistics import holm
from crm.report.tables import caption, markdown_text, number, print_table, write_table
from crm.rewards.scoring import Pair, Rewards
from crm.schema import Preference, Result

log = logging.getLogger(__name__)
PORTION = 256
"""Items that are scored together and then written."""
COINS = 20
"""Draws of which the row of the coin is the mean."""
SHOWN = {
    "own": "those of each row",
    "other": "another row's",
    "none": "none",
    "fitted": "proposed from the user's other votes",
}


@dataclass(frozen=True)
class Found:
    """Everything about one benchmark: outcomes by judge and criteria, then those of blind rules.

    ``leading`` holds the first outcome of each judge, which its headline is of.
    """

    benchmark: Benchmark
    outcomes: list[Outcome]
    leading: list[Outcome]
    notes: list[str]


def run_benchmarks(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Score the items of every benchmark and write ``benchmarks.md``, tables, ``results.json`` and the model card.

    Raises ``ValueError`` for an unknown benchmark, and where the files of a named one, or of all, are not there.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    places = locate(config.benchmarks, Path(config.data.root))
    check_judge(config)
    processes = start(config.devices, config.nodes)
    judges = [open_judge(config)]
    if config.against:
        other = replace(deepcopy(config), checkpoint=config.against)
        other.judge.name = "crm"
        check_judge(other)
        judges.append(open_judge(other))
    found = [run_one(BENCHMARKS[name], paths, judges, config, processes) for name, paths in places.items()]
    results = [row for each in found for row in as_results(each, judges[0])]
    if processes.first:
        write_all(config, found, judges, results, show)
    return results


def locate(names: Sequence[str], root: Path) -> dict[str, list[Path]]:
    """Where the files of each benchmark are; of ``public``, those that are here or can be fetched."""
    wanted = list(BENCHMARKS) if "public" in names else list(names)
    found: dict[str, list[Path]] = {}
    for name in wanted:
        if name not in BENCHMARKS:
            raise ValueError(f"suite={name}: no such benchmark{nearest(name, BENCHMARKS)}; {', '.join(BENCHMARKS)}")
        benchmark = BENCHMARKS[name]
        own = root / benchmark.folder
        if own.exists() or any(own.parent.glob(own.name)):
            found[name] = [own]
            continue
        try:
            found[name] = [place_of(address) for address in benchmark.hub] or _absent(benchmark, own)
        except ValueError as error:
            if "public" not in names:
                raise ValueError(f"suite={name}: {error}; or put its files under {own}") from None
            log.warning("%s is left out: %s", benchmark.title, error)
    if not found:
        raise ValueError(f"suite=public: no benchmark has files under data.root={root}, and none can be fetched")
    return found


def _absent(benchmark: Benchmark, own: Path) -> list[Path]:
    raise ValueError(f"there is no {own}; its owners publish it at {benchmark.address}")


def run_one(
    benchmark: Benchmark,
    paths: Sequence[Path],
    judges: Sequence[OpenedJudge],
    config: EvaluateConfig,
    processes: Processes,
) -> Found:
    """One benchmark by every judge, under every kind of criteria that it has, and by the rules that read nothing."""
    names = [address.rpartition("/")[2] for address in benchmark.hub] if len(paths) > 1 else []
    items = sampled(read_items(benchmark, *paths, names=names), config.limit)
    files = [f"{file.name} {sha256(file)[:16]}" for path in paths for file in data_files(path)]
    source = f"{len(items)} items of {', '.join(files)} (SHA-256); licence: {benchmark.license}"
    log.info("%s: %s", benchmark.title, source)
    asked_users = [replace(item, category=(item.user,)) for item in items if item.user and item.split == "test"]
    shown = {"none": [replace(item, criteria=()) for item in asked_users or items]}
    if benchmark.criteria:
        shown = {"own": items, **shown, "other": others_criteria(items)}
    outcomes: list[Outcome] = []
    leading: list[Outcome] = []
    notes: list[str] = []
    for opened in judges:
        own: dict[str, Outcome] = {}
        fitted = fit_users(opened, items, config.progress) if asked_users else []
        for kind, asked in (({"fitted": fitted} if fitted else {}) | shown).items():
            scores = judged(benchmark, opened, asked, kind, config, processes)
            own[kind] = outcome(benchmark, opened.name, SHOWN[kind], asked, scores)
        outcomes += own.values()
        leading.append(next(iter(own.values())))
        notes += [f"{opened.name}: {text}" for text in (drop(benchmark, own), unread(own)) if text]
    blind = blind_outcomes(benchmark, shown["none"])
    return Found(benchmark, [*outcomes, *blind], leading, [*notes, *flags(benchmark, blind), source])


def sampled(items: list[Item], size: int) -> list[Item]:
    """``size`` items (0: all) in their order, drawn by id, so that every judge has the same; of users, all of some."""
    keys = {_sampling_key(item) for item in items}
    drawn = sorted(keys, key=lambda key: (generator(0, 0, key, "benchmark").random(), key))
    taken = set(drawn[:size] if size else drawn)
    return [item for item in items if _sampling_key(item) in taken]


def _sampling_key(item: Item) -> str:
    """A user, or what `ref:1` and `tied:1` have in common, or the id."""
    return item.user or item.id.rpartition(":")[2]


def fit_users(opened: OpenedJudge, items: Sequence[Item], progress: bool) -> list[Item]:
    """The test items of each user, with the criteria that their other votes show (`crm.picking`).

    Empty for a judge that `crm.picking` cannot ask: it needs head=late.
    """
    reader = getattr(opened.judge, "late_reader", None)
    if reader is None:
        log.warning("%s: criteria of users are proposed by a model with head=late alone; left out", opened.name)
        return []
    votes: dict[str, list[Item]] = {}
    for item in items:
        votes.setdefault(item.user, []).append(item)
    found: list[Item] = []
    for own in track(votes.values(), "users", disable=not progress, transient=True):
        fit = [_vote(item) for item in own if item.split != "test"]
        criteria = tuple(each.text for each in taste_of(fit, reader, read_pool()).criteria) if fit else ()
        tested = (item for item in own if item.split == "test")
        found += [replace(item, criteria=criteria, category=(item.user,)) for item in tested]
    return found


def _vote(item: Item) -> Preference:
    first, second = item.responses
    winner = "b" if item.right == (1,) else "a"
    return Preference(item.id, item.prompt, first, second, winner, source="benchmark")


def outcome(
    benchmark: Benchmark, judge: str, criteria: str, items: Sequence[Item], scores: Scores, blind: bool = False
) -> Outcome:
    """What ``scores`` of ``items`` come to."""
    known = [[score for score in own if score is not None] for own in scores]
    spreads = [pstdev(own) for own in known if len(own) > 1]
    unread = sum(None in own for own in scores) / len(scores)
    points = tuple(benchmark.count(items, scores))
    return Outcome(judge, criteria, points, blind, fmean(spreads) if spreads and not blind else float("nan"), unread)


def judged(
    benchmark: Benchmark,
    opened: OpenedJudge,
    items: Sequence[Item],
    kind: str,
    config: EvaluateConfig,
    processes: Processes,
) -> list[list[float | None]]:
    """Scores of every item; what an earlier run has scored is read from its file beside the predictions."""
    asked = json.dumps([[item.id, item.criteria, str(item.prompt), str(item.responses)] for item in items])
    key = hashlib.sha256(f"{opened.judge.digest} {asked}".encode()).hexdigest()[:16]
    folder = opened.predictions / key
    folder.mkdir(parents=True, exist_ok=True)
    done = processes.from_first(lambda: _read_scores(folder, benchmark.name))
    missing = processes.share([item for item in items if item.id not in done])
    score = _scorer(benchmark, Rewards(opened.judge))
    path = folder / f"{benchmark.name}.{processes.rank}.jsonl"
    bar = Progress(disable=not (config.progress and processes.first), transient=True)
    with path.open("a", encoding="utf-8") as file, bar:
        task = bar.add_task(f"{benchmark.name} ({SHOWN[kind]})", total=len(missing))
        for at in range(0, len(missing), PORTION):
            portion = missing[at : at + PORTION]
            rows = zip(portion, score(portion), strict=True)
            file.write("".join(json.dumps([item.id, own]) + "\n" for item, own in rows))
            file.flush()
            bar.advance(task, len(portion))
    processes.wait()
    done = processes.from_first(lambda: _read_scores(folder, benchmark.name))
    return [done[item.id] for item in items]


def _read_scores(folder: Path, name: str) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for file in sorted(folder.glob(f"{name}.*.jsonl")):
        whole, _, cut = file.read_bytes().rpartition(b"\n")
        if cut:  # was being written when a run was killed
            file.write_bytes(whole + b"\n" * bool(whole))
        found |= dict(json.loads(line) for line in whole.split(b"\n") if line)
    return found


def _scorer(benchmark: Benchmark, rewards: Rewards) -> Callable[[Sequence[Item]], Scores]:
    """A score for each response; where a judge has to say the same in both orders, the sum of its two verdicts."""
    if rewards.pointwise or not benchmark.both_orders:
        return lambda items: rewards.of_groups([item.group() for item in items])

    def verdicts(items: Sequence[Item]) -> Scores:
        both = rewards.in_both_orders([Pair(item.group(), 0, 1) for item in items])
        sums = [
            None if ab is None or ba is None else float((ab > 0) - (ab < 0) + (ba > 0) - (ba < 0)) for ab, ba in both
        ]
        return [[value, None if value is None else -value] for value in sums]

    return verdicts


def blind_outcomes(benchmark: Benchmark, items: Sequence[Item]) -> list[Outcome]:
    """A coin, the longest and the shortest response (characters) and, where rows have an order, the first one."""
    lengths = [[sum(len(turn.content) for turn in text) for text in item.responses] for item in items]
    rules: dict[str, Scores] = {
        "longest": lengths,
        "shortest": [[-length for length in own] for own in lengths],
    }
    if benchmark.shown_order:
        rules["first"] = [[-place for place in range(len(item.responses))] for item in items]
    found = [outcome(benchmark, name, "", items, scores, blind=True) for name, scores in rules.items()]
    coins = [outcome(benchmark, "coin", "", items, _coin(items, seed), blind=True).points for seed in range(COINS)]
    mean = tuple(
        replace(points[0], value=fmean(point.value for point in points)) for points in zip(*coins, strict=True)
    )
    return [Outcome("coin", "", mean, True), *found]


def _coin(items: Sequence[Item], seed: int) -> Scores:
    draws = [generator(seed, 0, item.id, "coin") for item in items]
    return [[draw.random() for _ in item.responses] for draw, item in zip(draws, items, strict=True)]


def as_results(found: Found, opened: OpenedJudge) -> list[Result]:
    """Every metric of every judge and rule, overall and by category."""
    rows: list[Result] = []
    for each in found.outcomes:
        config = f"{each.judge}; criteria: {each.criteria}" if each.criteria else each.judge
        for metric in dict.fromkeys(point.metric for point in each.points):
            parts = categories([each], metric)
            for part in [(), *(parts if len(parts) <= MOST_CATEGORIES else [])]:
                interval = estimate(each.of(metric, part), found.benchmark.macro)
                rows.append(
                    Result(
                        "/".join([found.benchmark.name, *part]), metric, interval.mean, interval.n,
                        interval.standard_error, interval.low, interval.high,
                        () if each.blind else opened.seeds, config, commit(),
                    )
                )  # fmt: skip
    return rows


def write_all(
    config: EvaluateConfig, found: Sequence[Found], judges: Sequence[OpenedJudge], results: list[Result], show: bool
) -> None:
    """One card of all benchmarks, a table each, ``results.json``, RewardBench's file, and the model card's numbers."""
    out, parts = Path(config.run_dir), ["# Public benchmarks\n"]
    write_results(out, results, judges[0].facts() | {"seed": config.seed, "root": config.data.root})
    for each in found:
        frame, source = table(each.benchmark, each.outcomes), published().get(each.benchmark.name, {}).get("source")
        line = caption(
            len({point.item for point in each.outcomes[0].points}), judges[0].seeds, judges[0].name, commit()
        )
        write_table(out, each.benchmark.name, frame, line)
        notes = [*each.notes, *([f"published: {source}"] if source else [])]
        parts += [f"## {each.benchmark.title}\n", markdown_text(frame, line), "".join(f"- {note}\n" for note in notes)]
        if show:
            print_table(frame, each.benchmark.title)
            print("\n".join(notes))
    if len(judges) == 2 and len(compared := against(found, judges)):
        write_table(out, "against", compared)
        parts += [f"## {judges[0].name} less {judges[1].name}\n", markdown_text(compared)]
        if show:
            print_table(compared, f"{judges[0].name} less {judges[1].name}; p-values after Holm")
    path = replace_file(out / "benchmarks.md", "\n".join(parts))
    write_rewardbench_2(out, found, judges[0])
    write_model_index(config, found, judges[0])
    log.info("benchmarks: %s", path)


def against(found: Sequence[Found], judges: Sequence[OpenedJudge]) -> pd.DataFrame:
    """Paired differences of the headlines, with p-values corrected over all benchmarks (Holm)."""
    rows: list[dict[str, Any]] = []
    for each in found:
        benchmark = each.benchmark
        first, second = (outcome.of(benchmark.headline) for outcome in each.leading)
        difference, p = paired(first, second, benchmark.macro)
        shown = number(difference.mean, difference.low, difference.high)
        rows.append({"benchmark": benchmark.title, "difference": shown, "n": difference.n, "p": p})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]).tolist(), strict=True):
        row["p"] = corrected
    return pd.DataFrame(rows)


def write_rewardbench_2(out: Path, found: Sequence[Found], opened: OpenedJudge) -> None:
    """``reward_bench_2.json`` in the shape of allenai/reward-bench, scripts/run_v2.py."""
    for each in found:
        if each.benchmark.name == "reward_bench_2":
            points = each.outcomes[0].of("accuracy")
            subsets: Mapping[str, float] = (
                pd.Series([point.value for point in points])
                .groupby([point.category[0] for point in points])
                .mean()
                .to_dict()
            )
            facts = {"model": opened.name, "model_type": "Seq. Classifier", "chat_template": "tokenizer"}
            replace_file(out / "reward_bench_2.json", json.dumps(facts | dict(subsets), indent=4, sort_keys=True))


def write_model_index(config: EvaluateConfig, found: Sequence[Found], opened: OpenedJudge) -> None:
    """Put the headlines into the ``model-index`` of the card of a model folder here."""
    folders = [Path(str(config.checkpoint)) / part for part in (".", "model")]
    folder = next((each for each in folders if (each / MANIFEST).is_file() and (each / CARD).is_file()), None)
    if config.judge.name != "crm" or folder is None:
        return
    card = ModelCard.load(folder / CARD)
    card.data.model_name = opened.name
    card.data.eval_results = [
        EvalResult(
            task_type="text-classification",
            dataset_type=each.benchmark.name,
            dataset_name=each.benchmark.title,
            metric_type=each.benchmark.headline,
            metric_value=round(estimate(each.outcomes[0].of(each.benchmark.headline), each.benchmark.macro).mean, 4),
            metric_name=f"{each.benchmark.headline}; criteria: {each.outcomes[0].criteria}",
        )
        for each in found
    ]
    replace_file(folder / CARD, str(card))
