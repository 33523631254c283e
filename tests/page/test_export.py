"""Files of a ranking: every number comes back, nothing is computed by a spreadsheet or run by a browser."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.export import FORMATS, as_csv, as_html, as_json, as_png, facts, table_of
from crm.page.oracle import OracleScorer
from crm.page.profile import Profile
from crm.page.ranker import Ranker

HOSTILE = "=cmd|' /C calc'!A0<script>alert(1)</script>"


@pytest.fixture
def progress(make_ranker: Any, bank: Any) -> Any:
    texts = {HOSTILE if name == "wordy" else name: answers for name, answers in bank.responses.items()}
    last = make_ranker(replace(bank, responses=texts)).rank(Profile(("<b>long</b>",)))
    return last


def test_a_topic_that_a_spreadsheet_would_compute_is_text_in_the_heading(make_ranker: Any, bank: Any) -> None:
    queries = tuple(replace(query, topic='=HYPERLINK("http://x")') for query in bank.queries)
    last = make_ranker(replace(bank, queries=queries)).rank(Profile())
    heading = as_csv(last, {}).decode("utf-8-sig").splitlines()[0]
    assert "\"'=HYPERLINK" in heading and ',"=' not in heading and ",=" not in heading


@pytest.mark.parametrize("broken", ["\r", "\n", "\t", "\r\n"])
def test_a_name_with_a_break_begins_no_cell_that_is_computed(make_ranker: Any, bank: Any, broken: str) -> None:
    name, topic = f"gpt{broken}=1+1", f"{broken}@topic"
    texts = {name if who == "wordy" else who: answers for who, answers in bank.responses.items()}
    queries = tuple(replace(query, topic=topic) for query in bank.queries)
    last = make_ranker(replace(bank, responses=texts, queries=queries)).rank(Profile())
    text = as_csv(last, {}).decode("utf-8-sig")
    assert "gpt" in text and not set("\t\r") & set(text)
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert f"gpt{broken}=1+1".replace("\r\n", "\n").replace("\r", "\n").replace("\t", " ") in cells
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "@"))]


def test_csv_and_json_hold_the_table(progress: Any) -> None:
    told = facts(progress, "words", "1")
    table = table_of(progress)
    read = pd.read_csv(io.BytesIO(as_csv(progress, told)))
    assert list(read.columns) == list(table.columns) and "T" in read and "length_controlled" in read
    assert read["win_rate"].tolist() == pytest.approx(table["win_rate"].tolist())
    assert read["model"].str.startswith("'=cmd").sum() == 1 and not read["model"].str.startswith("=").any()
    document = json.loads(as_json(progress, told))
    assert document["facts"] == told and document["profile"]["criteria"] == ["<b>long</b>"]
    assert [row["win_rate"] for row in document["leaderboard"]] == pytest.approx(table["win_rate"].tolist())
    assert {row["model"]: row["low"] for row in document["leaderboard"]}["base"] is None
    assert told["queries"] == 8 and told["models"] == 4


def test_the_picture_is_one_and_the_page_is_self_contained(progress: Any) -> None:
    told = facts(progress, "words", "1")
    assert Image.open(io.BytesIO(as_png(progress, told))).width > 400
    page = as_html(progress, told).decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "&lt;b&gt;long" in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "data:image/png;base64" in page


def test_without_a_ranking_there_is_no_file() -> None:
    empty = Ranker(OracleScorer(simulate_bank(seed=1, queries_per_topic=1).bank)).rank(Profile(("unknown words",)))
    assert empty.board is None and table_of(empty).empty
    with pytest.raises(ValueError, match="the judge has no ranking for this profile"):
        as_png(empty, {})
    assert set(FORMATS) == {"csv", "json", "png", "html"}
