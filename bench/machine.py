"""Where a number was taken. Out: versions of what took part, and the names of processor and device."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

PACKAGES = ("torch", "transformers", "trl", "lightning")


def versions() -> dict[str, str]:
    """Name to version; ``absent`` for a package that is not installed."""
    found = {"python": platform.python_version(), "cpu": cpu_name()}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
        found["cuda"] = str(torch.version.cuda)
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def cpu_name() -> str:
    """The processor's model, as the system names it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
