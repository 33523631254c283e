"""What a run tells: how many comparisons a step has, how long it will take, and no bars where nobody sees them."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from huggingface_hub.utils import are_progress_bars_disabled
from transformers.utils import logging as bars

from crm.config import compose
from crm.model.backbone import show_loading
from crm.training.console import duration, show_time_left
from crm.training.train import run_training
from tests.conftest import TINY_MODEL


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (99, "99 s"),
        (99.6, "2 min"),
        (480, "8 min"),
        (5940, "99 min"),
        (7500, "2 h 05 min"),
        (90000, "25 h 00 min"),
    ],
)
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_time_left_is_steps_over_pace(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    show_time_left(4800, 10.0)
    show_time_left(0, 10.0)
    assert caplog.messages == [
        "time: 8 min at most for the 4800 steps that are left (0.10 s a step), without validations"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("progress", [True, False])
def test_a_run_says_how_long_it_will_take_once(
    progress: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = [
        *TINY_MODEL,
        "schedule.comparisons_per_step=6",
        *("data.train=400", "data.validation=24", "data.suite=4", "schedule.max_steps=50"),
        *("schedule.validate_every=0", "schedule.save_every=0", f"trainer.progress={str(progress).lower()}"),
    ]
    run_training(compose("train", settings, tmp_path))
    assert "6 comparisons a step, at most 50 steps" in caplog.text
    told = [message for message in caplog.messages if message.startswith("time: ")]
    assert len(told) == progress
    if progress:
        assert "for the 29 steps that are left" in told[0], "50, less the first and the 20 that were measured"


@pytest.mark.parametrize(("wanted", "terminal"), [(True, True), (True, False), (False, True)])
def test_bars_of_loading_are_shown_where_they_are_wanted_and_seen(
    wanted: bool, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    show_loading(wanted)
    shown = wanted and terminal
    assert bars.is_progress_bar_enabled() == shown and are_progress_bars_disabled() != shown
    show_loading(False)
