"""SECURITY.md and the threat model point to code and tests that are there; what bandit leaves out, ruff sees."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODEL = (ROOT / "docs" / "threat_model.md").read_text(encoding="utf-8")
PAGES = {"threat_model.md": MODEL, "SECURITY.md": (ROOT / "SECURITY.md").read_text(encoding="utf-8")}
NOT_OF_RUFF = {"B403", "B404", "B615"}
"""Tests of bandit that are left out for reasons of their own."""


@pytest.mark.parametrize("page", PAGES)
def test_every_path_and_test_that_a_page_names_is_there(page: str) -> None:
    named = re.findall(r"`([\w./]+\.(?:py|txt|md))(?:::(\w+))?`", PAGES[page])
    assert len(named) > 60 or page == "SECURITY.md"
    home = ROOT if page == "SECURITY.md" else ROOT / "docs"
    for link in re.findall(r"\]\(([^)#]+)\)", PAGES[page]):
        assert (home / link).is_file(), link
    for path, test in named:
        assert (ROOT / path).is_file(), path
        assert not test or re.search(rf"^def {test}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), test


def test_every_row_of_the_threat_model_names_a_module_and_a_test() -> None:
    rows = [line.split("|")[1:-1] for line in MODEL.splitlines() if line.startswith("| ")]
    claims = [cells for cells in rows if cells[-1].strip() != "shown by"]
    assert len(claims) > 25
    for attack, defence, shown in claims:
        assert re.search(r"`crm/[\w/]+\.py`", defence), attack
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", shown), attack


def test_every_way_in_says_what_remains() -> None:
    sections = MODEL.split("\n## ")[1:]
    assert len(sections) == 8
    assert [section.splitlines()[0] for section in sections if "**Remains.**" not in section] == []


def test_there_is_no_address_that_nobody_reads() -> None:
    assert not re.search(r"\w@\w", PAGES["SECURITY.md"])


def test_bandit_leaves_out_only_what_ruff_looks_at() -> None:
    """The same test of both has the same number; ruff's waivers are in the source, each with a reason."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert "S" in tools["ruff"]["lint"]["select"]
    assert {rule for rule in tools["ruff"]["lint"]["ignore"] if rule.startswith("S")} == {"S101"}
    skipped = set(tools["bandit"]["skips"])
    assert skipped >= NOT_OF_RUFF
    # Stable rules of ruff: preview ones such as S404 are not on.
    assert skipped - NOT_OF_RUFF <= {"B101", "B105", "B311", "B501", "B603", "B607", "B701", "B704"}
