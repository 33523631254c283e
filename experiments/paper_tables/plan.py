"""The distinct jobs of a scale, and which of them made which row.

Every run has a folder named by what was asked for; rows that mean the same run share it, however they are written.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from crm.config import compose
from crm.data.comparisons import suite_names
from crm.data.simulation.lexicon import AXIS
from experiments.jobs import Job
from experiments.paper_tables.scales import HEADS, PAIRS, READINGS, Row, Scale, Words

Place = tuple[str, str, int]
"""Key of the table, name of the row, seed."""
VARIED = ("head", "loss", "noise", "direction", "criteria", "seed")


@dataclass(frozen=True)
class Plan:
    """``jobs`` are distinct, a job after those that it starts from; ``made_by`` names the one behind each row."""

    jobs: tuple[Job, ...]
    made_by: Mapping[Place, str]

    def stages(self) -> list[list[Job]]:
        """Jobs that may run side by side; a stage needs the models of those before it."""
        parts = ([job for job in self.jobs if not job.start], [job for job in self.jobs if job.start])
        return [part for part in parts if part]


def make_plan(scale: Scale, extra: Words, out: Path, seeds: Sequence[int]) -> Plan:
    """Every row of every table, with every seed; ``extra`` overrides of ``train.py`` come last.

    Raises ``ValueError`` for an override of what the tables vary, and for one that makes two sizes the same.
    """
    _refuse_varied(extra)
    jobs: dict[Path, Job] = {}
    made_by: dict[Place, str] = {}
    for question in scale.questions():
        for row in question.rows:
            for seed in seeds:
                title = f"{question.key} {row.name}"
                job = _job(scale, row, seed, extra, out)
                if job.start:
                    first = _job(scale, Row("", _as_scalar(row.words), ()), seed, extra, out)
                    jobs.setdefault(first.folder, replace(first, name=f"{title}, scalar first, seed {seed}"))
                known = jobs.setdefault(job.folder, replace(job, name=f"{title}, seed {seed}"))
                jobs[job.folder] = _joined(known, job)
                made_by[question.key, row.name, seed] = known.name
    sizes = [name for place, name in made_by.items() if place[0] == "2_loss_and_size"]
    if len(set(sizes)) < len(sizes):
        others = " ".join(str(number) for number in scale.tables if number != 2) or "1"
        raise ValueError(f"{' '.join(extra)}: table 2 varies the size; leave it out, or add --tables {others}")
    return Plan(tuple(jobs.values()), made_by)


def _refuse_varied(extra: Words) -> None:
    for word in extra:
        name = word.lstrip("+~").partition("=")[0].partition(".")[0]
        if name in VARIED:
            way = "seeds are given with --seeds 1 2 3" if name == "seed" else "leave it out, or use train.py"
            raise ValueError(f"{word}: the tables vary {name}; {way}")


def commands(job: Job) -> list[str]:
    """What a job does to make its model, or to hear its judge, as a user would type it."""
    if job.overrides is None:
        done = [(*words, f"hydra.run.dir={job.folder / name}") for name, words in job.evaluations.items()]
        return [f"python evaluate.py {shlex.join(words)}" for words in done]
    start = (f"model.path={job.start}",) if job.start else ()
    return [f"python train.py {shlex.join((*job.overrides, *start, f'hydra.run.dir={job.folder}'))}"]


def criterion(axis: str, sign: int) -> str:
    """A wording of one pole of an axis of the simulation, such as ``Prefers detailed answers``."""
    return f"Prefers {AXIS[axis].pole(sign).train[0]}"


def contradictory(axes: Sequence[str] = PAIRS) -> dict[str, tuple[str, ...]]:
    """The criteria of every leaderboard of table 5, by ``<axis>+`` and ``<axis>-``."""
    return {f"{axis}{mark}": (criterion(axis, sign),) for axis in axes for mark, sign in (("+", 1), ("-", -1))}


def _job(scale: Scale, row: Row, seed: int, extra: Words, out: Path) -> Job:
    shared = (*scale.data.words, *(word for word in extra if word.startswith("data")))
    evaluations = {name: _evaluation(name, scale, shared) for name in row.readings}
    if row.judge:
        wanted = (f"judge={row.judge}", f"seed={seed}")
        digest = _digest((*wanted, *shared))
        return Job("", out / "controls" / digest, None, {key: (*words, *wanted) for key, words in evaluations.items()})
    overrides = (*scale.common, *scale.data.words, *row.words, *extra)
    start = None
    if "loss=cls" in row.words and scale.joint_after_scalar:
        before = (*scale.common, *scale.data.words, *_as_scalar(row.words), *extra)
        start = out / "runs" / run_name(before, seed) / "model"
    return Job(
        "",
        out / "runs" / run_name(overrides, seed),
        (*overrides, f"seed={seed}"),
        evaluations,
        contradictory(scale.pairs) if row.ranks else {},
        ranking=scale.ranking,
        start=start,
    )


def _evaluation(name: str, scale: Scale, shared: Words) -> Words:
    noises, words = READINGS[name]
    suites = suite_names([scale.data.noised] if name == "noised" else scale.data.bases, noises)
    return (*shared, f"suite=[{','.join(suites)}]", *scale.evaluate, *words)


def _as_scalar(words: Words) -> Words:
    """The same row with the scalar head."""
    return (*HEADS["scalar"], *(word for word in words if not word.startswith(("head=", "loss"))))


def _joined(known: Job, job: Job) -> Job:
    evaluations = {**known.evaluations, **job.evaluations}
    return replace(known, evaluations=evaluations, leaderboards={**known.leaderboards, **job.leaderboards})


def run_name(overrides: Words, seed: int) -> str:
    """``<8 hex digits>-<seed>``, the digits of the training configuration that the overrides compose to."""
    return f"{_config_digest(overrides)}-{seed}"


@cache
def _config_digest(overrides: Words) -> str:
    """Composing takes its time, and seeds differ in nothing else."""
    return _digest(asdict(compose("train", overrides, Path("run"))))


def _digest(settings: object) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]
