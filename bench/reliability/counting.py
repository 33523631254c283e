"""A plugin of pytest. In: tests that say what they tried. Out: counts, in a file that ``CRM_RELIABILITY_OUT`` names."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

OUT = "CRM_RELIABILITY_OUT"
COUNTED = ("inputs", "faults")

_found: Counter[str] = Counter(tests=0, failed=0, skipped=0, inputs=0, faults=0)
_failed: list[str] = []


def pytest_runtest_logreport(report: Any) -> None:
    """Add up a test; with workers this runs in the process that collects their reports."""
    if report.failed and report.nodeid not in _failed:
        _failed.append(report.nodeid)
        _found["failed"] += 1
    if report.skipped:
        _found["skipped"] += 1
    if report.when != "call" or report.skipped:
        return
    _found["tests"] += 1
    for name, value in report.user_properties:
        if name in COUNTED:
            _found[name] += int(value)


def pytest_sessionfinish(session: Any) -> None:
    """Write the counts; workers have none of their own."""
    out = os.environ.get(OUT)
    if out and not hasattr(session.config, "workerinput"):
        Path(out).write_text(json.dumps(_found | {"names": _failed}), encoding="utf-8")
