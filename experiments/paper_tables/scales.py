"""Rows of the five tables at three scales, as overrides of ``train.py`` and ``evaluate.py``.

The grid is a star: each table varies one factor around a common centre, so that tables share runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from experiments.paper_tables import paper

Words = tuple[str, ...]
HEADS: Mapping[str, Words] = {
    "scalar": ("head=scalar", "loss=ranking"),
    "pairwise_span": ("head=pairwise_span", "loss=cls"),
    "pairwise": ("head=pairwise", "loss=cls"),
}
LATE = ("head=late", "loss=ranking", "loss.off_criteria_penalty=0.1", "optimizer.lr=1e-3")
"""Its rate is that of the demo, and its penalty a third of it, as in the recorded tables."""
LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and their heads."""
NOISES = ("none", "add", "remove", "replace")
DIRECTIONS = ("original", "reverse", "random", "both")
PAIRS = ("detail", "humor", "lists", "formality", "caution", "evidence")
"""Axes of the simulation whose two poles are contradictory criteria; table 5 has a row for each."""
READINGS: Mapping[str, tuple[Words, Words]] = {
    "clean": (("none",), ()),
    "noised": (NOISES[1:], ()),
    "blind": (("none",), ("criteria=none",)),
}
"""How a model is read: noises of the suites, further overrides of ``evaluate.py``."""


@dataclass(frozen=True)
class Row:
    """A line of a table: a model (``words`` of ``train.py``) or a control ``judge``, and how it is read.

    ``ranks`` asks for the leaderboards of `PAIRS` too. ``paper`` is the published number that is shown beside ours.
    """

    name: str
    words: Words = ()
    readings: Words = ("clean",)
    judge: str = ""
    ranks: bool = False
    paper: str = ""


@dataclass(frozen=True)
class Question:
    """A table to make: ``key`` names its files, ``head`` its rows.

    ``noised`` shows one suite under every noise instead of all suites clean.
    """

    key: str
    head: str
    rows: tuple[Row, ...]
    noised: bool = False


@dataclass(frozen=True)
class DataSet:
    """``words`` of ``train.py`` and ``evaluate.py`` alike; its suites' ``bases``, and the one that is ``noised``."""

    words: Words
    bases: Words
    noised: str


@dataclass(frozen=True)
class Scale:
    """``common`` overrides of every run, ``heads`` and the one at the ``centre``, ``losses`` by head, data, seeds.

    With ``joint_after_scalar`` joint heads start from the scalar model of the same seed and size: a backbone that has
    learned to read responses one by one learns to read two in one prompt several times sooner. The centre makes
    leaderboards of the contradictory ``pairs``, a subset of `PAIRS`; ``ranking`` are overrides of ``leaderboard.py``
    for them. ``first`` are commands to run before. ``unseen`` is the suite of unseen topics or models. ``minutes`` are
    what a run took, one on each of two cores; 0 where nobody has measured it.
    """

    common: Words
    centre: str
    sizes: Mapping[str, Words]
    data: DataSet
    seeds: tuple[int, ...]
    controls: Words
    ours: str
    unseen: str = "T"
    heads: Mapping[str, Words] = field(default_factory=lambda: HEADS)
    losses: Mapping[str, str] = field(default_factory=lambda: LOSSES)
    directions: Words = DIRECTIONS
    trained_blind: bool = True
    minutes: float = 0.0
    joint_after_scalar: bool = False
    ranking: Words = ()
    pairs: Words = PAIRS
    evaluate: Words = ()
    first: Words = ()
    tables: tuple[int, ...] = tuple(range(1, 6))

    def questions(self) -> tuple[Question, ...]:
        """The tables asked for, by number; all by default."""
        return tuple(question for question in self._all() if int(question.key[0]) in self.tables)

    def _all(self) -> tuple[Question, ...]:
        centre = self.heads[self.centre]
        noises = (
            Row(kind, (*centre, f"noise={kind}"), ("clean", "noised"), paper=paper.WITHOUT_NOISE * (kind == "none"))
            for kind in NOISES
        )
        return (
            Question("1_judges", "judge", self._judges()),
            Question("2_loss_and_size", "loss, size", self._sizes()),
            Question("3_noise", "training noise", tuple(noises), noised=True),
            Question(
                "4_direction",
                "training direction",
                tuple(Row(kind, (*centre, f"direction={kind}")) for kind in self.directions),
            ),
            Question("5_contradictory", "criteria", (Row("centre", centre, (), ranks=True),)),
        )

    def _judges(self) -> tuple[Row, ...]:
        centre = self.heads[self.centre]
        blind = (*centre, "criteria=none", "direction=original")
        trained_blind = [Row(f"{self.centre}, trained blind", blind, ("blind",), paper=paper.BLIND)]
        return (
            *(Row(name, words, paper=paper.CRM_4B if name == "pairwise" else "") for name, words in self.heads.items()),
            Row(f"{self.centre}, criteria hidden", centre, ("blind",), paper=paper.BLIND),
            *(trained_blind if self.trained_blind else ()),
            *(Row(name, judge=name) for name in self.controls),
        )

    def _sizes(self) -> tuple[Row, ...]:
        """Every loss in every size; a head beside the centre's only in the size that all tables have."""
        full = {head for head in self.losses.values() if head == self.centre or self.centre == "pairwise"}
        return tuple(
            Row(f"{loss}, {size}", (*self.heads[head], *words), paper=paper.LOSS_AND_SIZE.get((loss, size), ""))
            for loss, head in self.losses.items()
            for size, words in self.sizes.items()
            if head in full or not words
        )


SCALES = {
    "demo": Scale(
        common=("experiment=ablation_demo",),
        centre="late",
        heads={"late": LATE, **HEADS},
        losses={"cls": "pairwise_span", "ranking": "late"},
        sizes={"hidden 64": ("model.hidden_size=64",), "hidden 128": ()},
        data=DataSet(("data=simulation", "data.train=10000"), ("D", "T", "C"), "D"),
        seeds=(42, 43, 44),
        directions=("original", "random", "both"),
        trained_blind=False,
        controls=("length", "coin", "oracle"),
        ours="a simulated arena with criteria known to be true, and models of up to a million weights from scratch, "
        "all trained on as many comparisons; joint heads start from the scalar model of their seed",
        joint_after_scalar=True,
        ranking=("bank.queries_per_topic=10",),
        minutes=2.5,
    ),
    "real": Scale(
        common=("experiment=ablation_real",),
        centre="scalar",
        sizes={"135M": ()},
        unseen="M",
        minutes=8.0,
        data=DataSet(
            ("data=concise_verbose", "data.train=500", "data.validation=40", "data.suite=60", "data.max_words=60"),
            ("D", "M", "C"),
            "D",
        ),
        seeds=(42,),
        controls=("length", "coin"),
        ours="500 preferences between answers of LLMs asked to be concise, left alone or asked to be verbose, cut to "
        "60 words; true by construction, criteria worded by hand, SmolLM2 of 135M with 20 of its 30 layers frozen. "
        "M: unseen LLMs, C: and unseen wordings. Table 5 ranks "
        "13 LLMs by whole responses to just-eval's queries that are not in training; of its criteria only the first "
        "pair is of a kind that was in training",
        joint_after_scalar=True,
        ranking=("bank=justeval", "bank.without=[alpacaeval]", "bank.queries=24", "precision=bf16-mixed"),
        pairs=("detail", "formality"),
        evaluate=("precision=bf16-mixed",),
        first=("make smollm2", *(f"python prepare.py fetch={name}" for name in ("concise_verbose", "justeval"))),
    ),
    "paper": Scale(
        common=("experiment=paper",),
        centre="pairwise",
        sizes={size: (f"model=qwen3_{size.lower().replace('.', '_')}",) for size in ("0.6B", "1.7B", "4B", "8B")},
        data=DataSet(("data=file", "data.name=dataset", "data.path=datasets/arena_55k"), ("D", "T", "C"), "D"),
        seeds=(42,),
        controls=("length", "coin"),
        ours="LMArena's public votes with criteria by the language model given to prepare.py, Qwen3 as theirs. Table 5 "
        "ranks 30 LLMs on AlpacaEval's queries",
        ranking=("bank=alpacaeval", "precision=bf16-mixed", "batch_size=8"),
        evaluate=("precision=bf16-mixed", "batch_size=8"),
        first=(
            "python prepare.py data=hf://lmarena-ai/arena-human-preference-55k annotator.base_url=<endpoint> "
            "annotator.model=<model> out=datasets/arena_55k",
            "python prepare.py fetch=alpacaeval",
        ),
    ),
}
