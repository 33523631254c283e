"""Every command of `bench` at toy size: it runs, its contestants agree, and its files have the shape they promise."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from bench import gpu, run
from bench.gpu import Work, flops, unique_work
from bench.models import SMALL
from bench.pairs import from_ids
from bench.run import to_markdown

pytestmark = pytest.mark.slow

TRAIN = {"vs_authors", "vs_authors_no_checkpointing", "vs_trl_default", "pairwise_vs_authors"}
SCORE = {"m8_vs_arrival_b4", "m8_vs_dynamic_cache", "m20_vs_arrival_b4", "m8_swapped_vs_arrival_b4"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and short responses, and no waiting for a clean memory: nothing here is timed for its own sake."""
    monkeypatch.setattr(run, "RESPONSE", 20)
    monkeypatch.setattr("bench.rounds.gc.collect", lambda: 0)
    monkeypatch.setattr(run, "TOY", SMALL)
    monkeypatch.setattr(gpu, "TOYS", {"small": SMALL})


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs the extra bench: TRL is a peer")
def test_the_cpu_contest_writes_both_files(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate: list[bool] = []
    monkeypatch.setattr(run, "check_parity", lambda quick: gate.append(quick))  # the gate has tests of its own
    assert run.main(["--rounds", "1", "--pairs", "8", "--queries", "2", "--out", str(tmp_path)]) == 0
    assert gate == [True]
    found = json.loads((tmp_path / "cpu.json").read_text("utf-8"))
    assert set(found["train"]) == TRAIN and set(found["score"]) == SCORE
    for entry in (entry for part in ("train", "score", "further") for entry in found[part].values()):
        assert set(entry) == {"without_pruning", "with_pruning"}
        for numbers in entry.values():
            assert len(numbers["rounds"]) == 1 and numbers["median"] > 0
    assert all(len(rounds) == 1 for raw in found["seconds"].values() for rounds in raw.values())
    assert {"torch", "transformers", "trl", "lightning", "python", "cpu"} <= set(found["versions"])
    assert found["seeds"] == [0] and found["commit"]
    assert (tmp_path / "cpu.md").read_text("utf-8") == to_markdown(found)


def test_the_gpu_contest_runs_on_cpu_at_toy_size(small: None, tmp_path: Path) -> None:
    pytest.importorskip("trl")
    words = ["--toy", "--rounds", "1", "--pairs", "8", "--queries", "2", "--candidates", "3", "--length", "20"]
    assert gpu.main([*words, "--peak", "1e12", "--out", str(tmp_path / "gpu.json")]) == 0
    found = json.loads((tmp_path / "gpu.json").read_text("utf-8"))["sizes"]["small"]
    assert set(found["train"]["ratios"]) == {"authors", "authors_no_checkpointing", "trl_default"}
    assert set(found["score"]["ratios"]) == {"arrival_b4", "sorted_b4", "dynamic_cache"}
    for part in ("train", "score"):
        answers = [entry["answer"] for entry in found[part]["contestants"].values()]
        for answer in answers:
            assert answer == pytest.approx(answers[0], abs=0.1)
            assert found[part]["contestants"]["ours"]["unique_tokens_a_second"] > 0


def test_without_a_gpu_the_gpu_contest_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "--toy" in capsys.readouterr().err


def test_unique_work_by_hand() -> None:
    pair = from_ids("scalar", [4, 5], [6], [7, 8], [9])
    # criteria 1+2, query 3, first response 4+5, second response 4
    assert unique_work([[pair]]) == Work(tokens=6, contexts=19)
    assert unique_work([[pair], [pair]]) == Work(tokens=12, contexts=38)
    assert unique_work([[pair, pair]]) == Work(tokens=6, contexts=19)


def test_flops_of_qwen3_are_those_of_the_table() -> None:
    """Training at 2048 tokens: 3.3, 9.2, 23.6 and 43.5 GFLOP a token."""
    work = Work(2048, 2048 * 2049 // 2)
    found = [flops(size, work, training=True) / 2048 / 1e9 for size in gpu.QWEN3.values()]
    assert found == pytest.approx([3.3, 9.2, 23.6, 43.5], rel=0.02)
