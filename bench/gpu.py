"""``make gpu-check`` (``python -m bench.gpu``): what one GPU computes, then how fast it does, at Qwen3's sizes.

Weights are random. First our numbers beside stock transformers (`bench.parity`), then our training step and scoring
pass of every size, then the peers. The files are written after every line, so that a run that is cut leaves its lines.

MFU is the work that no exact method can avoid over the device's peak: each token of the prefix tree once, without
padding, recomputation or repeated prefixes. A token costs, forward, 2 P + 4 L h d c with P the matrices'
parameters, L layers, h query heads of d dimensions, and c the tokens it attends to; training costs three times as much
(Kaplan et al., arXiv 2001.08361, section 2.1).
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.optim import AdamW

from bench import ours, peers
from bench.models import PUBLISHED_RATES, QWEN3, SMALL, TOY, Size, build_reward_model, stock_twin
from bench.pairs import bench_tokenizer, synthetic_pairs, synthetic_queries
from bench.parity import check_device
from bench.rounds import RESULTS, Contestant, Stopwatch, about, origin, save
from bench.run import quieten
from bench.trl_peer import trl_steps
from crm.model.batching.plans import Packing
from crm.model.encoding import EncodedComparison
from crm.training.devices import enable_checkpointing
from crm.training.memory import GIB, USABLE, memory_of, training_need

TOYS = {"toy": TOY, "small": SMALL}
Contestants = dict[str, Callable[[], Contestant]]
PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bfloat16 operations a second, as the makers state them."""

NO_ROOM = torch.OutOfMemoryError.__name__
COLUMNS = ("size", "job", "who", "weights", "tokens_a_second", "bar", "unique_tokens_a_second", "mfu", "ratio",
           "peak_gib", "estimate_gib")  # fmt: skip


def main(words: Sequence[str] | None = None) -> int:
    """Check, measure, write both files after every line. 1: ours is wrong, or fails with memory left; 2: no GPU."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--sizes", nargs="+", choices=(*QWEN3, *TOYS), help="default: all")
    parser.add_argument("--toy", action="store_true", help="on CPU, with small models")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=32)
    parser.add_argument("--queries", type=int, default=8)
    parser.add_argument("--candidates", type=int, default=8)
    parser.add_argument("--length", type=int, default=400, help="tokens of a response, within half as much either way")
    parser.add_argument("--tokens", type=int, default=16384, help="of one forward pass of ours, at most")
    parser.add_argument("--peak", type=float, help="peak bfloat16 operations a second of a device not in the table")
    parser.add_argument("--minutes", type=float, default=8.0, help="no further line is begun after these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="default: gpu.json or gpu_toy.json in bench/results")
    given = parser.parse_args(words)
    given.out = given.out or RESULTS / ("gpu_toy.json" if given.toy else "gpu.json")
    quieten()
    if not given.toy and not torch.cuda.is_available():
        print("no GPU is visible; `python -m bench.gpu --toy` tries the same on CPU", file=sys.stderr)
        return 2
    device = "cpu" if given.toy else "cuda"
    card = "" if given.toy else torch.cuda.get_device_name()
    peak = given.peak or next((operations for name, operations in PEAK.items() if name in card), None)
    found: dict[str, Any] = {"checks": [], "lines": [], "left_out": [], **origin(given.seed)}
    found |= {"settings": {name: str(value) for name, value in vars(given).items()}, "peak_flops": peak}
    ends = time.monotonic() + given.minutes * 60

    def keep(part: str, line: Any) -> None:
        found[part].append(line)
        save(given.out, found, to_markdown(found))
        print(part, json.dumps(line), flush=True)

    for one in check_device(device):
        keep("checks", {**one._asdict(), "fine": one.gap <= one.allowed})
    sizes = given.sizes or list(TOYS if given.toy else QWEN3)
    for name, job, peers_too in [(n, j, p) for p in (False, True) for n in sizes for j in (training, scoring)]:
        place = {"size": name, "job": job.__name__, "who": "peers" if peers_too else "ours"}
        _free(device)
        try:
            setup = job((QWEN3 | TOYS)[name], device, given)
        except torch.OutOfMemoryError:
            keep("lines", place | {"failed": NO_ROOM})
            continue
        for who in (one for one in setup.contestants if (one != "ours") == peers_too):
            late = time.monotonic() > ends
            measured = {} if late else measure(setup, who, given.rounds, device, peak)
            keep("left_out" if late else "lines", place | {"who": who} | measured)
        del setup
    fine = [line.get("failed", NO_ROOM).startswith(NO_ROOM) for line in found["lines"] if line["who"] == "ours"]
    return int(not all([*fine, *(check["fine"] for check in found["checks"])]))


@dataclass
class Setup:
    """One job of one size: who does it, the work in it, and what our memory estimate says of our training step."""

    size: Size
    contestants: Contestants
    work: Work
    weights: torch.dtype
    estimate: float | None = None


def training(size: Size, device: str, given: argparse.Namespace) -> Setup:
    """One optimizer step. Where float32 weights do not fit they are bfloat16; ours takes the largest pass that fits."""
    dtype = _dtype(size, device)
    model = build_reward_model(size, "scalar", given.seed, device=device, dtype=dtype)
    pairs = synthetic_pairs("scalar", given.pairs, given.length, given.seed, spread=0.5)
    optimizer = AdamW(model.parameters(), lr=0.0, fused=device == "cuda")
    room = USABLE * memory_of(torch.device(device))
    for tokens, recomputed in [*((given.tokens >> halved, False) for halved in range(3)), (given.tokens, True)]:
        need = training_need(model.backbone, tokens, mixed=True, checkpointing=recomputed)
        if sum(need) - (need.state // 2 if dtype == torch.bfloat16 else 0) <= room:
            break
    if recomputed:
        enable_checkpointing(model.backbone)
    contestants: Contestants = {
        "ours": lambda: ours.train_step(model, optimizer, pairs, layout=Packing(tokens), bf16=True),
        "no_packing": lambda: ours.train_step(model, optimizer, pairs, layout=ours.PADDED, bf16=True),
        "authors": lambda: peers.one_by_one(stock_twin(model, checkpointing=True), optimizer, pairs, bf16=True),
        "authors_no_checkpointing": lambda: peers.one_by_one(stock_twin(model), optimizer, pairs, bf16=True),
        "flash_pref_layout": lambda: peers.one_by_one(stock_twin(model), optimizer, pairs, peers.in_a_row, bf16=True),
        "trl_default": lambda: trl_steps(stock_twin(model), bench_tokenizer(given.seed), pairs, bf16=True),
    }
    estimate = sum(need) / GIB if dtype == torch.float32 else None
    return Setup(size, contestants, unique_work([[pair] for pair in pairs]), dtype, estimate)


def scoring(size: Size, device: str, given: argparse.Namespace) -> Setup:
    """One pass over queries. Inference needs no master weights: all read bfloat16, as a server would."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = build_reward_model(size, "pairwise", given.seed, device=device, dtype=dtype).eval()
    queries = synthetic_queries("pairwise", given.queries, given.candidates, given.length, given.seed, spread=0.5)
    twin = stock_twin(model)
    contestants: Contestants = {
        "ours": lambda: ours.score_queries(model, queries, layout=Packing(given.tokens), bf16=True),
        "no_packing": lambda: ours.score_queries(model, queries, layout=ours.PADDED, bf16=True),
        "arrival_b4": lambda: peers.batches(twin, queries, bf16=True),
        "dynamic_cache": lambda: peers.cached_prefix(twin, queries, bf16=True),
    }
    return Setup(size, contestants, unique_work(queries), dtype)


def measure(setup: Setup, who: str, rounds: int, device: str, peak: float | None) -> dict[str, Any]:
    """Seconds of every round but the first, tokens a second, MFU and peak memory; or why there are none."""
    seconds: list[float] = []
    _free(device)
    try:
        for _ in range(rounds + 1):
            gc.collect()
            stopwatch = Stopwatch(device)
            answer = list(setup.contestants[who]()(stopwatch)[:8])
            seconds.append(stopwatch.seconds)
    except Exception as error:  # out of memory, or a peer that this machine cannot run: the others go on
        return {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.160}"}
    middle, work = median(seconds[1:]), setup.work
    rate = flops(setup.size, work, training="authors" in setup.contestants) / middle
    return {
        "seconds": seconds[1:],
        "answer": answer,
        "weights": str(setup.weights).removeprefix("torch."),
        "tokens_a_second": round(work.read / middle),
        "unique_tokens_a_second": round(work.tokens / middle),
        "mfu": rate / peak if peak else None,
        "peak_gib": torch.cuda.max_memory_allocated() / GIB if device == "cuda" else None,
        "estimate_gib": setup.estimate if who == "ours" else None,
    }


def to_markdown(found: dict[str, Any]) -> str:
    """The checks, and a line for everybody who was measured."""
    wrong = [check["what"] for check in found["checks"] if not check["fine"]]
    lines = [
        f"# One GPU\n\n{len(found['checks'])} checks beside stock transformers, wrong: {', '.join(wrong) or 'none'}.",
        "Training is one step, scoring one pass; *bar* is what others publish for an H100; memory in GiB.\n",
        "| size | job | who | weights | tokens/s | bar | unique tokens/s | MFU | ours is faster by | peak | estimate |",
        "|---|---|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    own = {(line["size"], line["job"]): line.get("seconds") for line in found["lines"] if line["who"] == "ours"}
    for line in found["lines"]:
        best = own[line["size"], line["job"]]
        bar = PUBLISHED_RATES.get(line["size"]) if line["job"] == "training" else None
        line = line | {"bar": bar, "ratio": best and median(line.get("seconds", best)) / median(best)}
        lines.append("| " + " | ".join(_cell(line.get(column, "")) for column in COLUMNS) + " |")
        if "failed" in line:
            lines[-1] = f"| {line['size']} | {line['job']} | {line['who']} | {line['failed']} |" + " |" * 7
    cut = [" ".join(place.values()) for place in found["left_out"]]
    return "\n".join([*lines, f"\nOut of time: {', '.join(cut) or 'nothing'}. {about(found)}", ""])


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}" if isinstance(value, float) else str(value)


def _dtype(size: Size, device: str) -> torch.dtype:
    parameters = matrix_parameters(size) + size.vocabulary * size.hidden
    fits = 16 * parameters < 0.7 * memory_of(torch.device(device))
    return torch.float32 if fits else torch.bfloat16


def _free(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


@dataclass(frozen=True, slots=True)
class Work:
    """``tokens`` unique tokens, ``contexts`` the sum over them of the tokens each attends to, ``read`` all tokens."""

    tokens: int
    contexts: int
    read: int = 0


def unique_work(groups: Sequence[Sequence[EncodedComparison]]) -> Work:
    """Nodes of the prefix trees of all groups; prefixes are shared within a group (a pair, a query), not between."""
    tokens = contexts = 0
    read = sum(sum(row.lengths) for group in groups for row in group)
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
    return Work(tokens, contexts, read)


def matrix_parameters(size: Size) -> int:
    """Parameters of the layers' matrices."""
    attention = size.hidden * size.head_dim * (2 * size.heads + 2 * size.key_value_heads)
    return size.layers * (attention + 3 * size.hidden * size.intermediate)


def flops(size: Size, work: Work, *, training: bool) -> float:
    """Floating-point operations of ``work``, forward, or forward and backward."""
    forward = 2.0 * matrix_parameters(size) * work.tokens
    forward += 4.0 * size.layers * size.heads * size.head_dim * work.contexts
    return 3.0 * forward if training else forward


if __name__ == "__main__":
    sys.exit(main())
