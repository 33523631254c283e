"""``python -m experiments.human_labels.probe --root <public sets>``: what frozen states know of the criteria.

A probe on mean and deviation of the states that the late head reads, each number standardised over the texts of
training: one hidden layer, dropout, and a product with the same of the criterion. It trains on the mixture of four
sets, one aspect each, and is asked about the suites of the study.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.progress import track
from torch import Tensor, nn
from torch.nn.functional import softplus

from crm.config import compose
from crm.data.comparisons import make_comparisons
from crm.data.load import load_data
from crm.judges.judge import Asked, Reading
from crm.model.backbone import keep_lowest_layers, load_backbone
from crm.model.encoding import Encoder
from crm.schema import Comparison, Message
from experiments.command import answered
from experiments.human_labels.__main__ import MIXED, report, splits, suites_of
from experiments.human_labels.mixture import write_mixture
from experiments.human_labels.suites import read_suites

NAME = "probe on frozen states"
Text = tuple[tuple[Message, ...], tuple[Message, ...]]
STEPS, BATCH, RATE, HIDDEN, SIZE, DROPOUT, PENALTY = 400, 256, 1e-3, 256, 256, 0.5, 0.1
"""Chosen on documents that are held out of training, seed 1."""


class Features:
    """Mean and deviation of a text's states after 12 layers, and its length; each text is read once."""

    def __init__(self) -> None:
        config = compose("train", ("experiment=human_labels",), Path())
        self.backbone, tokenizer = load_backbone(str(config.model.path), None)
        keep_lowest_layers(self.backbone, config.model.use_layers)
        self.encoder = Encoder(tokenizer, "late", config.model.max_length)
        self.known: dict[Text | str, Tensor] = {}

    def of_response(self, prompt: tuple[Message, ...], response: tuple[Message, ...]) -> Tensor:
        """(F,) of a response, which is read behind its prompt."""
        if (prompt, response) not in self.known:
            before, text = self.encoder.conversation_segments(prompt, response)
            self.known[prompt, response] = self._read([*before, *text], len(before))
        return self.known[prompt, response]

    def of_criterion(self, text: str) -> Tensor:
        """(F,) of a criterion."""
        if text not in self.known:
            (ids,) = self.encoder.criteria_segments((text,))
            self.known[text] = self._read(list(ids), self.encoder.instruction)
        return self.known[text]

    @torch.inference_mode()
    def _read(self, ids: list[int], start: int) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            states = self.backbone(torch.tensor([ids])).last_hidden_state[0, start:].float()
        states = states / states.square().mean(dim=1, keepdim=True).sqrt()
        length = states.new_tensor([len(states)])
        deviation = states.std(dim=0, correction=0)
        return torch.cat([states.mean(dim=0), deviation, length.log(), length / 50])


class Probe(nn.Module):
    """Scores (B,) of standardised features of a response and a criterion, both (B, F)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        drop = nn.Dropout(DROPOUT)
        self.response = nn.Sequential(drop, nn.Linear(size, HIDDEN), nn.GELU(), drop, nn.Linear(HIDDEN, SIZE))
        last = nn.Linear(SIZE // 2, SIZE)
        nn.init.normal_(last.weight, std=0.05)
        nn.init.zeros_(last.bias)
        self.criterion = nn.Sequential(nn.Linear(size, SIZE // 2), nn.GELU(), last)

    def forward(self, first: Tensor, second: Tensor, criteria: Tensor) -> Tensor:
        """(B, C): how much more the first response has of each criterion, in log-odds."""
        apart = self.response(first) - self.response(second)
        gaps: Tensor = apart @ self.criterion(criteria).T / SIZE**0.5
        return gaps


class ProbeJudge:
    """A trained probe as the study asks its judges."""

    together = 64

    def __init__(self, rows: Sequence[Comparison], features: Features, seed: int) -> None:
        self.features = features
        texts = {(row.prompt, response) for row in rows for response in (row.response_a, row.response_b)}
        known = torch.stack([features.of_response(*text) for text in track(sorted(texts, key=str), "probe reads")])
        criteria = torch.stack([features.of_criterion(text) for text in {row.criteria[0] for row in rows}])
        self.responses, self.criteria = (
            (part.mean(dim=0), part.std(dim=0).clamp(min=1e-6)) for part in (known, criteria)
        )
        torch.manual_seed(seed)
        self.probe = Probe(known.shape[1])
        self._train(rows, seed)

    def _inputs(self, rows: Sequence[Comparison]) -> tuple[Tensor, Tensor]:
        mean, deviation = self.responses
        first = [self.features.of_response(row.prompt, row.response_a) for row in rows]
        second = [self.features.of_response(row.prompt, row.response_b) for row in rows]
        return (torch.stack(first) - mean) / deviation, (torch.stack(second) - mean) / deviation

    def _of_criteria(self, texts: Sequence[str]) -> Tensor:
        mean, deviation = self.criteria
        return (torch.stack([self.features.of_criterion(text) for text in texts]) - mean) / deviation

    def _train(self, rows: Sequence[Comparison], seed: int) -> None:
        first, second = self._inputs(rows)
        names = sorted({row.criteria[0] for row in rows})
        asked = torch.tensor([names.index(row.criteria[0]) for row in rows])
        signs = torch.tensor([1.0 if row.label == "a" else -1.0 for row in rows])
        criteria, draws = self._of_criteria(names), torch.Generator().manual_seed(seed)
        optimizer = torch.optim.AdamW(self.probe.parameters(), lr=RATE, weight_decay=0.05)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        for _ in range(STEPS):
            drawn = torch.randint(len(rows), (BATCH,), generator=draws)
            gaps = self.probe(first[drawn], second[drawn], criteria)
            own = gaps.gather(1, asked[drawn, None])[:, 0]
            loss = softplus(-own * signs[drawn]).mean() + PENALTY * gaps.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        self.probe.eval()

    @torch.inference_mode()
    def read(self, asked: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion; criteria add up."""
        rows = [row for row, _ in asked]
        first, second = self._inputs(rows)
        criteria = [self._of_criteria(row.criteria) for row in rows]
        gaps = [self.probe(first[i : i + 1], second[i : i + 1], one).sum().item() for i, one in enumerate(criteria)]
        yield [Reading(row, order, gap) for (row, order), gap in zip(asked, gaps, strict=True)]


def main(words: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.human_labels.probe", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", type=Path, default=Path("results/human_labels"))
    parser.add_argument("--report", type=Path, help="where tables go; by default --out")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--asked", nargs="+", default=["summeval", "d2t", "topicalchat"])
    given = parser.parse_args(words)
    return answered("human_labels.probe", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Train the probes and ask them."""
    given.suite, given.overrides = 0, []
    torch.set_num_threads(1)
    folder = given.out / "mixture"
    write_mixture(folder, {name: splits(name, given.root, most) for name, most in MIXED.items()})
    prepared = ("model=smollm2_135m", "data=file", "data.name=dataset", f"data.path={folder}")
    mixed = load_data(compose("train", prepared, given.out).data)
    drawn: dict[str, Any] = {"direction": "both", "noise": "none", "pool": None, "seed": 0, "epoch": 0}
    rows, _ = make_comparisons(mixed.train, **drawn)
    suites = {name: part for source in given.asked for name, part in suites_of(source, given.root, 0).items() if part}
    features = Features()
    frames = [read_suites(ProbeJudge(rows, features, seed), suites, track) for seed in given.seeds]  # type: ignore[arg-type]
    report(given, {NAME: frames})


if __name__ == "__main__":
    sys.exit(main())
