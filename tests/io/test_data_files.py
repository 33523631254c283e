"""Which files of a folder hold rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from crm.io.rows import data_files, is_data_file, rows


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("[]")


def test_only_what_holds_rows_sorted(tmp_path: Path) -> None:
    make(tmp_path, "b.csv", "a.jsonl.gz", "README.md", "dataset_infos.json", "._b.csv", ".c.parquet", "deep/d.json")
    assert [file.name for file in data_files(tmp_path)] == ["a.jsonl.gz", "b.csv"]


def test_facts_about_a_dataset_do_not_hide_the_folder_of_its_data(tmp_path: Path) -> None:
    make(tmp_path, "dataset_infos.json", "data/train-0.parquet", ".cache/about.json")
    assert data_files(tmp_path) == [tmp_path / "data" / "train-0.parquet"]


def test_a_hidden_folder_may_itself_be_given(tmp_path: Path) -> None:
    make(tmp_path, ".cache/rows.json")
    assert data_files(tmp_path / ".cache") == [tmp_path / ".cache" / "rows.json"]


def test_a_folder_without_rows(tmp_path: Path) -> None:
    make(tmp_path, "dataset_info.json")
    with pytest.raises(ValueError, match="no file in this folder ends in one of"):
        data_files(tmp_path)


def test_a_compressed_file_is_read_by_either_name(tmp_path: Path) -> None:
    text = b"prompt,chosen\n" + b"why,so\n" * 30_000
    path = tmp_path / "rows.csv.zst"
    path.write_bytes(pa.compress(text, "zstd", asbytes=True))
    assert data_files(tmp_path) == [path] and is_data_file("rows.CSV.zst") and not is_data_file("rows.zst")
    read = list(rows(path))
    assert len(read) == 30_000 and read[-1] == (30_001, {"prompt": "why", "chosen": "so"})
    for damaged in (path.read_bytes()[:-20], b"no such format"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"rows.csv.zst: cannot be read to its end \(.*\); fetch the file again"):
            list(rows(path))
    path.unlink()
    with pytest.raises(ValueError, match=r"rows.csv.zst: no such file; check the path"):
        list(rows(path))
