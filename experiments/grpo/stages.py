"""The stages of the study, one function a process: a start, reward models and policies."""

from __future__ import annotations

import contextlib
import json
import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crm.data.simulation.lexicon import pole_of
from crm.io.files import replace_file
from experiments.grpo.start import policy_tokenizer, teach, untaught
from experiments.grpo.tune import Policy, tune
from experiments.jobs import Job, run_job
from experiments.truth import nearest_wording

CRITERIA = ("Prefers detailed", "Prefers concise", "Prefers humorous", "Prefers bulleted", "Prefers vivid")
CLEAN, NOISED = "none", "random"
"""Values of ``noise=`` of a reward model's training."""
TAUGHT = "taught.json"
EVERY, CONDITIONED_EVERY = 7, 20
"""Steps between two points of a course."""
START_SEED = 1


@dataclass(frozen=True)
class Plan:
    """Where everything goes, and how long the start and the reward models are trained.

    Raises ``ValueError`` for a criterion that the simulation does not know.
    """

    folder: Path
    criteria: tuple[str, ...]
    judge_steps: int
    teach_steps: int

    def __post_init__(self) -> None:
        for criterion in self.criteria:
            if pole_of(criterion) is None:
                raise ValueError(
                    f"--criteria: {criterion!r} has no known truth; the nearest one is {nearest_wording(criterion)!r}"
                )

    @property
    def start(self) -> Path:
        """The folder of the start."""
        return self.folder / "start"

    def judge(self, noise: str, seed: int) -> Path:
        """The folder of a reward model's run."""
        return self.folder / f"judge_{noise}_{seed}"

    def policies(self, seeds: Sequence[int], steps: int, conditioned_steps: int) -> list[Policy]:
        """All policies, the long ones first, so that none of them is left alone at the end."""
        found = []
        for seed in seeds if conditioned_steps and len(self.criteria) > 1 else ():
            judge = str(self.judge(CLEAN, seed) / "model")
            marks = (*range(CONDITIONED_EVERY, conditioned_steps, CONDITIONED_EVERY), conditioned_steps)
            found.append(Policy(f"conditioned_{CLEAN}_{seed}", self.criteria, judge, seed, conditioned_steps, marks))
        for seed in seeds:
            for noise in (CLEAN, NOISED):
                judge = str(self.judge(noise, seed) / "model")
                for criterion in self.criteria:
                    name = f"{criterion.removeprefix('Prefers ').replace(' ', '_')}_{noise}_{seed}"
                    found.append(Policy(name, (criterion,), judge, seed, steps, (*range(EVERY, steps, EVERY), steps)))
        return found

    def course(self, policy: Policy) -> Path:
        """The folder of a policy."""
        return self.folder / "policies" / policy.name


def make_judge(plan: Plan, noise: str, seed: int) -> None:
    """A reward model with a late head, trained on the arena."""
    folder, steps = plan.judge(noise, seed), f"schedule.max_steps={plan.judge_steps}"
    words = ("experiment=demo_late", "trainer=cpu", f"noise={noise}", f"seed={seed}", steps)
    with _quiet(folder / "output.txt"):
        run_job(Job(folder.name, folder, words), queue.SimpleQueue())


def make_start(plan: Plan) -> None:
    """The policy that writes as the authors do."""
    done = plan.start / TAUGHT
    wanted = {"steps": plan.teach_steps, "seed": START_SEED, "criteria": list(plan.criteria)}
    if done.is_file() and json.loads(done.read_text(encoding="utf-8"))["settings"] == wanted:
        return
    import torch

    torch.set_num_threads(1)
    with _quiet(plan.start / "output.txt"):
        tokenizer = policy_tokenizer()
        policy = untaught(tokenizer, START_SEED)
        loss = teach(policy, tokenizer, plan.criteria, steps=plan.teach_steps, seed=START_SEED)
        policy.save_pretrained(plan.start)
        tokenizer.save_pretrained(plan.start)
    weights = sum(parameter.numel() for parameter in policy.parameters())
    replace_file(done, json.dumps({"settings": wanted, "loss": loss, "weights": weights}) + "\n")


def make_policy(plan: Plan, policy: Policy) -> None:
    """One policy and its course."""
    folder = plan.course(policy)
    with _quiet(folder / "output.txt"):
        tune(policy, plan.start, folder)


@contextlib.contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """What is printed inside goes to a file: the terminal is for the progress of all."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file, contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield
