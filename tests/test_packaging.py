import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PACKAGED = ("*.py", "*.csv", "*.pyi", "*.j2", "*.yaml", "*.html", "*.css", "*.js", "*.safetensors", "py.typed")
PYTHONS = ("3.11", "3.12", "3.13")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in a wheel, built without a network from a copy, so that the checkout stays clean."""
    source = tmp_path_factory.mktemp("source")
    for name in ("crm", "conf"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(source / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_the_wheel_holds_the_whole_package_its_configuration_and_nothing_else(wheel: set[str]) -> None:
    def files(folder: Path, pattern: str) -> set[Path]:
        return {path.relative_to(ROOT) for path in folder.rglob(pattern)}

    code = set().union(*(files(ROOT / "crm", pattern) for pattern in PACKAGED))
    configuration = files(ROOT / "conf", "*.yaml")
    assert configuration
    expected = {path.as_posix() for path in code} | {f"crm/{path.as_posix()}" for path in configuration}
    assert {name for name in wheel if ".dist-info/" not in name} == expected
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


@pytest.mark.parametrize("python", PYTHONS)
def test_every_dependency_is_pinned_to_an_allowed_version_on_every_python(project: dict[str, Any], python: str) -> None:
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    pins: dict[str, str] = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pin = Requirement(line)
        if pin.marker is None or pin.marker.evaluate(environment):
            assert canonicalize_name(pin.name) not in pins, f"{pin.name} is pinned twice on {python}"
            match = re.fullmatch(r"==([^*]+)", str(pin.specifier))
            assert match, f"{line} is not an exact version"
            pins[canonicalize_name(pin.name)] = match[1]
    extras = project["project"]["optional-dependencies"]
    for text in [*project["project"]["dependencies"], *(text for extra in extras.values() for text in extra)]:
        wanted = Requirement(text)
        version = pins.get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} has no pin on {python}"
        assert wanted.specifier.contains(version), f"{text} refuses the pin {version} on {python}"
