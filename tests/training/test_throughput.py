"""Rates by hand with a clock of our own; tokens and pairs by hand; logs, summary and MFU of a real run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pandas as pd
import pytest
import torch

import crm.training.throughput
from crm.config import compose
from crm.model.batching.batches import PaddedBatch
from crm.training.flops import step_flops
from crm.training.run import run_training
from crm.training.throughput import PEAK_TFLOPS, Throughput, WorkDone, peak_tflops, rates, told
from tests.conftest import TINY_MODEL

TINY = [
    *TINY_MODEL,
    "loss=ranking",
    *("data.train=32", "data.validation=8", "data.suite=4", "loss.ties=soft", "schedule.epochs=1"),
    *("trainer.progress=false", "schedule.save_every=0", "schedule.patience=0"),
]


def test_rates_by_hand() -> None:
    done = WorkDone(30, 500, 90_000, 6e12, 12).since(WorkDone(10, 100, 10_000, 2e12, 2))
    assert done == WorkDone(20, 400, 80_000, 4e12, 10)
    expected = {"steps_per_second": 2.0, "comparisons_per_second": 40.0, "tokens_per_second": 8000.0}
    assert rates(done, None) == expected
    assert rates(done, 8e11) == {**expected, "mfu": 0.5}
    assert rates(WorkDone(), 1.0) == {}
    assert told({**expected, "mfu": 0.5}) == "40.0 comparisons/s, 8,000 tokens/s, MFU 50%"


def test_tokens_and_pairs_leave_padding_out() -> None:
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0]])
    nothing = torch.zeros(1)
    names = ("rows", "positions", "target", "sign", "reverse")
    batch = PaddedBatch(input_ids=mask, attention_mask=mask, **dict.fromkeys(names, nothing))
    assert batch.tokens == 5


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H200", 989.4),
        ("NVIDIA H200 NVL", 835.5),
        ("NVIDIA L40S", 362.0),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA A100-SXM4-80GB MIG 1g.10gb", None),
        ("NVIDIA L4", None),
        ("NVIDIA L40", None),
        ("NVIDIA GH200 480GB", None),
    ],
)
def test_the_peak_of_a_device(name: str, peak: float | None) -> None:
    assert peak_tflops(name) == peak
    assert set(PEAK_TFLOPS.values()) <= {312.0, 989.4, 756.0, 835.5, 362.0, 165.2}


def test_the_peak_of_bfloat16_is_not_that_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.get_device_name", lambda _device: "NVIDIA H200")
    gpu = torch.device("cuda", 0)
    assert Throughput(peak_tflops=0, bfloat16=True)._looked_up(gpu) == 989.4
    assert Throughput(peak_tflops=0, bfloat16=False)._looked_up(gpu) is None
    assert Throughput(peak_tflops=0, bfloat16=True)._looked_up(torch.device("cpu")) is None


class Clock:
    """One second a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        self.now += 1.0
        return self.now


class Seen(Throughput):
    """Every two steps; keeps what was measured."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "every": 2})
        self.read: list[WorkDone] = []
        self.lengths: list[tuple[int, int]] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.lengths.append((batch.tokens, 0))
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self.module = pl_module

    def _now(self, trainer: Any) -> WorkDone:
        self.read.append(super()._now(trainer))
        return self.read[-1]


@pytest.mark.slow
def test_a_run_is_measured_at_optimizer_steps_without_its_validations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """8 batches of 4, two a step: four steps; the first is left out, and validation stops the clock."""
    monkeypatch.setattr(crm.training.throughput, "time", Clock())
    seen: list[Seen] = []
    monkeypatch.setattr("crm.training.building.Throughput", lambda **settings: seen.append(Seen(**settings)) or seen[0])
    settings = ["schedule.comparisons_per_step=8", "schedule.validate_every=2", "trainer.peak_tflops=0.5"]
    run_training(compose("train", [*TINY, *settings, "batching=padded"], tmp_path))
    (callback,) = seen
    assert [(mark.steps, mark.comparisons) for mark in callback.read] == [(1, 8), (3, 24), (4, 32)]
    assert [mark.tokens for mark in callback.read] == [sum(t for t, _ in callback.lengths[:n]) for n in (2, 6, 8)]
    flops = step_flops(callback.module.model)
    assert callback.read[-1].flops == sum(flops.of(*held) for held in callback.lengths)
    # Looks at the clock: step 1 (1), validation (2, 3: one second stopped), step 3 (4), validation (5, 6), the end (7).
    assert [mark.seconds for mark in callback.read] == [1.0, 3.0, 5.0]
    table = pd.read_csv(tmp_path / "metrics.csv")
    logged = table.dropna(subset=["throughput/steps_per_second"])
    assert logged["step"].tolist() == [2], "Lightning's number of the third step, and once"
    assert logged["throughput/comparisons_per_second"].tolist() == [8.0]
    mean = json.loads((tmp_path / "summary.json").read_text())["throughput"]
    assert mean["steps_per_second"] == 3 / 4 and mean["comparisons_per_second"] == 24 / 4
    done = callback.read[-1].since(callback.read[0])
    assert mean["tokens_per_second"] == done.tokens / 4
    assert mean["mfu"] == pytest.approx(done.flops / 4 / 0.5e12)


def test_a_row_that_only_keeps_a_rank_in_step_is_no_comparison() -> None:
    callback, trainer = Throughput(peak_tflops=0, bfloat16=False), Mock(global_step=0)
    callback._steps = 0
    for weight in (1.0, 0.0, 0.5):
        callback.on_train_batch_end(trainer, None, None, MagicMock(weight=weight, __len__=lambda _: 3), 0)
    assert callback._comparisons == 6


@pytest.mark.slow
def test_a_cpu_has_no_mfu_and_a_run_of_one_step_no_speed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    run_training(compose("train", [*TINY, "schedule.comparisons_per_step=8"], tmp_path / "four"))
    mean = json.loads((tmp_path / "four/summary.json").read_text())["throughput"]
    assert set(mean) == {"steps_per_second", "comparisons_per_second", "tokens_per_second"}
    assert "tokens/s; the model is in" in caplog.messages[-2]
    run_training(compose("train", [*TINY, "schedule.max_steps=1"], tmp_path / "one"))
    assert json.loads((tmp_path / "one/summary.json").read_text())["throughput"] == {}
