"""Sections of a card: in their place, once, and only in a card of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from crm.model.model_card import read_section, write_card, write_section

MEASURED = "| a |\n|---|\n| 2 |"


def test_a_section_stands_before_the_licence_once(tmp_path: Path) -> None:
    write_card(tmp_path, "scalar", "criteria_first", {"max_length": 64})
    card = tmp_path / "README.md"
    before = card.read_text()
    assert "\n## Licence" in before
    write_section(tmp_path, "Measured", MEASURED.replace("2", "1"))
    write_section(tmp_path, "Measured", MEASURED)
    assert read_section(tmp_path, "Measured") == MEASURED
    assert card.read_text() == before.replace("\n## Licence", f"\n## Measured\n\n{MEASURED}\n\n## Licence")


def test_a_section_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_section(tmp_path, "Measured") == "", "no card"
    write_card(tmp_path, "scalar", "criteria_first", {"max_length": 64})
    write_section(tmp_path, "Measured", MEASURED)
    assert read_section(tmp_path, "Measure") == ""


def test_somebody_else_s_card_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Somebody's own\n")
    with pytest.raises(ValueError, match="not a card that was exported here"):
        write_section(tmp_path, "Measured", MEASURED)
    assert (tmp_path / "README.md").read_text() == "# Somebody's own\n"
