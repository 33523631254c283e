"""One line of the code made wrong for a moment. In: defects with their tests. Out: which tests notice.

    python -m tests.seeded_bugs report.json [module]

The defects are the ``DEFECTS`` of a module, by default those of `tests.upstream_defects`.
Each test is run as the code stands, then with the bug in it, in one process. What is replaced is the code of a function
that is there already, so that whoever imported it before gets the bug too.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from tests.upstream_defects import Defect

OF_THE_SEEDING = ("SeedingError", "NameError", "ImportError", "SyntaxError", "ModuleNotFoundError", "UnboundLocalError")
"""Errors of a bug that does not even run: a test that fails by one of them has noticed nothing."""


class SeedingError(ValueError):
    """The line is not there: the code has changed, and the bug is to be written for what it is now."""


class Seeding:
    """A plugin of pytest: it runs what was collected as the code stands, then for each defect until a test fails.

    ``passed`` and ``failures`` are of the first; ``told`` has the first failure of each test of a defect, or None.
    """

    def __init__(self, defects: Mapping[str, Defect]) -> None:
        self._defects = defects
        self._errors: list[str] = []
        self.passed = 0
        self.failures: list[str] = []
        self.told: dict[str, dict[str, str | None]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Instead of pytest's own loop; nothing is left set up between two runs of a test."""
        for item in session.items:
            found = self._run(item)
            self.passed += found is None
            self.failures += [f"{item.nodeid}: {found}"] if found else []
        for name, defect in self._defects.items():
            try:
                with seeded(defect):
                    self.told[name] = {test: self._first_failure(session, test) for test in defect.tests}
            except SeedingError as error:
                self.told[name] = dict.fromkeys(defect.tests, f"SeedingError: {error}")
        return True

    def _first_failure(self, session: pytest.Session, test: str) -> str | None:
        own = (item for item in session.items if item.nodeid == test or item.nodeid.startswith(f"{test}["))
        return next((error for item in own if (error := self._run(item))), None)

    def _run(self, item: pytest.Item) -> str | None:
        """What a test failed with, if it did."""
        self._errors = []
        item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._errors[0] if self._errors else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A failure in any phase is one."""
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._errors.append(" ".join(str(crash.message if crash else report.longrepr).split())[:200])


def function_of(place: str) -> FunctionType:
    """The function behind ``module:Class.method``, whatever it is wrapped in."""
    module, _, name = place.partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = inspect.unwrap(found.fget if isinstance(found, property) else getattr(found, "__func__", found))
    assert isinstance(found, FunctionType), place
    return found


def wrong_code(defect: Defect) -> CodeType:
    """The function's code with ``wrong`` for ``line``. Raises `SeedingError` where the line is not there once."""
    function = function_of(defect.place)
    lines, first = inspect.getsourcelines(function)
    own = "".join(lines)
    if own.count(defect.line) != 1:
        raise SeedingError(
            f"{defect.place}: {defect.line!r} stands there {own.count(defect.line)} times, expected once"
        )
    path = Path(inspect.getfile(function))
    before = path.read_text(encoding="utf-8").splitlines(keepends=True)[: first - 1]
    after = path.read_text(encoding="utf-8").splitlines(keepends=True)[first - 1 + len(lines) :]
    whole = compile("".join([*before, own.replace(defect.line, defect.wrong), *after]), str(path), "exec")
    (code,) = (code for code in _inside(whole) if code.co_qualname == function.__qualname__)
    return code


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


@contextmanager
def seeded(defect: Defect) -> Iterator[None]:
    """The bug is in the code until the end."""
    function = function_of(defect.place)
    right, function.__code__ = function.__code__, wrong_code(defect)
    try:
        yield
    finally:
        function.__code__ = right


def main(report: Path, module: str = "tests.upstream_defects") -> None:
    """Write how many tests pass as the code stands, which fail, and what they say to each defect."""
    defects: Mapping[str, Defect] = import_module(module).DEFECTS
    seeding = Seeding(defects)
    tests = sorted({test for defect in defects.values() for test in defect.tests})
    words = ["--quiet", "--no-header", "--tb=line", "-p", "no:cacheprovider", "--basetemp", str(report.parent / "t")]
    pytest.main([*words, *tests], plugins=[seeding])
    told = {"passed": seeding.passed, "failures": seeding.failures, "with the bug": seeding.told}
    report.write_text(json.dumps(told, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
