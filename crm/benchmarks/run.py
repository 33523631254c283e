"""`evaluate.py suite=<benchmark>`: a judge on public benchmarks, beside blind rules and published numbers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from huggingface_hub import EvalResult, ModelCard

from crm.benchmarks.catalogue import BENCHMARKS, Benchmark, others_criteria, read_items
from crm.benchmarks.judging import SHOWN, blind_outcomes, fit_users, judged, outcome, sampled
from crm.benchmarks.protocols import Point
from crm.benchmarks.report import Outcome, estimate, estimates, flags, paired, published, remarks, table
from crm.config import nearest
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.results import write_results
from crm.io.files import replace_file
from crm.io.hub import dataset_folder
from crm.io.installed import commit
from crm.io.processes import Processes, start
from crm.io.rows import data_files
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.model.folders import model_in
from crm.model.manifest import sha256
from crm.model.model_card import CARD
from crm.report.statistics import holm
from crm.report.tables import caption, markdown_text, print_table, write_table
from crm.schema import Result

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """Everything about one benchmark: outcomes by judge and criteria, then those of blind rules.

    A judge's headline is that of its first outcome.
    """

    benchmark: Benchmark
    outcomes: list[Outcome]
    notes: list[str]

    def headline(self, judge: str) -> list[Point]:
        """The points of a judge's headline."""
        return next(each for each in self.outcomes if each.judge == judge).of(self.benchmark.headline)


def run_benchmarks(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Score the items of every benchmark and write ``benchmarks.md``, tables, ``results.json`` and the model card.

    Raises ``ValueError`` for an unknown benchmark, and where the files of a named one, or of all, are not there.
    """
    places = locate(config.benchmarks, Path(config.data.root))
    asked = [config]
    if config.against:
        asked.append(replace(deepcopy(config), checkpoint=config.against))
        asked[1].judge.name = "crm"
    for each in asked:
        check_judge(each)
    processes = start(config.devices, config.nodes)
    opened = [open_judge(each) for each in asked]
    # A trained model is called as its folder or hub id: two with the same head are two judges.
    judges = [replace(one, name=each.checkpoint or one.name) for one, each in zip(opened, asked, strict=True)]
    found = [run_one(BENCHMARKS[name], paths, judges, config, processes) for name, paths in places.items()]
    results = [row for each in found for row in as_results(each, judges)]
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
            if not benchmark.hub:
                raise ValueError(f"there is no {own}; its owners publish it at {benchmark.address}")
            found[name] = [dataset_folder(address) for address in benchmark.hub]
        except ValueError as error:
            if "public" not in names:
                raise ValueError(f"suite={name}: {error}; or put its files under {own}") from None
            log.warning("%s is left out: %s", benchmark.title, error)
    if not found:
        raise ValueError(f"suite=public: no benchmark has files under data.root={root}, and none can be fetched")
    return found


def run_one(
    benchmark: Benchmark,
    paths: Sequence[Path],
    judges: Sequence[OpenedJudge],
    config: EvaluateConfig,
    processes: Processes,
) -> Found:
    """One benchmark by every judge, under every kind of criteria that it has, and by the rules that read nothing."""
    names = [address.rpartition("/")[2] for address in benchmark.hub] if len(paths) > 1 else []
    items = read_items(benchmark, *paths, names=names)
    benchmark, items = benchmark.of(items), sampled(items, config.limit)
    files = [f"{file.name} {sha256(file)[:16]}" for path in paths for file in data_files(path)]
    source = f"{len(items)} items of {', '.join(files)} (SHA-256); licence: {benchmark.license}"
    log.info("%s: %s", benchmark.title, source)
    asked_users = [replace(item, category=(item.user,)) for item in items if item.user and item.split == "test"]
    shown = {"none": [replace(item, criteria=()) for item in asked_users or items]}
    if any(item.posts for item in items):  # with the extra ``profiles``
        shown["posts"] = [replace(item, criteria=item.posts) for item in items]
    if any(item.criteria for item in items):
        shown = {"own": items, **shown, "other": others_criteria(items)}
        shown = {kind: asked for kind, asked in shown.items() if asked}
    outcomes: list[Outcome] = []
    notes: list[str] = []
    for opened in judges:
        own: dict[str, Outcome] = {}
        fitted = fit_users(opened, items, config.progress) if asked_users else []
        for kind, asked in (({"fitted": fitted} if fitted else {}) | shown).items():
            answered, scores = zip(*judged(benchmark, opened, asked, kind, config.progress, processes), strict=True)
            own[kind] = outcome(benchmark, opened.name, SHOWN[kind], answered, scores)
            if lacking := len(asked) - len(answered):
                notes.append(f"{opened.name}: {lacking} items without a reply are left out (criteria: {SHOWN[kind]})")
        outcomes += own.values()
        notes += [f"{opened.name}: {text}" for text in remarks(benchmark, own)]
    blind = blind_outcomes(benchmark, shown["none"])
    return Found(benchmark, [*outcomes, *blind], [*notes, *flags(benchmark, blind), source])


def as_results(found: Found, judges: Sequence[OpenedJudge]) -> list[Result]:
    """Every metric of every judge and rule, overall and by category."""
    seeds = {opened.name: opened.seeds for opened in judges}
    rows: list[Result] = []
    for each in found.outcomes:
        config = f"{each.judge}; criteria: {each.criteria}" if each.criteria else each.judge
        for (metric, part), own in estimates(each, found.benchmark.macro).items():
            suite, by = "/".join([found.benchmark.name, *part]), seeds.get(each.judge, ())
            limits = (own.standard_error, own.low, own.high)
            rows.append(Result(suite, metric, own.mean, own.n, *limits, by, config, commit()))
    return rows


def write_all(
    config: EvaluateConfig, found: Sequence[Found], judges: Sequence[OpenedJudge], results: list[Result], show: bool
) -> None:
    """One card of all benchmarks, a table each, ``results.json``, and the model card's numbers."""
    out, parts = Path(config.run_dir), ["# Public benchmarks\n"]
    write_results(out, results, judges[0].facts() | {"seed": config.seed, "root": config.data.root})
    for each in found:
        frame, source = table(each.benchmark, each.outcomes), published().get(each.benchmark.name, {}).get("source")
        items = {point.item for point in each.outcomes[0].points}
        line = caption(len(items), judges[0].seeds, judges[0].name, commit())
        write_table(out, each.benchmark.name, frame, line)
        notes = [*each.notes, *([f"published: {source}"] if source else [])]
        parts += [f"## {each.benchmark.title}\n", markdown_text(frame, line), "".join(f"- {note}\n" for note in notes)]
        if show:
            print_table(frame, each.benchmark.title)
            print("\n".join(notes))
    if len(judges) == 2:
        compared, title = against(found, *judges), f"{judges[0].name} less {judges[1].name}"
        write_table(out, "against", compared)
        parts += [f"## {title}\n", markdown_text(compared)]
        if show:
            print_table(compared, f"{title}; p-values after Holm")
    path = replace_file(out / "benchmarks.md", "\n".join(parts))
    write_model_index(config, found, judges[0])
    log.info("benchmarks: %s", path)


def against(found: Sequence[Found], one: OpenedJudge, other: OpenedJudge) -> pd.DataFrame:
    """Paired differences of the headlines with 95 % limits, and p-values corrected over all benchmarks (Holm)."""
    rows: list[dict[str, Any]] = []
    for each in found:
        less, p = paired(each.headline(one.name), each.headline(other.name), each.benchmark.macro)
        limits = {"difference": less.mean, "low": less.low, "high": less.high}
        rows.append({"benchmark": each.benchmark.title, **limits, "n": less.n, "p": p})
    for row, corrected in zip(rows, holm([row["p"] for row in rows]).tolist(), strict=True):
        row["p"] = corrected
    return pd.DataFrame(rows)


def write_model_index(config: EvaluateConfig, found: Sequence[Found], opened: OpenedJudge) -> None:
    """Put headlines of whole benchmarks into the ``model-index`` of the card of a model folder here.

    Those of other benchmarks stay.
    """
    folder = model_in(Path(str(config.checkpoint)).resolve())
    whole = [each for each in found if each.benchmark.name in BENCHMARKS]
    if config.judge.name != "crm" or folder is None or config.limit or not whole or not (folder / CARD).is_file():
        return
    card = ModelCard.load(folder / CARD)
    card.data.model_name = (folder.parent if folder.name == "model" else folder).name  # no path of this machine
    rows = {row.dataset_type: row for row in card.data.eval_results or []}
    for each in whole:
        own = estimate(each.headline(opened.name), each.benchmark.macro)
        rows[each.benchmark.name] = EvalResult(
            task_type="text-classification",
            dataset_type=each.benchmark.name,
            dataset_name=each.benchmark.title,
            metric_type=each.benchmark.headline,
            metric_value=round(own.mean, 4),
            metric_name=f"{each.benchmark.headline}; criteria: {each.outcomes[0].criteria}; n = {own.n}",
        )
    card.data.eval_results = [*rows.values()]
    replace_file(folder / CARD, str(card))
