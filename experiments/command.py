"""Command lines of the studies: settings stand anywhere among the options, and a mistake is one sentence."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from crm.cli.mistakes import MISTAKES, explain


def parsed(parser: argparse.ArgumentParser, words: Sequence[str] | None) -> argparse.Namespace:
    """Of the command's own words where none are given; an option of several values would take a setting for one."""
    given = sys.argv[1:] if words is None else words
    return parser.parse_args(sorted(given, key=lambda word: not re.match(r"[~+]*[\w.]+=", word)))


def answered(name: str, study: Callable[[], object], command: str = "train") -> int:
    """Run it; 2 after a sentence for what the user can mend (settings are of ``command``), 130 for Ctrl-C, else 0."""
    try:
        study()
    except MISTAKES as error:
        if type(error.__cause__).__name__ == "_RemoteTraceback":  # of a worker process: its text, not a cause
            error.__cause__ = None
        print(f"experiments.{name}: {explain(error, command)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"experiments.{name}: stopped; what was written stays", file=sys.stderr)
        return 130
    return 0
