"""What is made, one function a process. In: a plan. Out: a start, reward models and policies in its folder."""

from __future__ import annotations

import contextlib
import json
import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crm.data.simulation.lexicon import nearest_wording, pole_of
from crm.io.files import replace_file
from experiments.grpo.start import policy_tokenizer, teach, untaught
from experiments.grpo.tune import Policy, tune
from experiments.jobs import Job, run_job

WISHES = ("Prefers detailed", "Prefers concise", "Prefers humorous", "Prefers bulleted", "Prefers vivid")
CLEAN, NOISED = "none", "random"
"""Values of ``noise=`` of a reward model's training."""
TAUGHT = "taught.json"
EVERY, TOLD_EVERY = 7, 20
"""Steps between two points of a course."""
START_SEED = 1


@dataclass(frozen=True)
class Plan:
    """Where everything goes, and how long the start and the reward models are trained.

    Raises ``ValueError`` for a wish that the simulation does not know.
    """

    folder: Path
    wishes: tuple[str, ...]
    judge_steps: int
    teach_steps: int

    def __post_init__(self) -> None:
        for wish in self.wishes:
            if pole_of(wish) is None:
                raise ValueError(
                    f"--wishes: {wish!r} has no known truth; the nearest wording is {nearest_wording(wish)!r}"
                )

    @property
    def start(self) -> Path:
        """The folder of the start."""
        return self.folder / "start"

    def judge(self, noise: str, seed: int) -> Path:
        """The folder of a reward model's run."""
        return self.folder / f"judge_{noise}_{seed}"

    def policies(self, seeds: Sequence[int], steps: int, told_steps: int) -> list[Policy]:
        """All policies, the long ones first, so that none of them is left alone at the end."""
        found = []
        for seed in seeds if told_steps else ():
            judge = str(self.judge(CLEAN, seed) / "model")
            marks = (*range(TOLD_EVERY, told_steps, TOLD_EVERY), told_steps)
            found.append(Policy(f"told_{CLEAN}_{seed}", self.wishes, judge, seed, told_steps, marks))
        for seed in seeds:
            for noise in (CLEAN, NOISED):
                judge = str(self.judge(noise, seed) / "model")
                for wish in self.wishes:
                    name = f"{wish.removeprefix('Prefers ').replace(' ', '_')}_{noise}_{seed}"
                    found.append(Policy(name, (wish,), judge, seed, steps, (*range(EVERY, steps, EVERY), steps)))
        return found

    def course(self, policy: Policy) -> Path:
        """The folder of a policy."""
        return self.folder / "policies" / policy.name


def make_judge(plan: Plan, noise: str, seed: int) -> None:
    """A reward model with a late head, trained on the arena."""
    words = ("experiment=demo_late", f"noise={noise}", f"seed={seed}", f"schedule.max_steps={plan.judge_steps}")
    folder = plan.judge(noise, seed)
    with _quiet(folder / "output.txt"):
        run_job(Job(folder.name, folder, words), queue.SimpleQueue())


def make_start(plan: Plan) -> None:
    """The policy that writes as the authors do."""
    done = plan.start / TAUGHT
    wanted = {"steps": plan.teach_steps, "seed": START_SEED, "wishes": list(plan.wishes)}
    if done.is_file() and json.loads(done.read_text(encoding="utf-8"))["settings"] == wanted:
        return
    import torch

    torch.set_num_threads(1)
    with _quiet(plan.start / "output.txt"):
        tokenizer = policy_tokenizer()
        policy = untaught(tokenizer, START_SEED)
        loss = teach(policy, tokenizer, plan.wishes, steps=plan.teach_steps, seed=START_SEED)
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
