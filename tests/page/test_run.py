"""What the server opens before it serves."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from crm.config import compose
from crm.page import run


def test_without_files_the_models_are_simulated_and_the_page_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose("app", ["judge=traits", "bank.queries_per_topic=2", "progress=false"], tmp_path)
    client = TestClient(run.make_app(*run.make_ranker(config), config), base_url="http://localhost")
    assert "models, questions and answers are simulated" in client.get("/api/v1/bank").json()["simulated"]
    rows = client.post("/api/v1/rank", json={"criteria": ["short answers"]}).json()["leaderboard"]
    assert rows[0]["mean_words"] < 22 < rows[-1]["mean_words"] and len(rows) == 13


def test_a_head_that_is_not_late_is_sent_to_the_leaderboard_before_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.page.run.check_judge", lambda config: None)
    monkeypatch.setattr("crm.page.run.open_judge", lambda config: pytest.fail("loaded for nothing"))
    monkeypatch.setattr("crm.model.folders.checkpoint_folder", Path)
    monkeypatch.setattr("crm.model.manifest.read_manifest", lambda folder: {"head": "scalar"})
    message = "^checkpoint=runs/a/model: head=scalar reads all .*: python leaderboard.py checkpoint=runs/a/model 'crit"
    with pytest.raises(ValueError, match=message):
        run.make_ranker(compose("app", ["checkpoint=runs/a/model"], tmp_path))


ROOT = Path(__file__).parents[2]
MADE = """#!/bin/sh
echo "$(basename $0) $*" >> asked
case "$2" in out=*) mkdir -p "${2#out=}"; exit $FETCH_STATUS;; esac
"""


def started(folder: Path, *words: str, fetch_status: int = 0) -> tuple[list[str], str]:
    """What the image's entry point runs in ``folder``, and what it says; the commands only note that they were run."""
    for name in ("crm-prepare", "crm-app"):
        (folder / name).write_text(MADE, "utf-8")
        (folder / name).chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "FETCH_STATUS": str(fetch_status)}
    found = subprocess.run([ROOT / "docker_start.sh", *words], cwd=folder, env=env, capture_output=True, text=True)
    assert found.returncode == fetch_status
    return (folder / "asked").read_text("utf-8").splitlines(), found.stderr


@pytest.mark.slow
def test_the_image_starts_the_page_on_real_llms(tmp_path: Path) -> None:
    entry = "COPY docker_start.sh /usr/local/bin/", 'ENTRYPOINT ["docker_start.sh"]'
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    assert all(line in lines for line in entry) and not any(line.startswith("CMD") for line in lines)
    (fetching, app), _ = started(tmp_path)
    assert fetching.startswith("crm-prepare fetch=alpacaeval out=fetched") and (tmp_path / "data").is_dir()
    command, *given = app.split()
    config = compose("app", given, tmp_path)
    assert command == "crm-app" and given[0] == "host=0.0.0.0" and config.judge.name == "traits"
    assert (config.bank.name, config.bank.queries, config.predictions) == ("alpacaeval", 200, ".")
    assert started(tmp_path)[0][2:] == [app], "the second time nothing is fetched"


@pytest.mark.slow
def test_the_image_says_what_to_mount_where_nothing_can_be_fetched(tmp_path: Path) -> None:
    asked, message = started(tmp_path, fetch_status=1)
    assert len(asked) == 1 and not (tmp_path / "data").exists(), "part of the files is no bank"
    assert "python prepare.py fetch=alpacaeval out=data" in message and ":/state/data:ro leaderboard" in message


@pytest.mark.slow
def test_the_image_takes_settings(tmp_path: Path) -> None:
    (app,), _ = started(tmp_path, "judge=traits", "bank=simulated")
    assert app == "crm-app host=0.0.0.0 predictions=. hydra.run.dir=run judge=traits bank=simulated"
