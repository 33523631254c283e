"""The example of docs/best_of_n.md prints what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from crm.config import compose
from crm.rewards.best_of_n import run_best_of_n

PAGE = (Path(__file__).parents[3] / "docs" / "best_of_n.md").read_text(encoding="utf-8")


def block(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\n(.*?)\n```", PAGE, re.DOTALL)
    assert found, name
    return found[1]


def test_the_example_writes_the_table_that_the_page_shows(tmp_path: Path) -> None:
    words = shlex.split(block("example: best of n"))
    assert words[:2] == ["python", "best_of_n.py"]
    run_best_of_n(compose("best_of_n", [*words[2:], "progress=false"], tmp_path), show=False)
    written = (tmp_path / "best_of_n.md").read_text(encoding="utf-8")
    assert written.split("\n\n", 1)[1].strip() == block("output: best of n")
