"""Every notebook runs from top to bottom, in a kernel of its own, and is committed as a run leaves it, to be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(path for place in ("notebooks", "experiments") for path in (ROOT / place).rglob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_with_what_it_shows(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1)), "run it whole, then save"
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not any(output.output_type == "error" for output in outputs)
    text = path.read_text(encoding="utf-8")
    assert not any(place in text for place in ("/home/", "/root/", "/tmp/"))  # noqa: S108 - looked for, not used, "it names a folder of one machine"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    notebook: Any = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=550, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    nbformat.write(notebook, tmp_path / path.name)
    assert any(output.get("data", {}).get("image/png") for cell in notebook.cells for output in cell.get("outputs", []))
