"""Write results.json, tables and plots from saved predictions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.io.files import replace_file, with_nulls
from crm.io.installed import commit
from crm.report.tables import number, write_table
from experiments.does_accuracy_predict import pictures
from experiments.does_accuracy_predict.analysis import ALL, RESAMPLES, Drawn, correlations, draw
from experiments.does_accuracy_predict.judges import SUITES, Spec
from experiments.does_accuracy_predict.power import by_suite_size, power, published, six_models
from experiments.does_accuracy_predict.predictions import BEST_FILE
from experiments.does_accuracy_predict.reinforcement import GRPO_FILE
from experiments.does_accuracy_predict.saved import Saved, load


def report(specs: Sequence[Spec], out: Path, folder: Path, *, seed: int, overrides: Sequence[str] = ()) -> None:
    """Written anew from what the judges' folders hold; ``overrides`` are those of all trainings."""
    saved = load(specs, out)
    drawn = draw(saved, seed=seed)
    groups = {"all": np.arange(len(saved.names)), "above_chance": saved.above_chance()}
    table = judge_table(saved, drawn)
    found = {
        "judges": [_judge(spec, row) for spec, row in zip(specs, table.to_dict("records"), strict=True)],
        "overrides": list(overrides),
        "groups": {name: len(places) for name, places in groups.items()},
        "suites": {suite: {"n": len(own), "prompts": len(set(own.tolist()))} for suite, own in saved.prompts.items()},
        "uses": {use: {"prompts": values.shape[1], "unit": pictures.label(use)} for use, values in saved.uses.items()},
        "correlations": correlations(drawn, groups, seed=seed),
        "suite_size": by_suite_size(saved, drawn, groups, seed=seed),
        "six_models": six_models(drawn, ALL, groups, seed=seed),
        "power": power(saved, drawn, groups, seed=seed),
        "published": published(),
        **facts(specs, out, seed),
    }
    replace_file(folder / "results.json", json.dumps(_rounded(found), indent=1, allow_nan=False) + "\n")
    above = len(groups["above_chance"])
    made = ", ".join(found["commits_of_predictions"])
    named = f"{len(saved.names)} judges, {above} above chance; seed {seed}; commit {made}"
    _tables(folder, table, found, named)
    _pictures(folder, table, found)


def judge_table(saved: Saved, drawn: Drawn) -> pd.DataFrame:
    """A judge a row: accuracies, values of uses, and the regret of the largest k."""
    columns: dict[str, Any] = {"judge": saved.names, "family": saved.families}
    columns |= {suite: values[0] for suite, values in drawn.accuracies.items()}
    columns |= {use: values[0] for use, values in drawn.uses.items()}
    columns |= {f"regret_{use}": values.mean(axis=1) for use, values in saved.regret.items()}
    return pd.DataFrame(columns)


def facts(specs: Sequence[Spec], out: Path, seed: int) -> dict[str, Any]:
    """How it was made: commits, seeds and settings."""
    picked = [json.loads((out / spec.name / BEST_FILE).read_text(encoding="utf-8")) for spec in specs]
    files = [out / spec.name / GRPO_FILE for spec in specs]
    courses = [json.loads(path.read_text(encoding="utf-8")) for path in files if path.is_file()]
    trained = {word for spec in specs for word in spec.overrides or () if word.startswith("seed=")}
    return {
        "picking": {name: picked[0]["made"][name] for name in ("criteria", "queries", "n", "seed")}
        | {"k": picked[0]["k"]},
        "unread": {spec.name: one["unread"] for spec, one in zip(specs, picked, strict=True) if one["unread"]},
        "grpo": {name: courses[0][name] for name in ("criteria", "steps", "seed", "start")} if courses else None,
        "resamples": RESAMPLES,
        "seeds": {"study": seed, "training": sorted(int(word.removeprefix("seed=")) for word in trained)},
        "commit": commit(),
        "commits_of_predictions": sorted({one["commit"] for one in picked}),
    }


def _judge(spec: Spec, row: dict[Any, Any]) -> dict[str, Any]:
    gains = {name: value for name, value in row.items() if str(name).startswith(("best_of_", "grpo_"))}
    regret = {
        str(name).removeprefix("regret_"): value for name, value in row.items() if str(name).startswith("regret_")
    }
    rest = {name: row[name] for name in row if name not in gains and not str(name).startswith("regret_")}
    return {
        "name": spec.name,
        "family": spec.family,
        "overrides": list(spec.overrides or spec.asked),
        "needs": spec.needs,
        "accuracies": {name: value for name, value in rest.items() if name not in ("judge", "family")},
        "gains": gains,
        "regret": regret,
    }


def _tables(folder: Path, table: pd.DataFrame, found: dict[str, Any], named: str) -> None:
    counts = ", ".join(f"{suite} {own['n']}" for suite, own in found["suites"].items())
    short = table.drop(columns=list(SUITES))
    write_table(folder, "judges", table, f"comparisons: {counts}; {named}", short)
    frame = pd.DataFrame(found["correlations"])
    if len(frame):
        shown = frame[["judges", "use", "suite", "n"]].copy()
        for name, ends in (
            ("spearman", ("low", "high")),
            ("kendall", ("kendall_low", "kendall_high")),
            ("behind", ("behind_low", "behind_high")),
        ):
            columns = zip(frame[name], frame[ends[0]], frame[ends[1]], strict=True)
            shown[name] = [number(*values, digits=2) for values in columns]
        shown["p"], shown["p, Holm"] = ([f"{value:.4f}" for value in frame[name]] for name in ("p", "p_holm"))
        write_table(folder, "correlations", frame, f"95 % limits, {RESAMPLES} draws; {named}", shown)
    for name in ("power", "six_models", "suite_size"):
        rows = pd.DataFrame(found[name])
        if len(rows):
            write_table(folder, name, rows, named, _wide(rows) if name == "power" else None)


def _wide(rows: pd.DataFrame) -> pd.DataFrame:
    """Power with the numbers of pairs side by side."""
    wide = rows.pivot_table(index=["judges", "use", "m"], columns="pairs", values="share", sort=False).reset_index()
    return wide.rename(columns={name: f"{name} pairs" for name in wide.columns if isinstance(name, int)})


def _pictures(folder: Path, table: pd.DataFrame, found: dict[str, Any]) -> None:
    for use in found["uses"]:
        pictures.scatter(folder / f"accuracy_and_{use}.png", table, use, ALL)
    if found["suite_size"]:
        pictures.by_size(folder / "suite_size.png", found["suite_size"])


def _rounded(value: Any) -> Any:
    """Five decimals, and null for what is not a number."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return with_nulls(round(float(value), 5)) if isinstance(value, float) else value
