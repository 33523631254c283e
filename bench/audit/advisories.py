"""``python -m bench.audit.advisories``: known weaknesses of the pinned packages, by pip-audit. In: ``constraints.txt``.

Out: a line for each weakness, and an exit code: 0 none is known, 1 there are some, 2 nothing can be said. pip-audit
calls a package that its database cannot tell of "skipped", and a run of skipped packages free of weaknesses. So a
release that everybody knows to be weak is asked for first: where the database knows nothing of it, no more is asked.
Further arguments go to pip-audit, such as ``--vulnerability-service osv``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PINS = Path(__file__).resolve().parents[2] / "constraints.txt"
KNOWN_TO_BE_WEAK = "jinja2==2.4.1"
"""Its sandbox can be left (CVE-2016-10745, CVE-2019-10906)."""
OPTIONS = ("--disable-pip", "--no-deps", "--progress-spinner=off", "--desc=off", "--format=json")
NONE, SOME, UNKNOWN = 0, 1, 2
Packages = list[dict[str, Any]]
Ask = Callable[[Path], Packages]
"""From a file of pinned requirements to what pip-audit says of each."""


class SilentError(RuntimeError):
    """The database gave no answer."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: arguments of pip-audit."""
    more = list(sys.argv[1:] if arguments is None else arguments)
    return audit(lambda pins: ask_pip_audit(pins, more))


def audit(ask: Ask) -> int:
    """Print what is known of all pins; the exit code."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            canary = Path(folder) / "canary.txt"
            canary.write_text(KNOWN_TO_BE_WEAK + "\n", encoding="utf-8")
            if not any(package.get("vulns") for package in ask(canary)):
                raise SilentError(f"it knows nothing of {KNOWN_TO_BE_WEAK}, which is known to be weak")
        packages = ask(PINS)
    except SilentError as error:
        return _told(UNKNOWN, f"NOT AUDITED: the database of advisories cannot be had here: {error}")
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    found = [(package, weakness) for package in packages for weakness in package.get("vulns", ())]
    for package, weakness in found:
        mended = ", ".join(weakness["fix_versions"]) or "no version"
        print(f"{package['name']} {package['version']}: {weakness['id']}, mended in {mended}")
    if found:
        return _told(SOME, f"{len(found)} known weaknesses; take a version without them")
    if skipped:
        return _told(UNKNOWN, f"NOT AUDITED: nothing can be said of {', '.join(skipped)}")
    return _told(NONE, f"no known weakness in {len(packages)} pinned packages")


def ask_pip_audit(pins: Path, more: Sequence[str]) -> Packages:
    """Run pip-audit, which has to be installed beside this interpreter. Raises `SilentError`."""
    command = [sys.executable, "-m", "pip_audit", *OPTIONS, "--requirement", str(pins), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words, no shell
    try:
        packages: Packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise SilentError((done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1][:300]) from None
    return packages


def _told(code: int, sentence: str) -> int:
    print(f"advisories: {sentence}", file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main())
