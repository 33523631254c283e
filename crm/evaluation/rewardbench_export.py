"""RewardBench's own result files. In: the run folder of an evaluation and the set it was of. Out: two JSON files.

``python -m crm.evaluation.rewardbench_export <run folder> --data <file or folder> --model owner/name --out <folder>``

- ``eval-set/<model>.json``: the share of correct rows in every subset, ``model``, ``model_type``, ``chat_template``;
- ``eval-set-scores/<model>.json``, where the judge gave scores: columns ``text_chosen``, ``text_rejected`` (lists of
  messages), ``results``, ``subset``, ``id``, ``scores_chosen``, ``scores_rejected``, in the order of the set.

The form is that of allenai/reward-bench, scripts/run_rm.py. Numbers are this project's: logits of both orders are
averaged, a tie counts one half (there, nothing), and rows without a verdict are left out and counted (there, long ones
are cut). The set is evaluated with ``data=rewardbench criteria=none``: nobody says what they care about. Of RewardBench
2, which asks for the best of four, there is no export.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crm.dataset.comparisons import make_comparisons, with_generic_criterion
from crm.evaluation.prediction_file import read_predictions, reading_digest
from crm.evaluation.results import read_run
from crm.evaluation.samples import Sample, to_samples
from crm.io.files import replace_file
from crm.io.intake import Intake
from crm.report.statistics import correctness
from crm.schema import Comparison, Message, Prediction, Preference
from crm.votes.catalogue import location
from crm.votes.public import rewardbench

PREFIX, SUITE = "rewardbench-", "D+"
SCORED, COMPARED = "Seq. Classifier", "Custom Classifier"
"""RewardBench's words for a model that scores a response, and for one that only compares two."""


@dataclass(frozen=True)
class ScoredPair:
    """One row of the set with a verdict: ``result`` is 1, 0 or, for a tie, 0.5; ``scores`` of chosen and rejected."""

    preference: Preference
    result: float
    scores: tuple[float, float] | None


@dataclass(frozen=True)
class Export:
    """What was written, and how many rows of the set have a verdict, failed, or were never read (too long)."""

    files: tuple[Path, ...]
    rows: int
    failed: int
    unread: int


def export(run_folder: Path, data: str, out: Path, model: str) -> Export:
    """Write the files under ``out``. ``data`` is what the evaluation had as ``data.path``.

    Raises ``ValueError`` for a folder without results, for predictions of other data than
    ``data``, for RewardBench 2, and for a ``model`` that is no name of a file.
    """
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", model):
        raise ValueError(
            f"--model {model!r:.80}: expected a name such as owner/name, of letters, digits, '.', '_', '-'"
        )
    run = _run_of(run_folder)
    predictions = _predictions(run_folder, run)
    preferences = _preferences(data)
    comparisons = _comparisons(preferences.values())
    _check_same_data(predictions, comparisons, str(run.get("judge_digest")))
    samples = {sample.comparison_id: sample for sample in to_samples(predictions)[SUITE]}
    scores = _scores(predictions)
    verdicts = [
        _verdict(preferences[row.preference_id], samples[row.id], scores)
        for row in comparisons
        if row.id in samples and not samples[row.id].failures
    ]
    if not verdicts:
        raise ValueError(f"{run_folder}: suite {SUITE} holds no verdict to export; the judge failed on every row")
    facts = {
        "model": model,
        "model_type": SCORED if all(verdict.scores for verdict in verdicts) else COMPARED,
        "chat_template": "tokenizer" if run.get("prompt_digest") else "none",
    }
    files = [_write(out / "eval-set", model, {**facts, **_accuracies(verdicts)})]
    if facts["model_type"] == SCORED:
        files.append(_write(out / "eval-set-scores", model, {**facts, **_columns(verdicts)}))
    return Export(tuple(files), len(verdicts), len(samples) - len(verdicts), len(preferences) - len(samples))


def _run_of(folder: Path) -> dict[str, Any]:
    path = folder / "results.json"
    if not path.is_file():
        raise ValueError(f"{folder}: no results.json there; give the run folder of an evaluation")
    run = read_run(path)
    if not isinstance(run.get("files"), dict):
        raise ValueError(f"{path}: names no files of predictions; evaluate again")
    return run


def _predictions(folder: Path, run: Mapping[str, Any]) -> list[Prediction]:
    files = run["files"]
    if SUITE not in files:
        raise ValueError(
            f"{folder}: has no suite {SUITE}, only {', '.join(files)}; evaluate with suite.names=[{SUITE}]"
        )
    path = Path(files[SUITE])
    if not path.is_file():
        raise ValueError(f"{path}: the predictions of {folder} are not there; run this where the evaluation ran")
    return read_predictions(path)


def _preferences(data: str) -> dict[str, Preference]:
    """The rows of the set by id, in its order."""
    reading = Intake(strict=True)
    rows = {row.id: row for row in rewardbench.read(location("rewardbench", root="", path=data), reading)}
    if reading.counts["pairs"] != reading.kept:
        raise ValueError(f"--data {data}: is RewardBench 2, whose score is the best of four responses, not of pairs")
    without = next((row.id for row in rows.values() if row.topic is None), None)
    if without:
        raise ValueError(f"--data {data}: {without} has no subset, and RewardBench's results are by subset")
    return rows


def _comparisons(preferences: Iterable[Preference]) -> list[Comparison]:
    """The comparisons that ``evaluate.py data=rewardbench criteria=none`` makes: the chosen response is the label."""
    votes = with_generic_criterion(preferences)
    made, _ = make_comparisons(
        votes, direction="original", noise="none", pool=None, seed=0, epoch=0, criteria_mode="none"
    )
    return made


def _check_same_data(predictions: Sequence[Prediction], comparisons: Sequence[Comparison], judge_digest: str) -> None:
    """Raise ``ValueError`` where the predictions are of anything else, be it one byte of one response."""
    if any(row.fingerprint != reading_digest(judge_digest, comparisons) for row in predictions):
        raise ValueError(
            "--data: the predictions are not of these rows; only evaluations of all of RewardBench are exported, made "
            "with data=rewardbench criteria=none, and with --data as their data.path was"
        )


def _scores(predictions: Sequence[Prediction]) -> dict[str, tuple[float, float]]:
    """Mean scores of A and B over the orders, of comparisons that have them in every order."""
    rows: dict[str, list[Prediction]] = {}
    for row in predictions:
        rows.setdefault(row.comparison_id, []).append(row)
    means = {}
    for name, orders in rows.items():
        pairs = [(row.score_a, row.score_b) for row in orders if row.score_a is not None and row.score_b is not None]
        if len(pairs) == len(orders):
            means[name] = (sum(a for a, _ in pairs) / len(pairs), sum(b for _, b in pairs) / len(pairs))
    return means


def _verdict(preference: Preference, sample: Sample, scores: Mapping[str, tuple[float, float]]) -> ScoredPair:
    result = float(correctness([sample.logit], [int(preference.winner == "a")])[0])
    pair = scores.get(sample.comparison_id)
    if pair is not None and preference.winner == "b":
        pair = pair[1], pair[0]
    return ScoredPair(preference, result, pair)


def _accuracies(verdicts: Sequence[ScoredPair]) -> dict[str, float]:
    subsets: dict[str, list[float]] = {}
    for verdict in verdicts:
        subsets.setdefault(str(verdict.preference.topic), []).append(verdict.result)
    return {name: sum(results) / len(results) for name, results in subsets.items()}


def _columns(verdicts: Sequence[ScoredPair]) -> dict[str, list[Any]]:
    """Columns with one entry a row; ids are numbers where the set has numbers."""
    sides = [_sides(verdict.preference) for verdict in verdicts]
    names = [verdict.preference.id.removeprefix(PREFIX) for verdict in verdicts]
    scores = [verdict.scores for verdict in verdicts if verdict.scores is not None]
    return {
        "text_chosen": [chosen for chosen, _ in sides],
        "text_rejected": [rejected for _, rejected in sides],
        "results": [verdict.result for verdict in verdicts],
        "subset": [verdict.preference.topic for verdict in verdicts],
        "id": [int(name) if re.fullmatch("0|[1-9][0-9]*", name) else name for name in names],
        "scores_chosen": [chosen for chosen, _ in scores],
        "scores_rejected": [rejected for _, rejected in scores],
    }


def _sides(row: Preference) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The whole conversations that end in the chosen and in the rejected response."""
    chosen, rejected = (row.response_a, row.response_b) if row.winner == "a" else (row.response_b, row.response_a)
    return _messages((*row.prompt, *chosen)), _messages((*row.prompt, *rejected))


def _messages(turns: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def _write(folder: Path, model: str, document: Mapping[str, Any]) -> Path:
    return replace_file(folder / f"{model}.json", json.dumps(document, indent=4, sort_keys=True, allow_nan=False))


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 and one sentence for a mistake."""
    parser = argparse.ArgumentParser(
        prog="python -m crm.evaluation.rewardbench_export", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("run", type=Path, help="run folder of evaluate.py")
    parser.add_argument("--data", required=True, help="RewardBench, as data.path was")
    parser.add_argument("--model", required=True, help="name of the model, owner/name")
    parser.add_argument("--out", required=True, type=Path, help="folder for the result files")
    given = parser.parse_args(words)
    try:
        made = export(given.run, given.data, given.out, given.model)
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    print(f"{made.rows} rows; left out: {made.failed} failed, {made.unread} not read (too long)")
    print("\n".join(f"wrote {file}" for file in made.files))
    if len(made.files) == 1:
        print("no scores file: this judge compares responses and scores none")
    return 0


if __name__ == "__main__":
    sys.exit(main())
