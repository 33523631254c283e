"""The reliability table: what tests count is added up, nothing that fails or is missing passes, faults get in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import bench.reliability.__main__ as reliability
from bench.reliability.__main__ import Outcome, broken, frame, page, run
from bench.reliability.blocks import BLOCKS, Block
from bench.reliability.red import STATIC
from tests.reliability_defects import DEFECTS
from tests.seeded_bugs import function_of, wrong_code

ROOT = Path(__file__).parents[3]
FINE = Outcome(tests=3, inputs=200, faults=10, failed=0, skipped=1, seconds=2.0, ended=True)
BLOCK = Block("B", "properties", ("tests/x.py",), inputs=100, faults=10)
COUNTING = """
import pytest
from crm.schema import folded

@pytest.mark.parametrize("number", range(3))
def test_folds(number, record_property):
    record_property("inputs", 2)
    record_property("faults", 1)
    record_property("inputs", 3)
    assert folded("A  b") == "a b"

def test_left_out():
    pytest.skip("nothing to see")
"""


def test_every_block_and_fault_names_tests_that_are_there() -> None:
    assert [block.letter for block in BLOCKS] == list("ABCDEFG")
    assert {name[0] for name in DEFECTS} == set("BDEFG"), "A has a file, C puts its own in"
    found = {"A: a file": (STATIC,)} | {name: defect.tests for name, defect in DEFECTS.items()}
    named = [test for block in BLOCKS for test in block.tests]
    for name in [*named, *(test for own in found.values() for test in own)]:
        path, _, test = name.partition("::")
        assert (ROOT / path).is_file(), name
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8"), name
    for name, tests in found.items():
        block = next(block for block in BLOCKS if block.letter == name[0])
        for test in tests:
            assert any(test.startswith(own) for own in block.tests), f"{test} is not of block {block.letter}"


def test_faults_are_lines_that_are_there() -> None:
    for defect in DEFECTS.values():
        assert wrong_code(defect) != function_of(defect.place).__code__


def test_no_test_is_counted_twice() -> None:
    named = [test for block in BLOCKS for test in block.tests]
    assert len(set(named)) == len(named)
    files = {name for name in named if "::" not in name}
    assert not [name for name in named if "::" in name and name.partition("::")[0] in files]


def test_what_is_missing_or_fails_is_said() -> None:
    assert broken([BLOCK], {"B": FINE}, whole=False) == []
    few = replace(FINE, inputs=99, faults=9)
    assert broken([BLOCK], {"B": few}, whole=False) == [
        "block B: tried 99 inputs, expected 100 or more",
        "block B: tried 9 faults, expected 10 or more",
    ]
    bad = replace(FINE, failed=1, names=("tests/x.py::test_y",))
    assert broken([BLOCK], {"B": bad}, whole=False) == ["block B: failed tests/x.py::test_y"]
    assert "did not end" in broken([BLOCK], {"B": replace(FINE, ended=False)}, whole=False)[0]
    assert broken([BLOCK], {"B": FINE}, whole=True)[0] == "all blocks: tried 200 inputs, expected 14000 or more"


def test_the_table_has_sums_and_the_page_has_the_table() -> None:
    other = replace(BLOCK, letter="C", what="others")
    table = frame([BLOCK, other], {"B": FINE, "C": replace(FINE, inputs=7)})
    assert table["inputs"].tolist() == [200, 7, 207] and table["block"].tolist()[0] == "B: properties"
    text = page(table)
    assert "| B: properties" in text and "{table}" not in text and "commit" in text


def test_the_page_says_what_every_block_is() -> None:
    text = page(frame(BLOCKS, dict.fromkeys((block.letter for block in BLOCKS), FINE)))
    for block in BLOCKS:
        assert f"| {block.letter}: {block.what}" in text
        assert f"- **{block.letter}, {block.what}" in text


@pytest.mark.slow
def test_counts_come_from_the_tests(tmp_path: Path) -> None:
    file = tmp_path / "test_counting.py"
    file.write_text(COUNTING)
    found = run([str(file)])
    assert (found.tests, found.inputs, found.faults, found.failed, found.skipped) == (3, 15, 3, 0, 1)
    assert found.ended and found.names == ()


@pytest.mark.slow
def test_a_run_that_does_not_end_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "test_waits.py"
    file.write_text("import time\ndef test_waits():\n    time.sleep(60)\n")
    monkeypatch.setattr(reliability, "LIMIT_S", 5)
    assert not run([str(file)]).ended
