"""The commands ``train``, ``evaluate``, ``leaderboard``, ``prepare``, ``bank``, ``best_of_n``, ``app`` and ``serve``.

In: their words on the command line. Out: exit codes; see `crm.cli.commands`. That is loaded when one is called, so that
who stops a command while it loads is told so in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["app", "bank", "best_of_n", "evaluate", "leaderboard", "prepare", "serve", "train"]


def _command(name: str) -> Callable[[], None]:
    def command() -> None:
        try:
            from crm.cli import commands

            getattr(commands, name)()
        except KeyboardInterrupt:
            print(f"crm-{name.replace('_', '-')}: stopped before it had begun", file=sys.stderr)
            sys.exit(130)

    command.__doc__ = f"``crm-{name.replace('_', '-')}``, as `crm.cli.commands.{name}` describes it."
    return command


train, evaluate, leaderboard, prepare = map(_command, ("train", "evaluate", "leaderboard", "prepare"))
bank, best_of_n, app, serve = map(_command, ("bank", "best_of_n", "app", "serve"))
