"""Tables in a terminal: whatever its width, no letter of a name is lost."""

from __future__ import annotations

import io
import re

import pandas as pd
import pytest

from crm.report.terminal import print_table

NAMES = ["linden-preview-2026-11-23-instruct", "someone/a-very-long-name-of-a-reward-model-with-8B", "[bold]odd[/bold]"]
FRAME = pd.DataFrame(
    {"rank": [1, 2, 3], "model": NAMES, "win_rate": [0.75, 0.5, 0.25], "why [x]": ["0.5 [0.4, 0.6]", "–", ""]}
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def cells(text: str, column: int) -> list[str]:
    """Texts of a column, folded lines put together again."""
    joined, rows = "", []
    for line in text.splitlines():
        if "│" not in line:
            continue
        first, cell = (line.split("│")[at].strip() for at in (1, column + 1))
        if first and joined:
            rows.append(joined)
            joined = ""
        joined += cell
    return [*rows, joined]


@pytest.mark.parametrize("columns", [40, 200])
def test_a_terminal_folds_names_and_keeps_numbers_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(columns), "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    out = Terminal()
    print_table(FRAME, "Accuracy (some/folder)", out)
    text = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert max(map(len, text.splitlines())) <= columns
    assert cells(text, 1) == NAMES and "…" not in text
    assert cells(text, 2) == ["0.750", "0.500", "0.250"]
