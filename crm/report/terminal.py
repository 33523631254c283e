"""Tables in a terminal or a log, in which no name is cut."""

from __future__ import annotations

import sys
from typing import TextIO

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crm.report.tables import number

WIDE = 100_000
"""Columns of a place that has no width of its own."""


def print_table(frame: pd.DataFrame, title: str, file: TextIO | None = None) -> None:
    """Print ``frame`` under ``title``, to standard output unless a ``file`` is given."""
    console = Console(file=file or sys.stdout)
    if not console.is_terminal:
        console = Console(file=file or sys.stdout, width=WIDE)
    table = Table()
    for name, kind in zip(frame.columns, frame.dtypes, strict=True):
        table.add_column(Text(str(name)), overflow="fold", no_wrap=pd.api.types.is_numeric_dtype(kind))
    for row in frame.itertuples(index=False):
        # Not plain strings: brackets in a name would be read as markup.
        table.add_row(*(Text(number(value) if isinstance(value, float) else str(value)) for value in row))
    console.print(Text(title, style="italic"))
    console.print(table)
