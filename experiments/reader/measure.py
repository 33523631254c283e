"""How well the reader understands: calibration, and what it makes of sentences that it has never seen."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import yaml
from matplotlib.figure import Figure
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import kendalltau
from torch import Tensor

from crm.criteria.counting import MEASURES
from crm.judges.sentence_reader import Clause, SentenceReader, plain
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import read_public_bank
from crm.leaderboard.matrix import CriteriaMatrix
from crm.leaderboard.own_words import OwnWords
from crm.report.plots import COLOURS, GREY, save_figure, tidy_axes
from crm.report.statistics import wilson
from experiments.reader.network import ClauseNetwork
from experiments.reader.sentences import KINDS, OTHER, sides, trained_on, unseen, wordings

HELD_OUT = Path(__file__).with_name("held_out.json")
"""Sentences by somebody who has not seen the wordings: ``one`` criterion, ``several``, ``nothing``.

By others, who have not seen those either: `FRESH`, of one criterion each; `SEVERAL`, of two or more; `TERSE`, what
people type first, with every reading that is right, which may be none; `NOTHING`, of nothing."""
FRAMES = Path(__file__).with_name("held_out_frames.yaml")
"""Frames by one more who has seen nothing, for phrases that training has."""
FRESH = ("strangers", "roundabout", "typed", "newcomers", "visitors", "guests", "callers")
SEVERAL = ("several", "lists", "mixed", "combined", "guests_several", "callers_several")
TERSE = ("terse", "entries")
SIDES = {"more": 1, "less": -1}
NOTHING = ("nothing", "off_topic", "guests_nothing", "callers_nothing")


def logits_of(model: ClauseNetwork, tokenizer: Any, texts: Sequence[str]) -> Tensor:
    """(N, classes) for whole sentences."""
    rows = [row.ids for row in tokenizer.encode_batch(list(texts))]
    with torch.inference_mode():
        return torch.cat([model(torch.tensor(rows[at : at + 128])) for at in range(0, len(rows), 128)])


def calibrate(model: ClauseNetwork, tokenizer: Any) -> float:
    """The temperature with the least log loss on unseen sentences."""
    place = {side: row for row, side in enumerate(sides())}
    texts, asked = zip(*unseen(), strict=True)
    logits, right = logits_of(model, tokenizer, texts), torch.tensor([place[side] for side in asked])

    def log_loss(temperature: float) -> float:
        return float(torch.nn.functional.cross_entropy(logits / temperature, right))

    return float(minimize_scalar(log_loss, bounds=(0.3, 3.0), method="bounded").x)


def measure(path: Path, root: str) -> dict[str, Any]:
    """Shares with 95 % intervals (Wilson) on the held-out sentences, calibration error, and agreement of rankings."""
    reader, (held_out, known) = SentenceReader(path), read_held_out()
    one = {"counted": [row for row in held_out["one"] if row["name"] in MEASURES]}
    one["judged"] = [row for row in held_out["one"] if row["name"] not in MEASURES]
    one |= {name: held_out[name] for name in FRESH}
    found: dict[str, Any] = {"limit": reader.limit, "bytes": path.stat().st_size, "digest": reader.digest}
    found["left out, since training has them"] = known
    for kind, rows in one.items():
        found[kind] = _one(reader, rows)
    found |= {name: _several(reader, held_out[name]) for name in SEVERAL}
    found |= {name: _terse(reader, held_out[name]) for name in TERSE}
    found["frames"] = _one(reader, framed())
    bank = read_public_bank("justeval", root)
    found["boards of just-eval"] = boards(reader, bank, held_out["one"])
    found["boards, strangers"] = boards(reader, bank, [row for name in FRESH for row in held_out[name]])
    for name in NOTHING:
        found[name] = {"refused": _share([not _asked(reader, row["text"]) for row in held_out[name]])}
    return found


def read_held_out() -> tuple[dict[str, list[dict[str, Any]]], dict[str, int]]:
    """The test by set without what its writers have in common with training, by chance, and how many those are."""
    read: dict[str, list[dict[str, Any]]] = json.loads(HELD_OUT.read_text(encoding="utf-8"))
    known = trained_on()
    left = {name: [row for row in rows if plain(row["text"]) not in known] for name, rows in read.items()}
    return left, {name: len(rows) - len(left[name]) for name, rows in read.items()}


def _one(reader: SentenceReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    read = [reader.read(row["text"]) for row in rows]
    sure, top = surest(read, rows)
    right, turned, understood = [], [], []
    for row, clauses in zip(rows, read, strict=True):
        known, side = _understood(clauses), SIDES[row["side"]]
        understood.append(bool(known))
        if known:
            right.append(known == {(row["name"], side)})
            turned.append((row["name"], -side) in known)
    return {
        "trait and side right": _share(top.tolist()),
        "refused": _share([not each for each in understood]),
        "right of what is understood": _share(right),
        "turned round": _share(turned),
        "calibration error": round(calibration_error(sure, top), 4),
    }


def surest(read: Sequence[Sequence[Clause]], rows: Sequence[dict[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Of each sentence, the confidence in [0, 1] of its surest clause, and whether criterion and side are right."""
    sure, right = [], []
    for row, clauses in zip(rows, read, strict=True):
        best = max(clauses, key=lambda clause: clause.confidence)
        side = "more" if best.side > 0 else "less"
        right.append((best.nearest[0][0], side) == (row["name"], row["side"]))
        sure.append(best.confidence)
    return np.array(sure), np.array(right)


def draw_calibration(reader: SentenceReader, path: Path, bins: int = 10) -> None:
    """Share that is right over confidence, with 95 % intervals, on the held-out sentences."""
    rows = read_held_out()[0]["one"]
    sure, right = surest([reader.read(row["text"]) for row in rows], rows)
    place = np.minimum((sure * bins).astype(int), bins - 1)
    figure = Figure(figsize=(4.5, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=1)
    axes.axvline(reader.limit, color=GREY, linestyle=":", linewidth=1)
    axes.annotate("limit", (reader.limit, 0.02), rotation=90, ha="right", color=GREY)
    for one in range(bins):
        if count := int((place == one).sum()):
            share = float(right[place == one].mean())
            low, high = wilson(share, count)
            centre = float(sure[place == one].mean())
            axes.errorbar(centre, share, [[share - low], [high - share]], fmt="o", color=COLOURS[0], capsize=2)
            axes.annotate(str(count), (centre, share), xytext=(5, -9), textcoords="offset points", fontsize=8)
    axes.set(xlabel="confidence", ylabel="criterion and side right", xlim=(0, 1.02), ylim=(0, 1.02))
    tidy_axes(axes)
    save_figure(figure, path)


def boards(reader: SentenceReader, bank: Bank, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Kendall's tau of a sentence's ranking with that of the count itself, over sentences of one counted criterion."""
    with TemporaryDirectory() as folder:
        words = OwnWords(reader, CriteriaMatrix(bank, Path(folder) / "criteria.parquet"))
        words.matrix.count(list(MEASURES))
    baseline, taus, refused = bank.authors.index(bank.baseline), [], 0
    for row in rows:
        if row["name"] not in MEASURES:
            continue
        wanted = {name: by for name, by in words.weights([row["text"]]).items() if by and name in MEASURES}
        if not wanted:
            refused += 1
            continue
        counts = words.matrix.raw(row["name"]) * SIDES[row["side"]]
        gaps = counts - counts[:, [baseline]]
        truth = np.nanmean(np.where(np.isnan(gaps), np.nan, (np.sign(gaps) + 1) / 2), axis=0)
        scores = words.scores(wanted)
        rates = np.nanmean(expit(scores - scores[:, [baseline]]), axis=0)
        taus.append(float(kendalltau(truth, rates).statistic))
    known = np.array([tau for tau in taus if np.isfinite(tau)])
    low, high = bootstrap(known)
    return {
        "mean tau": [round(float(known.mean()), 4), low, high, len(known)],
        "below -.1": _share((known < -0.1).tolist()),
        "refused": _share([1] * refused + [0] * len(taus)),
    }


def bootstrap(values: np.ndarray) -> tuple[float, float]:
    """95 % limits of a mean, over sentences."""
    rng = np.random.default_rng(0)
    means = [rng.choice(values, len(values)).mean() for _ in range(2000)]
    return round(float(np.quantile(means, 0.025)), 4), round(float(np.quantile(means, 0.975)), 4)


def framed(draws: int = 10) -> list[dict[str, Any]]:
    """Rows like those of one criterion: every frame that training lacks around ``draws`` phrases that it has."""
    rng, criteria, known = np.random.default_rng(0), wordings()["criteria"], wordings()["frames"]
    asks, rows = yaml.safe_load(FRAMES.read_text(encoding="utf-8")), []
    for kind, ask in product(KINDS, ("for", "against")):
        ours = set(map(plain, known[kind][ask]))
        for frame in (each for each in asks[kind][ask] if plain(each) not in ours):
            for name in map(str, rng.choice(list(criteria), draws, replace=False)):
                side = str(rng.choice(list(OTHER)))
                text = frame.format(rng.choice(criteria[name][side][kind]))
                rows.append({"text": text, "name": name, "side": side if ask == "for" else OTHER[side]})
    return rows


def _several(reader: SentenceReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = list(wordings()["criteria"])
    asked = found = right = 0
    for row in rows:
        wanted = {(names[each["trait"] - 1], SIDES[each["side"]]) for each in row["wants"]}
        read = _asked(reader, row["text"])
        asked, found, right = asked + len(wanted), found + len(read), right + len(wanted & read)
    return {"found of what is asked": _share([1] * right + [0] * (asked - right)),
            "right of what is understood": _share([1] * right + [0] * (found - right))}  # fmt: skip


def _asked(reader: SentenceReader, text: str) -> set[tuple[str, int]]:
    return _understood(reader.read(text))


def _understood(clauses: Sequence[Clause]) -> set[tuple[str, int]]:
    return {(clause.criterion, clause.side) for clause in clauses if clause.criterion}


def _terse(reader: SentenceReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    lost: list[bool] = []
    right: list[bool] = []
    refused: list[bool] = []
    for row in rows:
        read = _asked(reader, row["text"])
        accepted = {(each["name"], SIDES[each["side"]]) for each in row["accept"]}
        (lost if accepted else refused).append(not read)
        if accepted and read:
            right.append(read <= accepted)
    return {
        "refused": _share(lost),
        "right of what is understood": _share(right),
        "refused, of what no criterion means": _share(refused),
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = 10) -> float:
    """Mean gap between confidence and accuracy over equal bins of [0, 1], weighted by count."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(confidence[place == one].mean() - right[place == one].mean()) * (place == one).mean()
            for one in range(bins) if (place == one).any()]  # fmt: skip
    return float(sum(gaps))


def _share(flags: Sequence[Any]) -> list[float] | None:
    """Share, limits and count; None of nothing."""
    if not flags:
        return None
    share = sum(map(bool, flags)) / len(flags)
    return [round(float(number), 4) for number in (share, *wilson(share, len(flags)))] + [len(flags)]
