"""The page of the docs is true: its example prints what it says, and its table has every route."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from crm.judges.controls import LengthJudge
from tests.rewards.server.serving import app_of, serve
from tests.test_docs import example

PAGE = (Path(__file__).parents[3] / "docs" / "reward_server.md").read_text(encoding="utf-8")


def test_the_example_prints_what_the_page_shows(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "ask.py"
    with serve(LengthJudge()) as address:
        script.write_text(example(PAGE, "example: ask").replace("http://127.0.0.1:8000", address), encoding="utf-8")
        runpy.run_path(str(script))
    assert capsys.readouterr().out.strip() == example(PAGE, "output: ask")


def test_the_table_has_every_route() -> None:
    document = TestClient(app_of(LengthJudge())).get("/openapi.json").json()
    table = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"/[\w/]+", table)) == set(document["paths"])
