"""Benchmarks at toy size: their files, alternating rounds, parity with stock transformers, the memory estimate."""

import importlib.util
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from bench import gpu, index, parity, run
from bench.gpu import Work, flops, unique_work
from bench.memory_table import Setup, peak_and_estimate
from bench.models import QWEN3, SMALL, Size, build_reward_model
from bench.pairs import from_ids
from bench.parity import cases, check_parity
from bench.rounds import Stopwatch, contest, ratio, within
from bench.run import to_markdown
from crm.model.batching.plans import Padding

pytestmark = pytest.mark.slow

SCORED = ["no_packing", "arrival_b4", "dynamic_cache"]
PEERS = {
    "pointwise": ["no_packing", "authors", "authors_no_checkpointing", "flash_pref_layout"],
    "trl": ["no_packing", "trl_default", "trl_batch_1"],
    "pairwise": ["no_packing", "authors", "authors_no_checkpointing"],
    **dict.fromkeys(("m8", "m20", "m8_swapped"), SCORED),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and short responses: nothing here is timed for its own sake."""
    monkeypatch.setattr(run, "RESPONSE", 20)
    monkeypatch.setattr(run, "TOY", SMALL)
    monkeypatch.setattr(gpu, "TOYS", {"small": SMALL})


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs the extra bench: TRL is a peer")
def test_the_cpu_contest_writes_both_files(small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        run.main(["--pairs", "12"])
    gate: list[bool] = []
    monkeypatch.setattr(run, "check_parity", lambda quick: gate.append(quick))  # the gate has tests of its own
    assert run.main(["--rounds", "1", "--pairs", "8", "--queries", "2", "--out", str(tmp_path)]) == 0
    assert gate == [True]
    found = json.loads((tmp_path / "cpu.json").read_text("utf-8"))
    assert {job: list(ratios) for job, ratios in found["ratios"].items()} == PEERS
    for entry in (entry for ratios in found["ratios"].values() for entry in ratios.values()):
        assert set(entry) == {"without_pruning", "with_pruning"}
        for numbers in entry.values():
            assert len(numbers["rounds"]) == 1 and numbers["median"] > 0
    assert all(len(rounds) == 1 for raw in found["seconds"].values() for rounds in raw.values())
    assert {"torch", "transformers", "trl", "lightning", "python", "cpu"} <= set(found["versions"])
    assert found["seeds"] == [0] and found["commit"]
    assert (tmp_path / "cpu.md").read_text("utf-8") == to_markdown(found)


def test_the_gpu_check_runs_on_cpu_at_toy_size_and_keeps_what_it_has_when_cut(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = pytest.importorskip("trl").RewardConfig
    as_here = config.__post_init__
    monkeypatch.setattr(config, "__post_init__", lambda own: as_here(own) or setattr(own, "_n_gpu", 8))
    words = ["--toy", "--rounds", "1", "--pairs", "16", "--queries", "2", "--candidates", "3", "--length", "20"]
    words += ["--peak", "1e12", "--out", str(tmp_path / "gpu.json")]
    assert gpu.main(words) == 0
    found = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    parts = {check["what"].rpartition(":")[0] for check in found["checks"]}
    assert {f"pairwise qwen3 everything tree pruned right {kind}" for kind in ("float32", "bfloat16")} < parts
    more = {"LoRA, tree and padded, float32", "export with LoRA merged, plain transformers"}
    assert {*more, "late head, tree and padded, float32"} < parts
    trained = ["ours", "no_packing", "authors", "authors_no_checkpointing", "flash_pref_layout", "trl_default"]
    scored = ["ours", *SCORED]
    for job, expected in (("training", trained), ("scoring", scored)):
        lines = [line for line in found["lines"] if line["job"] == job]
        assert [line["who"] for line in lines] == expected
        for line in lines:
            assert line["answer"] == pytest.approx(lines[0]["answer"], abs=0.1)
            assert line["tokens_a_second"] > line["unique_tokens_a_second"] > 0 and line["peak_gib"] is None
    assert (tmp_path / "gpu.md").read_text("utf-8") == gpu.to_markdown(found)
    monkeypatch.setattr(gpu, "check_device", lambda _: iter([parity.Compared("a", 2.0, 1.0)]))
    assert gpu.main([*words, "--minutes", "0"]) == 1, "a wrong number is no success"
    cut = (tmp_path / "gpu.md").read_text("utf-8")
    assert "wrong: a." in cut and "small training ours, small scoring ours, small training no_packing" in cut

    def training(*_: Any) -> None:
        raise torch.OutOfMemoryError("tried to allocate")

    monkeypatch.setattr(gpu, "training", training)
    monkeypatch.setattr(gpu, "check_device", lambda _: iter([]))
    monkeypatch.setattr(gpu, "RESULTS", tmp_path)
    assert gpu.main([*words[:-2], "--minutes", "0"]) == 0, "a size that does not fit is no failure"
    assert "| small | training | ours | OutOfMemoryError |" in (tmp_path / "gpu_toy.md").read_text("utf-8")


def test_bfloat16_weights_keep_stock_rotations_and_activations_where_there_is_room(monkeypatch: Any) -> None:
    model = build_reward_model(SMALL, "scalar", 0, dtype=torch.bfloat16)
    assert {weight.dtype for weight in model.parameters()} == {torch.bfloat16}
    assert model.backbone.rotary_emb.inv_freq.dtype == torch.float32
    monkeypatch.setattr(gpu, "_dtype", lambda *_: torch.bfloat16)
    monkeypatch.setattr(gpu, "enable_checkpointing", lambda _: pytest.fail("there is room"))
    gpu.training(SMALL, "cpu", Namespace(seed=0, pairs=2, length=20, tokens=4096))


def test_without_a_gpu_the_gpu_contest_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "--toy" in capsys.readouterr().err


def test_unique_work_by_hand() -> None:
    pair = from_ids("scalar", [4, 5], [6], [7, 8], [9])
    # criteria 1+2, query 3, first response 4+5, second response 4
    assert unique_work([[pair]]) == Work(tokens=6, contexts=19, read=9)
    assert unique_work([[pair], [pair]]) == Work(tokens=12, contexts=38, read=18)
    assert unique_work([[pair, pair]]) == Work(tokens=6, contexts=19, read=18)


def test_flops_of_qwen3_are_those_of_the_table() -> None:
    """Training at 2048 tokens: 3.3, 9.2, 23.6 and 43.5 GFLOP a token."""
    work = Work(2048, 2048 * 2049 // 2)
    found = [flops(size, work, training=True) / 2048 / 1e9 for size in QWEN3.values()]
    assert found == pytest.approx([3.3, 9.2, 23.6, 43.5], rel=0.02)


def test_the_files_have_what_they_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "DEMO", SMALL)
    monkeypatch.setattr(index, "SIZE", 16)
    monkeypatch.setattr(index.StandIn, "size", 16)
    words = ["--users", "10", "--queries", "1", "--rounds", "2", "--shrink", "50"]
    assert index.main([*words, "--out", str(tmp_path / "index.json")]) == 0
    found = json.loads((tmp_path / "index.json").read_text("utf-8"))
    wanted = {"further_share", "users_per_s", "index_s", "index_mb_30x804", "n", "seeds", "versions", "commit"}
    assert wanted | {f"further_s_{name}" for name in index.NAMED} <= set(found)
    assert found["index_shape"] == [13, 12] and found["further_share"] < 1
    assert len(found["resident_mb"]) == 11


MEDIUM = Size(256, 4, 4, 2, 64, 768, vocabulary=50_000)
SETUPS = [Setup("one"), Setup("ddp", "ddp", 2), Setup("fsdp", "fsdp", 4), Setup("lora", rank=8)]


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: setup.title)
def test_the_estimate_is_near_what_torch_counts(setup: Setup) -> None:
    peak, estimate = peak_and_estimate(MEDIUM, setup, checkpointing=setup.devices > 1)
    assert estimate == pytest.approx(peak, rel=0.15)


@pytest.mark.parametrize("rank", [0, 16])
def test_of_a_published_size_it_is_within_a_tenth(rank: int) -> None:
    """The other sizes and numbers of devices: `python -m bench.memory_table`, in docs/several_devices.md."""
    peak, estimate = peak_and_estimate(QWEN3["0.6B"], Setup("one", rank=rank), checkpointing=True)
    assert estimate == pytest.approx(peak, rel=0.05)


def test_contestants_alternate_in_rotated_order_and_the_first_round_does_not_count() -> None:
    seen = []

    def contestant(name: str, seconds: float) -> Any:
        def run(stopwatch: Stopwatch) -> list[float]:
            seen.append(name)
            stopwatch.seconds += seconds
            return [1.0]

        return run

    found = contest({"x": contestant("x", 2.0), "y": contestant("y", 6.0)}, rounds=2, check=within(0.0))
    assert "".join(seen) == "xyyxxy"
    assert found == {"x": [2.0, 2.0], "y": [6.0, 6.0]}
    assert ratio(found, peer="y", ours="x") == {"median": 3.0, "rounds": [3.0, 3.0]}


def test_other_work_and_no_rounds_are_refused() -> None:
    contestants = {"x": lambda _: [1.0, -1.0], "y": lambda _: [1.0, -1.2]}
    with pytest.raises(ValueError, match="y and x"):
        contest(contestants, rounds=1, check=within(0.1))
    contest({"x": contestants["x"], "z": contestants["x"]}, rounds=1, check=within(0.1))
    with pytest.raises(ValueError, match="rounds=0"):
        contest({}, rounds=0, check=within(0.0))


@pytest.fixture(autouse=True)
def fewer_rows_and_nothing_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests have left in the memory takes long to walk through."""
    monkeypatch.setattr(parity, "cases", lambda head: {"everything": cases(head)["everything"][::3]})
    monkeypatch.setattr("bench.rounds.gc.collect", lambda: 0)


@pytest.mark.parametrize("backbone", ["qwen3", "llama"])
def test_every_head_batching_and_layer_gives_what_stock_transformers_gives(backbone: str) -> None:
    """Heads, ways of batching and layers, with a third of the corner cases in one batch."""
    compared = check_parity(backbones=[backbone], quick=True)  # which raises above 1e-5
    assert compared.startswith(f"{3 * 2 * 2 * 2} comparisons with stock transformers; worst ")


@pytest.mark.parametrize("fault", ["logits", "gradients"])
def test_a_small_fault_is_noticed(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    honest = Padding.collate

    def faulty(layout: Any, rows: Any) -> Any:
        batch = honest(layout, rows)
        if fault == "logits":
            batch.input_ids[..., 0] += 1  # the first token of a prompt
        return batch

    def other_targets(logits: Any, target: Any) -> Any:
        return torch.nn.functional.binary_cross_entropy_with_logits(logits, target * (1 - 1e-3 * next(noise)))

    noise = iter(range(10_000))
    monkeypatch.setattr(Padding, "collate", faulty)
    if fault == "gradients":
        monkeypatch.setattr(parity, "binary_cross_entropy_with_logits", other_targets)
    with pytest.raises(ValueError, match=f"scalar qwen3 everything padded full right float32: {fault} differ by"):
        check_parity(quick=True)
