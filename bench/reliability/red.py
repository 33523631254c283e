"""Do the blocks find what is wrong? In: faults that are put into the package. Out: a table of who found which.

The faults are those of `tests.reliability_defects`: one line of one function made wrong, in memory. Only the first is a
file: what evaluates text has to stand in the tree to be found there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

from crm.report.terminal import print_table

ROOT = Path(__file__).parents[2]
BAD_FILE, BAD_CODE = ROOT / "crm" / "seeded_fault.py", "def run(text: str) -> object:\n    return eval(text)\n"
STATIC = "tests/test_no_execution.py::test_nothing_runs_data_as_code"
MODULE = "tests.reliability_defects"


def red() -> int:
    """Put every fault in and print who finds it; 1 where nobody does, or where a test fails without a fault."""
    rows = [{"block and fault": "A: a new file evaluates text", "found by": _static()}]
    told = _seeded()
    for fault, tests in told["with the bug"].items():
        found = [test.rpartition("::")[2] for test, error in tests.items() if error]
        rows.append({"block and fault": fault, "found by": ", ".join(found) or "nobody"})
    print_table(pd.DataFrame(rows), "Faults that were put in")
    for line in told["failures"]:
        print(f"fails without a fault: {line}", file=sys.stderr)
    return 1 if told["failures"] or any(row["found by"] == "nobody" for row in rows) else 0


def _static() -> str:
    BAD_FILE.write_text(BAD_CODE, encoding="utf-8")
    try:
        found = _pytest("-m", "pytest", "-q", STATIC)
    finally:
        BAD_FILE.unlink()
    return STATIC.rpartition("::")[2] if found == 1 else "nobody"


def _seeded() -> dict[str, dict[str, dict[str, str | None]]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _pytest("-m", "tests.seeded_bugs", str(report), MODULE)
        found: dict[str, dict[str, dict[str, str | None]]] = json.loads(report.read_text(encoding="utf-8"))
    return found


def _pytest(*words: str) -> int:
    command, environment = [sys.executable, *words], os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)  # noqa: S603 - our own tests
    return ended.returncode
