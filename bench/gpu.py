"""``make gpu-check``: parity on one GPU, then training and scoring beside peers, bfloat16, random Qwen3 weights.

MFU is the work that no exact method can avoid over the device's peak: each token of the prefix tree once, without
padding, recomputation or repeated prefixes. A token costs, forward, 2 P + 4 L h d c with P the matrices'
parameters, L layers, h query heads of d dimensions, and c the tokens it attends to; training costs three times as much
(Kaplan et al., arXiv 2001.08361, section 2.1). A contestant that does not fit is marked so, and the others go on.
"""

from __future__ import annotations

import argparse
import gc
import itertools
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
from bench.parity import check_parity
from bench.rounds import Answer, Contestant, Stopwatch, about, contest, ratio, versions
from bench.run import RESULTS, quieten
from bench.trl_peer import trl_steps
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.model.encoding import EncodedComparison
from crm.training.memory import training_need

TOYS = {"toy": TOY, "small": SMALL}
Contestants = dict[str, Callable[[], Contestant]]
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bfloat16 operations a second, as the makers state them."""


def main(words: Sequence[str] | None = None) -> int:
    """Check parity, then measure every size that fits; both files are written anew after each part."""
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
    parser.add_argument("--minutes", type=float, default=9.0, help="no further part is begun after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(words)
    quieten()
    if not given.toy and not torch.cuda.is_available():
        print("no GPU is visible; `make gpu-check TOY=1` tries the same on CPU", file=sys.stderr)
        return 2
    device, until = "cpu" if given.toy else "cuda", time.perf_counter() + given.minutes * 60
    peak = given.peak or (None if given.toy else peak_of(torch.cuda.get_device_name()))
    found: dict[str, Any] = {"parity": {}, "sizes": {}, "settings": {k: str(value) for k, value in vars(given).items()}}
    found |= {"versions": versions(), "commit": commit(), "seeds": [given.seed], "peak_flops": peak}
    for bf16, name in enumerate(("float32", "bfloat16")):
        found["parity"][name] = _parity(device, bool(bf16))
        _write(given.out, found)
    for name, part in itertools.product(given.sizes or (TOYS if given.toy else QWEN3), PARTS):
        late = time.perf_counter() > until
        size = (QWEN3 | TOYS)[name]
        entry = "not begun: out of time (--minutes)" if late else measure(size, part, device, peak, given)
        found["sizes"].setdefault(name, {})[part] = entry
        _write(given.out, found)
    return int(any(outcome.startswith(FAILED) for outcome in found["parity"].values()))


def _parity(device: str, bf16: bool) -> str:
    """The worst difference from stock transformers; speed is measured even where one is too great."""
    try:
        return str(check_parity(quick=device == "cpu", device=device, bf16=bf16))
    except (ValueError, RuntimeError) as error:
        return f"{FAILED}{error}"


def _write(folder: Path, found: dict[str, Any]) -> None:
    replace_file(folder / "gpu.json", json.dumps(found, indent=1) + "\n")
    table = to_markdown(found)
    replace_file(folder / "gpu.md", table)
    print(table, flush=True)


def to_markdown(found: dict[str, Any]) -> str:
    """What parity found, and a row for each contestant of each size and part."""
    lines = ["# Parity and speed on one GPU", "", *(f"{name}: {text}  " for name, text in found["parity"].items()), ""]
    lines += ["| model | part | contestant | unique tokens/s | MFU | time over ours | peak GB | estimate |"]
    lines += ["|---|---|---|--:|--:|--:|--:|--:|"]
    for name, part in ((name, part) for name, parts in found["sizes"].items() for part in parts):
        if isinstance(entry := found["sizes"][name][part], str):
            lines.append(f"| {name} | {part} | {entry} | | | | | |")
            continue
        for who, own in entry["contestants"].items():
            cells = [own] + [""] * 4
            if isinstance(own, dict):
                times = entry["ratios"].get(who, {}).get("median", "")
                estimate = entry.get("estimate_gigabytes") if who == "ours" else ""
                cells = [own["unique_tokens_a_second"], own["mfu"], times, own.get("peak_gigabytes"), estimate]
            shown = ["" if cell is None else str(cell) for cell in cells]
            lines.append(f"| {name} | {part} | {who} | {' | '.join(shown)} |")
    return "\n".join([*lines, "", about(found), ""])


def measure(size: Size, part: str, device: str, peak: float | None, given: argparse.Namespace) -> Any:
    """Training or scoring of one size: seconds of every round, tokens a second, MFU, peak memory, ratios."""
    _free(device)
    try:
        found = PARTS[part](size, device, given)
    except torch.OutOfMemoryError:
        return "out of memory: the weights alone"
    work = found.pop("work")
    for entry in found["contestants"].values():
        if isinstance(entry, dict):
            entry |= _speed(size, work, statistics.median(entry["seconds"]), peak, training=part == "train")
    return found


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
    if dtype == torch.float32:  # which `train.py` always has
        largest = max(batch.input_ids.numel() for batch, _ in ours.batches_of(pairs, given.tokens))
        found["estimate_gigabytes"] = round(training_need(model.backbone, largest, mixed=True).total / 1e9, 1)
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


PARTS = {"train": _training, "score": _scoring}
FAILED = "failed: "


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
