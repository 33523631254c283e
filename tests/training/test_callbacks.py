"""Speed by hand with a clock of our own, and bars where somebody sees them."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging as bars

import crm.training.callbacks
from crm.config import compose
from crm.model.backbone import show_loading
from crm.training.callbacks import rates
from crm.training.train import run_training
from tests.conftest import TINY_MODEL


def test_rates_by_hand() -> None:
    expected = {"steps_per_second": 2.0, "comparisons_per_second": 40.0, "tokens_per_second": 8000.0}
    assert rates(torch.tensor([20, 400, 80_000, 10.0])) == expected
    assert rates(torch.zeros(4)) == {}


@pytest.mark.slow
def test_a_run_is_measured_at_optimizer_steps_without_its_validations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """8 passes of 4 comparisons, two a step: four steps; the first is left out, and validation stops the clock."""
    caplog.set_level(logging.INFO)
    clock = iter(range(100))
    monkeypatch.setattr(crm.training.callbacks, "time", SimpleNamespace(perf_counter=lambda: float(next(clock))))
    settings = [
        *(*TINY_MODEL, "loss=ranking", "data.train=32", "data.validation=8", "data.suite=4", "loss.ties=soft"),
        *("schedule.epochs=1", "schedule.save_every=0", "schedule.patience=0", "schedule.comparisons_per_step=8"),
        *("schedule.validate_every=2", "batching=padded", "batching.tokens=4096", "model.max_length=512"),
    ]
    run_training(compose("train", settings, tmp_path))
    # Looks at the clock: step 1 (0), validation (1, 2), validation (3, 4), the end (5); two seconds stopped.
    mean = json.loads((tmp_path / "summary.json").read_text())["throughput"]
    assert (mean["steps_per_second"], mean["comparisons_per_second"]) == (3 / 3, 24 / 3)
    assert "8 comparisons a step, at most 4 steps" in caplog.text and "tokens/s; the model is in" in caplog.text
    assert len([message for message in caplog.messages if "validation loss" in message]) == 2


@pytest.mark.parametrize(("wanted", "terminal"), [(True, True), (True, False), (False, True)])
def test_bars_of_loading_are_shown_where_they_are_wanted_and_seen(
    wanted: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    show_loading(wanted)
    shown = wanted and terminal
    assert bars.is_progress_bar_enabled() == shown and are_progress_bars_disabled() != shown
    show_loading(False)
