"""The console commands; what a command needs is loaded when it is called, so that it can be stopped before that."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["app", "bank", "bank_score", "best_of_n", "evaluate", "leaderboard", "prepare", "score", "serve", "train"]


def _command(name: str) -> Callable[[], None]:
    def command() -> None:
        try:
            from crm.cli.commands import run_command

            run_command(name)
        except KeyboardInterrupt:
            print(f"crm-{name.replace('_', '-')}: stopped before it had begun", file=sys.stderr)
            sys.exit(130)

    command.__doc__ = f"``crm-{name.replace('_', '-')}``: see ``conf/{name}.yaml``."
    return command


train, evaluate, leaderboard, prepare = map(_command, ("train", "evaluate", "leaderboard", "prepare"))
best_of_n, app, serve, score, bank_score = map(_command, ("best_of_n", "app", "serve", "score", "bank_score"))
_build_bank, _SCORE = _command("bank"), "--config-name=bank_score"


def bank() -> None:
    """``crm-bank``: see ``conf/bank.yaml``; ``crm-bank score``: see ``conf/bank_score.yaml``."""
    if sys.argv[1:2] == ["score"]:
        sys.argv[1] = _SCORE  # a word of Hydra's, which processes on other devices get too
    (bank_score if _SCORE in sys.argv else _build_bank)()
