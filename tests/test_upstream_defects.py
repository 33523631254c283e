"""Defects of code that came before ours: for each there is a test that fails as soon as we have it too."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.seeded_bugs import OF_THE_SEEDING
from tests.upstream_defects import BEFORE_US, BELOW_US, DEFECTS

ROOT = Path(__file__).resolve().parents[1]


def test_every_defect_stands_once_and_names_lines_and_tests_that_are_there() -> None:
    assert len(DEFECTS) == len(BEFORE_US) + len(BELOW_US) >= 40
    assert len({(defect.place, defect.line, defect.wrong) for defect in DEFECTS.values()}) == len(DEFECTS), (
        "no bug twice"
    )
    for name, defect in DEFECTS.items():
        module, _, _ = defect.place.partition(":")
        source = (ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert defect.line in source, f"{name}: {defect.place} has no {defect.line!r}; write the bug for what it is now"
        assert defect.tests
        for test in defect.tests:
            path, _, function = test.partition("::")
            found = rf"^def {re.escape(function.partition('[')[0])}\("
            assert re.search(found, (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), test


@pytest.fixture(scope="module")
def proof(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of the tests, as the code stands and with each bug in it; all in one process of its own."""
    report = tmp_path_factory.mktemp("seeded") / "report.json"
    words = [sys.executable, "-m", "tests.seeded_bugs", str(report)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=540)
    assert report.is_file(), done.stdout[-2000:] + done.stderr[-2000:]
    return dict(json.loads(report.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_as_the_code_stands_the_tests_pass(proof: dict[str, Any]) -> None:
    assert proof["failures"] == []
    assert proof["passed"] >= len({test for defect in DEFECTS.values() for test in defect.tests})


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
def test_a_test_fails_as_soon_as_the_defect_is_ours(name: str, proof: dict[str, Any]) -> None:
    told = proof["with the bug"][name]
    assert set(told) == set(DEFECTS[name].tests)
    for test, error in told.items():
        assert error, f"{test} passes with the bug in {DEFECTS[name].place}"
        assert not error.startswith(OF_THE_SEEDING), error
