"""Train, evaluate and rank on the simulated arena: ``python -m experiments.demo`` (`make demo`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; exit code 2 for a mistake."""
    parser = argparse.ArgumentParser(prog="python -m experiments.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/demo"))
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--all", action="store_true", help="every head, with noised criteria and attacks: 20 minutes")
    parser.add_argument("overrides", nargs="*", help="overrides of train.py for all heads, such as data.train=2000")
    options = parser.parse_args(arguments)
    print(f"The demo: results go to {options.out}, what each training logs to job.log there.", flush=True)
    # Imported here: torch and Lightning take seconds, and the first line is to be seen at once.
    from crm.cli.words import rewrite_all
    from experiments.command import answered
    from experiments.demo.run import ALL_HEADS, HEADS, run_demo

    def run() -> None:
        overrides = rewrite_all(options.overrides, "train", "experiments.demo")
        run_demo(options.out, options.seed, overrides, heads=ALL_HEADS if options.all else HEADS)

    return answered("demo", run)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # while it loads
        print("experiments.demo: stopped before it had begun", file=sys.stderr)
        sys.exit(130)
