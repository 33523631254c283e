"""The judges of the study, a `Spec` each, and the job that trains it.

Trainings differ in head, length, seed, noise, direction, data and size, so that accuracy goes from chance to nearly
perfect. Controls need no training. A training of n steps meets every preference once: its data are the first ones that
a longer training has too, so that no suite holds a prompt of any training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.jobs import Job

BASES = ("D", "T", "C")
"""Unseen prompts, unseen topics, unseen wordings."""
SUITES = tuple(f"{base}{sign}" for base in BASES for sign in "+-")
BATCH, FRESH = 32, 20
"""Comparisons of a step, and preferences that have as many in both directions."""
MOST = 20_000
"""Preferences of the arena's training part, of which suites share no prompt."""
LENGTHS = (1000, 500, 250, 180, 125, 90, 75, 60, 45, 30, 20)
"""Steps of late heads: after 60 they are half way between chance and the truth."""
VALIDATE = 250
"""Steps between validations, of a training that has as many."""
FAMILIES = (
    "late head",
    "late head, other settings",
    "noise, direction",
    "few data",
    "scalar and pairwise heads",
    "control",
)


@dataclass(frozen=True)
class Spec:
    """One judge. A trained one has ``overrides`` of ``train.py``; a control says by ``asked`` which judge it is.

    ``needs`` names another judge: the one whose backbone a training starts from, or whose model a control is.
    """

    name: str
    family: str
    overrides: tuple[str, ...] | None = None
    asked: tuple[str, ...] = ()
    needs: str = ""

    @property
    def blind(self) -> bool:
        """Whether it reads the generic criterion."""
        return "criteria=none" in self.asked


def specs(seed: int) -> list[Spec]:
    """All of the study, long trainings first, so that none of them is left alone at the end."""
    late, other, noised, few, both, control = FAMILIES
    found = [_scalar(f"scalar_{steps}", both, steps, seed) for steps in (1000, 500, 350, 250, 125)]
    found += [_late(f"late_{steps}", late, steps, seed) for steps in LENGTHS]
    found += [_late(f"late_{steps}_again", late, steps, seed + 1) for steps in (125, 60, 30)]
    found += [
        _late("late_hidden_32", other, 180, seed, "model.hidden_size=32"),
        _late("late_hidden_64", other, 90, seed, "model.hidden_size=64"),
        _late("late_layer_1", other, 90, seed, "model.layers=1"),
        _late("late_without_penalty", other, 125, seed, "loss.off_criteria_penalty=0"),
        *(_late(f"late_noise_{kind}", noised, 90, seed, f"noise={kind}") for kind in ("random", "replace", "add")),
        *(_late(f"late_{kind}", noised, 90, seed, f"direction={kind}") for kind in ("original", "reverse")),
        _scalar("scalar_noise_random", noised, 500, seed, "noise=random"),
        *(
            _late(f"late_of_{size}", few, 125, seed, f"data.train={size}", "schedule.epochs=400")
            for size in (1000, 200)
        ),
    ]
    pair = _training("pairwise_span", 250, seed, "schedule.comparisons_per_step=32")
    found.append(Spec("pairwise_250", both, pair, needs="scalar_500"))
    return [*found, *controls(seed, control)]


def controls(seed: int, family: str) -> list[Spec]:
    """Judges that learn nothing, and the truth."""
    return [
        Spec("random", family, asked=("judge=coin", f"seed={seed}")),
        Spec("longer", family, asked=("judge=length",)),
        Spec("blind", family, asked=("criteria=none",), needs="late_1000"),
        Spec("oracle", family, asked=("judge=oracle",)),
    ]


def chosen(found: Sequence[Spec], names: Sequence[str] | None) -> list[Spec]:
    """Those named, in the order of the study; all without names. Raises ``ValueError`` for an unknown name."""
    known = {spec.name for spec in found}
    for name in names or ():
        if name not in known:
            raise ValueError(f"--judges: {name!r}: expected one of {', '.join(sorted(known))}")
    chosen = [spec for spec in found if names is None or spec.name in names]
    have = {spec.name for spec in chosen}
    for spec in chosen:
        if spec.needs and spec.needs not in have:
            raise ValueError(f"--judges: {spec.name} needs {spec.needs}; name it too")
    return chosen


def model_of(spec: Spec, out: Path) -> Path | None:
    """The folder of the model that it reads with; None for a judge that has none."""
    if spec.overrides is not None:
        return out / spec.name / "model"
    return out / spec.needs / "model" if spec.needs else None


def in_order(found: Sequence[Spec], out: Path, overrides: Sequence[str]) -> tuple[list[Job], list[Job]]:
    """Jobs to be done first, and those that need a model of the first."""
    jobs = {spec: job(spec, out, overrides) for spec in found}
    return [made for spec, made in jobs.items() if not spec.needs], [made for spec, made in jobs.items() if spec.needs]


def job(spec: Spec, out: Path, overrides: Sequence[str]) -> Job:
    """Training and suites of one judge; ``overrides`` of ``train.py``, those of ``data`` hold for the suites too."""
    data = [word for word in overrides if word.startswith("data.")]
    asked = [f"suite=[{','.join(SUITES)}]", *data, *spec.asked]
    model = model_of(spec, out)
    if spec.overrides is None:
        asked += [f"checkpoint='{model}'"] if model else []
        return Job(spec.name, out / spec.name, None, {"suites": tuple(asked)})
    start = out / spec.needs / "model" if spec.needs else None
    return Job(spec.name, out / spec.name, (*spec.overrides, *overrides), {"suites": tuple(asked)}, start=start)


def _late(name: str, family: str, steps: int, seed: int, *words: str) -> Spec:
    return Spec(name, family, _training("late", steps, seed, *words))


def _scalar(name: str, family: str, steps: int, seed: int, *words: str) -> Spec:
    return Spec(name, family, _training("scalar", steps, seed, f"schedule.comparisons_per_step={BATCH}", *words))


def _training(head: str, steps: int, seed: int, *words: str) -> tuple[str, ...]:
    return (
        f"experiment=demo_{head}",
        f"seed={seed}",
        f"schedule.max_steps={steps}",
        f"schedule.validate_every={min(steps, VALIDATE)}",
        "schedule.save_every=0",
        f"data.train={min(MOST, FRESH * steps)}",
        *words,
    )
