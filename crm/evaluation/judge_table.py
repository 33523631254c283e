"""Finished evaluations in; tables over their judges out: ``judges`` (accuracy by suite) and ``paired`` (who differs).

Both are made from the prediction files, so that they speak of the same comparisons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from crm.evaluation.compare import LEVEL, Paired, PairOnSuite, compare_all
from crm.evaluation.prediction_file import read_predictions
from crm.evaluation.results import read_results, read_run, summarise
from crm.evaluation.samples import Sample, to_samples
from crm.report.tables import caption, number, remove_table, write_table
from crm.schema import Result

BEST, ALIKE, NOT_COMPARED = "best", "≈", "?"
_Kind = TypeVar("_Kind", str, dict[str, Any], float)


@dataclass(frozen=True)
class EvaluatedJudge:
    """What one run of ``evaluate.py`` says of a judge; ``results`` by suite and metric.

    ``seconds`` were spent on the ``readings_made`` by the run itself; earlier readings are taken over from their files.
    """

    name: str
    samples: Mapping[str, Sequence[Sample]]
    results: Mapping[tuple[str, str], Result]
    seconds: float
    readings_made: int
    commit: str = ""

    @property
    def tokens(self) -> float:
        """Mean per comparison over all suites, both orders; NaN where the judge counts none."""
        known = [row.tokens for rows in self.samples.values() for row in rows if row.tokens == row.tokens]
        return sum(known) / len(known) if known else float("nan")


def read_evaluation(folder: Path, working_directory: Path) -> EvaluatedJudge:
    """Read the run in ``folder``; paths in its ``results.json`` are relative to ``working_directory``.

    Raises ``ValueError`` for a file or field that is missing or out of place.
    """
    path = folder / "results.json"
    if not path.is_file():
        raise ValueError(f"{path}: not there; give a folder that evaluate.py wrote")
    run, commits = read_run(path), {result.commit for result in read_results(path)}
    cost = _fact(run, "cost", dict, path)
    predictions = []
    for suite, name in _fact(run, "files", dict, path).items():
        file = working_directory / str(name)
        if not file.is_file():
            raise ValueError(f"{path}: files: {suite}: {file} is not there; evaluate again")
        predictions += read_predictions(file)
    return EvaluatedJudge(
        _fact(run, "judge", str, path),
        to_samples(predictions),
        {(result.suite, result.metric): result for result in summarise(predictions)},
        _fact(cost, "seconds", float, path),
        int(_fact(cost, "readings_made", float, path)),
        " ".join(sorted(commits)),
    )


def write_judge_tables(folder: Path, judges: Sequence[EvaluatedJudge], missing: Mapping[str, str], seed: int) -> None:
    """Write ``judges`` and, for two judges or more, ``paired`` into ``folder``, each ``.md``, ``.csv`` and ``.tex``.

    Names of ``judges`` are unique. ``missing`` gives the reason of every job without a result, by its name; ``seed``
    is of the bootstrap.
    """
    pairs = compare_all({judge.name: judge.samples for judge in judges}, seed)
    compared = sum(pair.result is not None for pair in pairs)
    commits = ", ".join(sorted({judge.commit for judge in judges} - {""}))
    shown = judge_frame(judges, pairs, missing)
    write_table(folder, "judges", long_frame(judges, pairs, missing), _judges_caption(compared, commits), shown)
    if pairs:
        below = _paired_caption(compared, seed, commits)
        write_table(folder, "paired", paired_frame(pairs), below, shown_pairs(pairs))
    else:
        remove_table(folder, "paired")


def judge_frame(
    judges: Sequence[EvaluatedJudge], pairs: Sequence[PairOnSuite], missing: Mapping[str, str]
) -> pd.DataFrame:
    """For people: a row a judge, a column a suite, and what it cost; jobs without a result last, with the reason."""
    suites = _suites(judges)
    rows: list[dict[str, Any]] = []
    for judge in judges:
        row: dict[str, Any] = {"judge": judge.name}
        row |= {suite: _cell(judge, suite, _mark(judge, suite, judges, pairs)) for suite in suites}
        made = f"{number(judge.seconds, digits=1)} ({judge.readings_made} readings)"
        rows.append(row | {"tokens per comparison": number(judge.tokens, digits=1), "seconds": made})
    columns = ["judge", *suites, "tokens per comparison", "seconds"] + ["no result because"] * bool(missing)
    rows += [{"judge": name, "no result because": reason} for name, reason in missing.items()]
    return pd.DataFrame(rows, columns=columns).astype(object).fillna("–")


def long_frame(
    judges: Sequence[EvaluatedJudge], pairs: Sequence[PairOnSuite], missing: Mapping[str, str]
) -> pd.DataFrame:
    """For programs: a row a judge and suite, numbers in full precision; ``mark`` as in `judge_frame`."""
    rows: list[dict[str, Any]] = []
    for judge in judges:
        for suite in judge.samples:
            row: dict[str, Any] = {"judge": judge.name, "suite": suite}
            accuracy = judge.results.get((suite, "accuracy"))
            if accuracy is not None:
                row |= {"accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high, "n": accuracy.n}
            for metric in ("failure_rate", "tokens"):
                found = judge.results.get((suite, metric))
                row[metric] = found.value if found else float("nan")
            row["mark"] = _mark(judge, suite, judges, pairs)
            rows.append(row | {"seconds_of_run": judge.seconds, "readings_made_by_run": judge.readings_made})
    rows += [{"judge": name, "reason": reason} for name, reason in missing.items()]
    columns = ["judge", "suite", "accuracy", "low", "high", "n", "failure_rate", "tokens", "mark", "seconds_of_run"]
    return pd.DataFrame(rows, columns=[*columns, "readings_made_by_run", "reason"]).astype({"n": "Int64"})


def paired_frame(pairs: Sequence[PairOnSuite]) -> pd.DataFrame:
    """For programs: a row a pair of judges and suite; fields of `Paired`, p-values in full precision."""
    names = [name for name in Paired.__dataclass_fields__ if name != "left_out"]
    rows = []
    for pair in pairs:
        row: dict[str, Any] = {"suite": pair.suite, "first": pair.first, "second": pair.second}
        if pair.result:
            row |= {name: getattr(pair.result, name) for name in names}
            row |= {f"left_out_{why.replace(' ', '_')}": count for why, count in pair.result.left_out.items()}
        rows.append(row | {"holm_p": pair.adjusted_p, "verdict": _verdict(pair)})
    return pd.DataFrame(rows)


def shown_pairs(pairs: Sequence[PairOnSuite]) -> pd.DataFrame:
    """For people: the same, with intervals in brackets and what was left out in words."""
    return pd.DataFrame([_shown_pair(pair) for pair in pairs]).astype(object).fillna("–")


def _shown_pair(pair: PairOnSuite) -> dict[str, Any]:
    row: dict[str, Any] = {"suite": pair.suite, "first": pair.first, "second": pair.second}
    found = pair.result
    if found:
        left_out = ", ".join(f"{count} {why}" for why, count in found.left_out.items() if count)
        row |= {
            "difference": number(found.difference, found.low, found.high),
            "n": str(found.n),
            "prompts": str(found.clusters),
            "left out": left_out or "0",
            "first : second better": f"{found.first_better} : {found.second_better}",
            "McNemar p": _p(found.mcnemar_p),
            "clustered p": _p(found.clustered_p),
            "Holm p": _p(pair.adjusted_p),
        }
    return row | {"verdict": _verdict(pair)}


def _verdict(pair: PairOnSuite) -> str:
    if pair.result is None:
        return f"not compared: {pair.reason}"
    if not pair.distinguishable:
        return "not distinguishable"
    return f"{pair.first if pair.result.difference > 0 else pair.second} is better"


def _mark(judge: EvaluatedJudge, suite: str, judges: Sequence[EvaluatedJudge], pairs: Sequence[PairOnSuite]) -> str:
    """`BEST`, how it compares with the best, or nothing: distinguishable, or nobody to compare with."""
    rated = {one.name: one.results[suite, "accuracy"].value for one in judges if (suite, "accuracy") in one.results}
    if judge.name not in rated or len(rated) < 2:
        return ""
    best = max(rated, key=lambda name: rated[name])
    if rated[judge.name] == rated[best]:  # several can be the highest
        return BEST
    pair = next(row for row in pairs if row.suite == suite and {row.first, row.second} == {judge.name, best})
    if pair.result is None:
        return NOT_COMPARED
    return "" if pair.distinguishable else ALIKE


def _cell(judge: EvaluatedJudge, suite: str, mark: str) -> str:
    """``0.742 [0.701, 0.779], n 400, 1.5 % failed, best``; a dash for a suite that was not read."""
    accuracy, failed = (judge.results.get((suite, metric)) for metric in ("accuracy", "failure_rate"))
    parts = [number(accuracy.value, accuracy.low, accuracy.high), f"n {accuracy.n}"] if accuracy else ["–"]
    if failed and failed.value > 0:
        parts.append(f"{100 * failed.value:.1f} % failed")
    return ", ".join([*parts, mark] if mark else parts)


def _suites(judges: Sequence[EvaluatedJudge]) -> list[str]:
    return list(dict.fromkeys(suite for judge in judges for suite in judge.samples))


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else number(value)


def _judges_caption(compared: int, commits: str) -> str:
    return "; ".join(
        [
            "Accuracy with 95 % intervals, clustered by prompt; n labelled comparisons with a verdict",
            f"{BEST}: the highest of the suite",
            f"{ALIKE}: not distinguishable from it (sign-flip test over prompts on common comparisons, Holm-adjusted "
            f"p of {LEVEL:g} or more over {compared} pairs of judges and suites)",
            f"{NOT_COMPARED}: could not be compared with it",
            "no mark: they differ by more than chance",
            "seconds are of the readings that this run made itself",
            *([caption(commit=commits)] if commits else []),
        ]
    )


def _paired_caption(compared: int, seed: int, commits: str) -> str:
    return "; ".join(
        [
            "Accuracy of first minus second on the comparisons with a verdict of both, 95 % bootstrap over prompts",
            "McNemar: exact, as if comparisons were independent; a tie predicted by one judge only is discordant",
            "clustered: exact sign-flip test over prompts, a predicted tie counts one half",
            f"Holm: the clustered p-value, adjusted over {compared} rows; the verdict rests on it, at {LEVEL:g}",
            f"bootstrap seed {seed}",
            *([caption(commit=commits)] if commits else []),
        ]
    )


def _fact(facts: Mapping[str, Any], name: str, kind: type[_Kind], path: Path) -> _Kind:
    value = facts.get(name)
    fits = isinstance(value, int | float) and not isinstance(value, bool) if kind is float else isinstance(value, kind)
    if not fits:
        raise ValueError(f"{path}: run: {name}: expected {kind.__name__}, got {value!r:.80}; evaluate again")
    return kind(value)  # type: ignore[arg-type]
