"""`evaluate.py`: a judge reads test suites; prediction files, results, a table and a plot."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from crm.data.comparisons import SUITES, WITHOUT_EFFECT, fixed_suites, parse_suite, suite_names
from crm.data.load import load_data
from crm.data.splits import Splits
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.predictions import predict, to_samples
from crm.evaluation.results import summarise, write_results
from crm.evaluation.robustness import CARD_TEXT, CLEAN, SEED, attacked, effects_of
from crm.io.installed import commit
from crm.io.processes import Processes, start
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.model.config import training_config
from crm.model.folders import checkpoint_folder
from crm.model.model_card import ROBUSTNESS_SECTION, write_section
from crm.report.plots import suite_accuracy
from crm.report.tables import caption, markdown_text, print_table, suite_table, write_table
from crm.schema import Comparison, Prediction, Result, prompt_key
from crm.training.resume import PROMPTS
from crm.training.tracking import check_tracker, track

log = logging.getLogger(__name__)
NO_VERDICT = (
    "its replies do not end with a verdict: raise judge.max_tokens or take another judge.model; 'A language model as "
    "the judge' in docs/evaluation.md says what is accepted"
)
Suites = Mapping[str, Sequence[Comparison]]


@dataclass
class SuiteReadings:
    """Predictions of the suites of a run; ``left_out`` counts by suite the readings that the judge did not give."""

    predictions: list[Prediction] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def run_evaluation(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Read every suite that is configured, in both orders, and summarise the prediction files."""
    check_judge(config)
    check_tracker(config.logger.kinds)
    processes = start(config.devices, config.nodes)
    _check_recorded(config)
    splits = load_data(config.data, criteria=config.criteria)
    if not config.data.test_fraction and not any(splits.suites.values()):
        raise ValueError(
            f"{config.data.word}: no votes are held out (data.test_fraction=0); name others: data=<file of test votes>"
        )
    _warn_of_trained(config, splits)
    title = config.data.title() + ("" if config.criteria == "own" else f" (criteria={config.criteria})")
    log.info("data %s: %s", title, ", ".join(f"{key} {value}" for key, value in splits.counts.items()))
    names = config.suite if isinstance(config.suite, list) else suite_names(splits.suites, SUITES[config.suite])
    bases = [base for base in splits.suites if base.split(".")[-1] == "D"] or list(splits.suites)[:1]
    attacked_on = names if isinstance(config.suite, list) else suite_names(bases)
    for name in names:  # before a model is loaded
        parse_suite(name, list(splits.suites))
    opened = open_judge(config, blind=config.criteria == "none")
    suites: dict[str, list[Comparison]] = {}
    for name, (rows, counts) in fixed_suites(names, splits, criteria_mode=config.criteria).items():
        log.info("suite %s: %s", name, ", ".join(f"{key} {value}" for key, value in counts.items()))
        suites[name] = rows
    readings = read_suites(opened, suites, config, processes)
    results = summarise(readings.predictions, opened.seeds, f"{opened.name} on {title}", commit())
    if processes.first:
        write_reports(config, opened, splits, readings, results, show)
    if config.attacks:
        drawn = fixed_suites(attacked_on, splits, criteria_mode=config.criteria)
        attack(config, opened, [row for rows, _ in drawn.values() for row in rows], processes, show)
    return results


def attack(
    config: EvaluateConfig, opened: OpenedJudge, pairs: Sequence[Comparison], processes: Processes, show: bool
) -> None:
    """Write `effects_of` attacks on some of the pairs; of a model here also into its card."""
    rows = attacked(pairs, config.attacks)
    effects = effects_of(read_suites(opened, rows, config, processes).predictions)
    if not processes.first:
        return
    line = caption(len(rows[CLEAN]), [SEED], f"{opened.name} on {config.data.title()}", commit())
    write_table(config.run_dir, "robustness", effects, line)
    log.info("attacks: %s", Path(config.run_dir) / "robustness.md")
    if show:
        print_table(effects, f"What attacks do beyond as much neutral text ({config.run_dir})")
    if config.judge.name == "crm" and Path(str(config.checkpoint)).expanduser().is_dir():
        folder = checkpoint_folder(str(config.checkpoint))
        write_section(folder, ROBUSTNESS_SECTION, f"{CARD_TEXT}\n\n{markdown_text(effects, line)}")


def read_suites(opened: OpenedJudge, suites: Suites, config: EvaluateConfig, processes: Processes) -> SuiteReadings:
    """Predict every suite that has comparisons; rows of an earlier run are not read again.

    Raises ``ValueError`` where there is no reading at all, or no comparison has a verdict.
    """
    found = SuiteReadings()
    for name, comparisons in suites.items():
        if not comparisons:
            log.warning("suite %s is empty: its preferences are ties or have no criteria on that side; left out", name)
            continue
        if re.search("[+-]_", name) and all(row.noise == "none" for row in comparisons):
            log.warning("suite %s is left out: noise %s", name, WITHOUT_EFFECT)
            continue
        given: Any = {"suite": name, "progress": config.progress, "processes": processes}
        path, rows, counts = predict(opened.judge, comparisons, opened.predictions, **given)
        failed = sorted(Counter(f"failed_{row.failure}" for row in rows if row.failure is not None).items())
        log.info("suite %s: %s -> %s", name, ", ".join(f"{k} {v}" for k, v in [*counts.items(), *failed]), path)
        found.predictions += rows
        found.files[name], found.left_out[name] = str(path.absolute()), counts[opened.judge.left_out]
    _check_verdicts(found, opened, suites, config.judge.name)
    return found


def _check_verdicts(found: SuiteReadings, opened: OpenedJudge, suites: Suites, judge: str) -> None:
    unread = sum(found.left_out.values())
    if not (found.predictions or unread):
        raise ValueError(f"suite: {', '.join(suites)}: no comparison to evaluate; choose suites that this data fills")
    if not any(sample.judged for samples in to_samples(found.predictions).values() for sample in samples):
        kinds = Counter(row.failure for row in found.predictions if row.failure is not None)
        kinds[opened.judge.left_out] += unread
        counted = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common() if count)
        why = f"no comparison has a verdict ({len(found.predictions)} readings: {counted})"
        way_out = NO_VERDICT if judge == "llm" and found.predictions else "the log says why"
        raise ValueError(f"judge={judge}: {why}; {way_out}")


def _check_recorded(config: EvaluateConfig) -> None:
    """Raise ``ValueError`` where the file that the checkpoint was trained on is gone; warn where data are simulated."""
    path, record = config.data.path, training_config(config.checkpoint).get("data") or {}
    if path and path == record.get("path") and not path.startswith("hf://") and not Path(path).exists():
        raise ValueError(
            f"data.path={path!r}: {config.checkpoint} was trained on this file, and it is gone; name the data to "
            "evaluate on: data=<file or folder>, or data=simulation"
        )
    if config.data.name == "simulation" and record.get("name") != "simulation":
        log.warning("data=simulation: simulated votes, not yours; to evaluate on your own: data=<file or folder>")


def _warn_of_trained(config: EvaluateConfig, splits: Splits) -> None:
    """Count and name votes on prompts that a checkpoint here was trained or validated on."""
    file = checkpoint_folder(str(config.checkpoint)).parent / PROMPTS if config.judge.name == "crm" else None
    known = {*file.read_text("utf-8").split()} if file and file.is_file() else set()
    rows = [row for suite in splits.suites.values() for row in suite]
    if seen := sum(prompt_key(row.prompt) in known for row in rows):
        splits.counts["prompts_trained_on"] = seen
        line = "%d of %d votes are on prompts that %s was trained or validated on; without data= held-out ones are read"
        log.warning(line, seen, len(rows), config.checkpoint)


def write_reports(
    config: EvaluateConfig,
    opened: OpenedJudge,
    splits: Splits,
    readings: SuiteReadings,
    results: list[Result],
    show: bool,
) -> None:
    """``results.json``, ``suites.md``/``.csv``, ``suites.png``, and the table in the terminal."""
    out, title, named = Path(config.run_dir), results[0].config, {opened.name: results}
    run = opened.facts() | {
        "seed": config.seed,
        "criteria": config.criteria,
        "data": asdict(config.data),
        "rows": splits.counts,
        "files": readings.files,
        "left_out": readings.left_out,
    }
    write_results(out, results, run)
    table, lacking = suite_table(named), sum(readings.left_out.values())
    line = caption(None, opened.seeds, title, results[0].commit)
    write_table(out, "suites", table, line + f"; {lacking} readings left out" * bool(lacking))
    suite_accuracy(out / "suites.png", named)
    if show:
        print_table(table, f"Accuracy with 95 % intervals, clustered by prompt ({out})")
    numbers = {f"{result.suite}/{result.metric}": result.value for result in results}
    track(config.logger, out, name=title, group="evaluate", config=asdict(config), numbers=numbers)
