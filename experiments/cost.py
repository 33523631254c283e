"""What trainings of Qwen3 will cost before they start: steps, tokens, GPU hours, disk.

``python -m experiments.cost <words of train.py -m>`` has a row for every job of the sweep. Rates are those that
`make gpu-check` measured, else published ones. Everything is an upper limit but for the rate: early stopping ends runs
sooner, and a prefix that sequences share is read once.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import pandas as pd
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from transformers import AutoModel, AutoTokenizer

from bench.models import PUBLISHED_RATES, QWEN3, config_of
from crm.cli.words import rewrite_all
from crm.config import compose
from crm.data.comparisons import make_comparisons
from crm.data.load import load_data
from crm.model.encoding import Encoder
from crm.model.folders import check_reachable
from crm.model.heads import head_named
from crm.report.tables import markdown_text
from crm.schema import Preference
from crm.training.config import TrainConfig
from experiments.command import answered

TOKENS = {"joint": 965.0, "one by one": 1144.0}
"""Mean tokens of a comparison with three criteria: Qwen3's tokenizer on 600 of 1,803 votes of LMArena
(lisadunlap/VibeCheck, 48ff662a), without those over 2,048."""
SAMPLE = 200
"""Comparisons of a file whose tokens are counted."""
MEASURED = Path("bench/results/gpu.json")
SIZES = {"qwen3_" + name.lower().replace(".", "_"): name for name in QWEN3}


@dataclass(frozen=True)
class Cost:
    """Of one training at most. ``gpu_hours`` and ``gigabytes`` are None for a model that is not Qwen3."""

    steps: int
    tokens: float
    """Read in training, and a third of those read in validation: a forward pass is a third of the work."""
    validation: float
    """Share of ``tokens``, 0 to 1."""
    gpu_hours: float | None
    gigabytes: float | None
    """``checkpoints/`` and ``model/``."""


def cost(config: TrainConfig, train: int, validation: int, tokens: float) -> Cost:
    """Of ``train`` comparisons an epoch and ``validation`` at a time, of ``tokens`` each (mean, all sequences)."""
    schedule, size = config.schedule, SIZES.get(config.model.name)
    an_epoch = math.ceil(train / schedule.comparisons_per_step)
    steps = min(schedule.epochs * an_epoch, schedule.max_steps or math.inf)
    trained = steps * schedule.comparisons_per_step
    validated = (steps // (schedule.validate_every or an_epoch) + 1) * validation / 3
    read, share = tokens * (trained + validated), validated / (trained + validated)
    if size is None:
        return Cost(int(steps), read, share, None, None)
    # In float32: the model, the best weights, the last ones with two moments for each that is trained.
    moments = 0 if config.model.lora_rank else 8
    return Cost(int(steps), read, share, read / rate(size)[0] / 3600, (12 + moments) * parameters(size) / 1e9)


@cache
def parameters(size: str) -> int:
    """Of the backbone."""
    with torch.device("meta"):
        model: Any = AutoModel.from_config(config_of(QWEN3[size]))  # type: ignore[no-untyped-call]
    return sum(weight.numel() for weight in model.parameters())


@cache
def rate(size: str) -> tuple[float, str]:
    """Tokens a second of a training on one GPU, and who measured it."""
    found = json.loads(MEASURED.read_text()) if MEASURED.is_file() else {"lines": []}
    for line in found["lines"]:
        if (line["size"], line["job"], line["who"]) == (size, "training", "ours") and "tokens_a_second" in line:
            measured = f"{found['versions']['gpu']}, responses of {found['settings']['length']} tokens"
            return line["tokens_a_second"], f"{MEASURED} ({measured})"
    return PUBLISHED_RATES[size], "published for an H100 (docs.surogate.ai); `make gpu-check` measures yours"


def rate_line(size: str) -> str:
    """A line to print under a table."""
    tokens, source = rate(size)
    return f"{size}: {tokens:,.0f} tokens/s on a GPU, {source}"


def from_votes(config: TrainConfig, votes: int) -> Cost:
    """Of ``votes`` to train on that are not there yet: of typical length, a part of them held out as configured."""
    data, sides = config.data, 2 if config.direction.kind == "both" else 1
    held_out = round(votes * data.validation_fraction / (1 - data.validation_fraction - data.test_fraction))
    tokens = TOKENS["joint" if head_named(config.head.name).joint else "one by one"]
    return cost(config, votes * sides, min(held_out, data.validation or held_out) * 2, tokens)


def from_data(config: TrainConfig) -> Cost:
    """Of the configured data, the first `SAMPLE` comparisons read by the model's own tokenizer."""
    if config.model.path is None:
        raise ValueError(f"model={config.model.name}: expected a pretrained one, such as {', '.join(SIZES)}")
    check_reachable(config.model.path, config.model.revision)
    splits = load_data(config.data, criteria=config.criteria)
    tokenizer = AutoTokenizer.from_pretrained(
        config.model.path, revision=config.model.revision, trust_remote_code=False
    )
    encoder = Encoder(tokenizer, config.head.name, config.model.max_length)

    def made(rows: Sequence[Preference], direction: str) -> list[Any]:
        drawn: dict[str, Any] = {"direction": direction, "noise": "none", "pool": None, "seed": config.seed, "epoch": 0}
        return make_comparisons(rows, **drawn, ties=config.loss.ties, criteria_mode=config.criteria)[0]

    train = made(splits.train, config.direction.kind)
    read = [row for row in map(encoder.encode, train[:SAMPLE]) if row is not None]
    if not read:
        raise ValueError(
            f"model.max_length={config.model.max_length}: all of {len(train[:SAMPLE])} comparisons are longer"
        )
    return cost(config, len(train), len(made(splits.validation, "both")), mean(sum(row.lengths) for row in read))


def jobs_of(words: Sequence[str]) -> list[list[str]]:
    """The words of every job of a sweep, in the order in which Hydra runs them."""
    parsed = OverridesParser.create().parse_overrides(list(words))
    choices = [
        [f"{one.get_key_element()}={value}" for value in one.sweep_string_iterator()]
        if one.is_sweep_override()
        else [str(one.input_line)]
        for one in parsed
    ]
    return [list(job) for job in product(*choices)]


def table(jobs: Sequence[Sequence[str]], costs: Sequence[Cost]) -> pd.DataFrame:
    """A row a job, named by the words in which jobs differ, and their sum."""
    common = set.intersection(*map(set, jobs)) if len(jobs) > 1 else set()
    rows = [
        {"job": " ".join(word for word in job if word not in common), "steps": f"{one.steps:,}"}
        | {"million tokens": f"{one.tokens / 1e6:,.1f}", "of it validation": f"{one.validation:.0%}"}
        | {"GPU hours": shown(one.gpu_hours, ".1f"), "GB": shown(one.gigabytes, ",.0f")}
        for job, one in zip(jobs, costs, strict=True)
    ]
    hours, disk = [one.gpu_hours for one in costs], [one.gigabytes for one in costs]
    sums = [None if None in values else sum(values) for values in (hours, disk)]  # type: ignore[arg-type]
    tokens = f"{sum(one.tokens for one in costs) / 1e6:,.1f}"
    total = {"job": "all", "million tokens": tokens, "GPU hours": shown(sums[0], ".1f"), "GB": shown(sums[1], ",.0f")}
    return pd.DataFrame([*rows, total] if len(rows) > 1 else rows).fillna("")


def shown(value: float | None, form: str) -> str:
    """The number, or a dash."""
    return "–" if value is None else format(value, form)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. 2 for a mistake of the user."""
    parser = argparse.ArgumentParser(prog="python -m experiments.cost", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("overrides", nargs="*", help="as of train.py -m: model=qwen3_4b,qwen3_8b data=pairs.jsonl")
    parser.add_argument("--votes", type=int, help="to train on, where the data are not there yet")
    parser.add_argument("-m", "--multirun", action="store_true", help="as of train.py; every job is shown anyway")
    given = parser.parse_args(arguments)
    return answered("cost", lambda: run(given.overrides, given.votes))


def run(words: Sequence[str], votes: int | None) -> None:
    """The table, and where the rates are from."""
    if votes:  # no data are read, but a configuration has to name some
        words = [*(word for word in words if not word.startswith(("data=", "data.path="))), "data=dsp"]
    jobs = jobs_of(rewrite_all(words, "train", "experiments.cost"))
    configs = [compose("train", job, Path("run")) for job in jobs]
    costs = [from_votes(one, votes) if votes else from_data(one) for one in configs]
    print(markdown_text(table(jobs, costs)))
    for size in dict.fromkeys(SIZES[one.model.name] for one in configs if one.model.name in SIZES):
        print(rate_line(size))


if __name__ == "__main__":
    sys.exit(main())
