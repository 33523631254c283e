"""``python -m experiments.grpo``: GRPO against a reward model, measured by a known truth.

It trains a start, reward models with and without noise in their training, and from them a policy for each of five
criteria and one that is conditioned on its criterion; three seeds, two processes at a time. Finished policies are not
trained again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.command import answered
from experiments.grpo.report import report
from experiments.grpo.stages import CLEAN, CRITERIA, NOISED, Plan, make_judge, make_policy, make_start
from experiments.processes import side_by_side


def main(words: Sequence[str] | None = None) -> int:
    """Command line; 2 for what cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m experiments.grpo", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/grpo"), help="where models and courses go")
    parser.add_argument("--report", type=Path, help="where tables and pictures go; by default --out")
    parser.add_argument("--criteria", nargs="+", default=list(CRITERIA), help="wordings of the simulation")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--judge-steps", type=int, default=500)
    parser.add_argument("--teach-steps", type=int, default=500)
    parser.add_argument("--steps", type=int, default=70)
    parser.add_argument(
        "--conditioned-steps", type=int, default=120, help="0: no policy that is conditioned on its criterion"
    )
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(words)
    return answered("grpo", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """The start and the reward models, then policies, then the report."""
    started = time.perf_counter()
    plan = Plan(given.out.resolve(), tuple(given.criteria), given.judge_steps, given.teach_steps)
    policies = plan.policies(given.seeds, given.steps, given.conditioned_steps)
    judges = [(make_judge, (plan, noise, seed)) for seed in given.seeds for noise in (CLEAN, NOISED)]
    side_by_side([(make_start, (plan,)), *judges], given.workers, "the start and the reward models")
    side_by_side([(make_policy, (plan, policy)) for policy in policies], given.workers, "policies")
    minutes = round((time.perf_counter() - started) / 60, 1)
    report(plan, policies, given.report or given.out, minutes)


if __name__ == "__main__":
    sys.exit(main())
