"""``python -m bench.gpu``: the same contest on one GPU, bfloat16, random Qwen3 weights.

MFU is the work that no exact method can avoid over the device's peak: each token of the prefix tree once, without
padding, recomputation or repeated prefixes. A token costs, forward, 2 P + 4 L h d c with P the matrices'
parameters, L layers, h query heads of d dimensions, and c the tokens it attends to; training costs three times as much
(Kaplan et al., arXiv 2001.08361, section 2.1). A contestant that does not fit is marked so, and the others go on.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers
from bench.models import QWEN3, SMALL, TOY, Size, build_reward_model, stock_twin
from bench.pairs import bench_tokenizer, synthetic_pairs, synthetic_queries
from bench.rounds import Answer, Contestant, Stopwatch, contest, ratio, versions
from bench.run import RESULTS, quieten
from bench.trl_peer import trl_steps
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.model.encoding import EncodedComparison

TOYS = {"toy": TOY, "small": SMALL}
Contestants = dict[str, Callable[[], Contestant]]
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bfloat16 operations a second, as the makers state them."""


def main(words: Sequence[str] | None = None) -> int:
    """Measure every size that fits and write the file; a size that the time does not reach is named in it."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=(*QWEN3, *TOYS), help="default: all that fit")
    parser.add_argument("--toy", action="store_true", help="on CPU, with small models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--length", type=int, default=400, help="tokens of a response, within half as much either way")
    parser.add_argument("--tokens", type=int, default=16384, help="of one forward pass of ours, at most")
    parser.add_argument("--peak", type=float, help="peak bfloat16 operations a second of a device not in the table")
    parser.add_argument("--minutes", type=float, default=9.0, help="no further size is begun after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    given = parser.parse_args(words)
    quieten()
    if not given.toy and not torch.cuda.is_available():
        print("no GPU is visible; `python -m bench.gpu --toy` tries the same on CPU", file=sys.stderr)
        return 2
    device = "cpu" if given.toy else "cuda"
    peak = given.peak or (None if given.toy else peak_of(torch.cuda.get_device_name()))
    found: dict[str, Any] = {"sizes": {}, "settings": {name: str(value) for name, value in vars(given).items()}}
    found |= {"versions": versions(), "commit": commit(), "peak_flops": peak}
    started = time.perf_counter()
    for name in given.sizes or (TOYS if given.toy else QWEN3):
        if time.perf_counter() - started > given.minutes * 60:
            found["sizes"][name] = "not begun: out of time (--minutes)"
            continue
        found["sizes"][name] = measure((QWEN3 | TOYS)[name], device, peak, given)
        replace_file(given.out, json.dumps(found, indent=1) + "\n")
        print(name, json.dumps(found["sizes"][name]["summary"]), flush=True)
    replace_file(given.out, json.dumps(found, indent=1) + "\n")
    return 0


def measure(size: Size, device: str, peak: float | None, given: argparse.Namespace) -> dict[str, Any]:
    """Training and scoring of one size: seconds of every round, tokens a second, MFU, peak memory, ratios."""
    training = _training(size, device, given)
    _free(device)
    scoring = _scoring(size, device, given)
    _free(device)
    parts = {"train": training, "score": scoring}
    for name, part in parts.items():
        work = part.pop("work")
        for entry in part["contestants"].values():
            if isinstance(entry, dict):
                entry |= _speed(size, work, statistics.median(entry["seconds"]), peak, training=name == "train")
    summary = {name: part["ratios"] for name, part in parts.items()}
    return {**parts, "summary": {name: {p: r["median"] for p, r in part.items()} for name, part in summary.items()}}


def _training(size: Size, device: str, given: argparse.Namespace) -> dict[str, Any]:
    dtype = _dtype(size, device)
    model = build_reward_model(size, "scalar", given.seed, device=device, dtype=dtype)
    pairs = synthetic_pairs("scalar", given.pairs, given.length, given.seed, spread=0.5)
    optimizer = AdamW(model.parameters(), lr=0.0, fused=device == "cuda")
    tokenizer = bench_tokenizer(given.seed)
    contestants: Contestants = {
        "ours": lambda: ours.train_step(model, optimizer, pairs, tokens=given.tokens, bf16=True),
        "authors": lambda: peers.authors_step(stock_twin(model), optimizer, pairs, bf16=True),
        "authors_no_checkpointing": lambda: peers.authors_step(
            stock_twin(model), optimizer, pairs, checkpointing=False, bf16=True
        ),
        "trl_default": lambda: trl_steps(stock_twin(model), tokenizer, pairs, bf16=True),
    }
    found = _contest(contestants, given.rounds, device)
    return {**found, "weights": str(dtype), "work": unique_work([[pair] for pair in pairs])}


def _scoring(size: Size, device: str, given: argparse.Namespace) -> dict[str, Any]:
    # Inference needs no master weights: all contestants read bfloat16, as a server would.
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = build_reward_model(size, "pairwise", given.seed, device=device, dtype=dtype).eval()
    queries = synthetic_queries("pairwise", given.queries, given.candidates, given.length, given.seed, spread=0.5)
    twin = stock_twin(model)
    contestants: Contestants = {
        "ours": lambda: ours.score_queries(model, queries, tokens=given.tokens, bf16=True),
        "arrival_b4": lambda: peers.batches(twin, queries, "arrival", bf16=True),
        "sorted_b4": lambda: peers.batches(twin, queries, "length", bf16=True),
        "dynamic_cache": lambda: peers.cached_prefix(twin, queries, bf16=True),
    }
    found = _contest(contestants, given.rounds, device)
    return {**found, "weights": str(dtype), "work": unique_work(queries)}


def _contest(contestants: Contestants, rounds: int, device: str) -> dict[str, Any]:
    """Rounds of all that fit. A contestant is built anew in each round, so that the others have its memory."""
    entries: dict[str, Any] = {name: {} for name in contestants}

    def built(name: str) -> Contestant:
        def run(stopwatch: Stopwatch) -> Answer:
            _free(device)
            answer = contestants[name]()(stopwatch)
            entries[name].setdefault("answer", list(answer[:8]))
            if device == "cuda":
                entries[name]["peak_gigabytes"] = round(torch.cuda.max_memory_allocated() / 1e9, 1)
            return answer

        return run

    seconds = contest({name: built(name) for name in contestants}, rounds=rounds, check=lambda *_: None, device=device)
    for name in contestants:
        entries[name] = {**entries[name], "seconds": seconds[name]} if name in seconds else "out of memory"
    others = [name for name in seconds if name != "ours"] if "ours" in seconds else []
    return {"contestants": entries, "ratios": {name: ratio(seconds, peer=name, ours="ours") for name in others}}


def _speed(size: Size, work: Work, seconds: float, peak: float | None, *, training: bool) -> dict[str, Any]:
    rate = flops(size, work, training=training) / seconds
    return {"unique_tokens_a_second": round(work.tokens / seconds), "mfu": round(rate / peak, 3) if peak else None}


def _dtype(size: Size, device: str) -> torch.dtype:
    if device != "cuda":
        return torch.float32
    parameters = matrix_parameters(size) + size.vocabulary * size.hidden
    fits = 16 * parameters < 0.7 * torch.cuda.get_device_properties(0).total_memory
    return torch.float32 if fits else torch.bfloat16


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


@dataclass(frozen=True, slots=True)
class Work:
    """``tokens`` unique tokens, ``contexts`` the sum over them of the tokens each attends to."""

    tokens: int
    contexts: int


def unique_work(groups: Sequence[Sequence[EncodedComparison]]) -> Work:
    """Nodes of the prefix trees of all groups; prefixes are shared within a group (a pair, a query), not between."""
    tokens = contexts = 0
    for group in groups:
        seen = set()
        for sequence in (sequence for row in group for sequence in row.sequences):
            before = 0
            for depth, segment in enumerate(sequence):
                length = len(segment)
                if (path := tuple(sequence[: depth + 1])) not in seen:
                    seen.add(path)
                    tokens += length
                    contexts += length * before + length * (length + 1) // 2
                before += length
    return Work(tokens, contexts)


def matrix_parameters(size: Size) -> int:
    """Parameters of the layers' matrices."""
    attention = size.hidden * size.head_dim * (2 * size.heads + 2 * size.key_value_heads)
    return size.layers * (attention + 3 * size.hidden * size.intermediate)


def flops(size: Size, work: Work, *, training: bool) -> float:
    """Floating-point operations of ``work``, forward, or forward and backward."""
    forward = 2.0 * matrix_parameters(size) * work.tokens
    forward += 4.0 * size.layers * size.heads * size.head_dim * work.contexts
    return 3.0 * forward if training else forward


def peak_of(device: str) -> float | None:
    """Peak of a device by its name, None for one that the table lacks."""
    return next((peak for name, peak in PEAK.items() if name in device), None)


if __name__ == "__main__":
    sys.exit(main())
