"""A stage runs when something it depends on has changed, and only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from crm.dataset.prepare.stages import Stage, check_current, file_digest, read_record, run_stage


class Work:
    """A stage that copies its input in capitals and counts how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.source, self.target = folder / "in.txt", folder / "out" / "OUT.txt"
        self.source.write_text("word")
        self.runs = 0
        self.counts = {"rows": 1}

    def run(self) -> dict[str, int]:
        self.runs += 1
        self.target.parent.mkdir(exist_ok=True)
        self.target.write_text(self.source.read_text().upper())
        return self.counts

    def stage(self, **settings: object) -> Stage:
        return Stage("shout", settings, [self.source], [self.target], self.run)

    def __call__(self, **settings: object) -> bool:
        return run_stage(self.stage(**settings), self.folder / "stages")[1]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    return Work(tmp_path)


def change_settings(work: Work) -> dict[str, object]:
    return {"loud": True}


def change_input(work: Work) -> dict[str, object]:
    work.source.write_text("other")
    return {}


def lose_output(work: Work) -> dict[str, object]:
    work.target.unlink()
    return {}


def flip_output(work: Work) -> dict[str, object]:
    work.target.write_text("WORT")
    return {}


def lose_record(work: Work) -> dict[str, object]:
    (work.folder / "stages" / "shout.json").write_text("{")
    return {}


@pytest.mark.parametrize("change", [change_settings, change_input, lose_output, flip_output, lose_record])
def test_a_stage_runs_again_after_a_change_and_only_then(
    work: Work, change: Callable[[Work], dict[str, object]]
) -> None:
    assert [work(), work(), work()] == [True, False, False]
    settings = change(work)
    assert [work(**settings), work(**settings)] == [True, False]
    assert work.runs == 2
    assert work.target.read_text() == work.source.read_text().upper()


def test_other_code_is_another_stage(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    assert work()
    monkeypatch.setattr("crm.dataset.prepare.stages.code_digest", lambda: "another version")
    assert work()


def test_a_stage_with_failed_rows_runs_again(work: Work) -> None:
    work.counts = {"rows": 1, "failed:timeout": 1}
    assert [work(), work()] == [True, True]
    work.counts = {"rows": 1}
    assert [work(), work()] == [True, False]


def test_a_stage_that_breaks_off_leaves_no_record(work: Work) -> None:
    assert work()

    def broken() -> dict[str, int]:
        raise KeyboardInterrupt

    work.source.write_text("new")
    with pytest.raises(KeyboardInterrupt):
        run_stage(replace(work.stage(), run=broken), work.folder / "stages")
    assert read_record(work.folder / "stages" / "shout.json") is None
    assert work()


def test_a_missing_input_names_the_way_out(work: Work) -> None:
    work.source.unlink()
    with pytest.raises(ValueError, match=r"shout reads .*in\.txt, which is not there; run the stage before it"):
        work()


def test_the_digest_of_a_folder_sees_names_and_contents(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("same")
    same = file_digest(tmp_path / "a")
    assert same == file_digest(tmp_path / "b")
    (tmp_path / "b" / "file").write_text("sama")
    assert same != file_digest(tmp_path / "b")
    (tmp_path / "a" / "file").rename(tmp_path / "a" / "other")
    assert same != file_digest(tmp_path / "a")


def test_a_stage_that_is_left_out_must_be_what_it_would_make(work: Work) -> None:
    folder = work.folder / "stages"
    with pytest.raises(ValueError, match="shout has not been run"):
        check_current(work.stage(), folder)
    work()
    check_current(work.stage(), folder)
    for change in (change_settings, change_input, flip_output):
        settings = change(work)
        with pytest.raises(ValueError, match="shout was made of other data, settings or code; run it too"):
            check_current(work.stage(**settings), folder)
        work()
