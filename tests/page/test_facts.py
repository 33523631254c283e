"""What is known of models: read from a CSV file, and a mistake in it is named by line and field."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from crm.leaderboard.bank.config import BankConfig
from crm.page.answers import Facts
from crm.page.api import make_api
from crm.page.facts import facts_of
from crm.page.picks import Picking
from crm.picking.pool import read_pool
from tests.page.conftest import small_bank
from tests.page.counting import counting_ranker

HEAD = "model,display,maker,licence,open_weights,usd_in,usd_out,tokens_per_s,as_of\n"


def write(folder: Path, text: str) -> BankConfig:
    (folder / "models.csv").write_text(text, encoding="utf-8")
    return BankConfig(name="folder", path=str(folder))


def test_a_file_beside_the_bank_is_found(tmp_path: Path) -> None:
    bank = write(tmp_path, HEAD + "brief,Brief 2,Acme,MIT,yes,0.1,0.4,90,2026-11-01\nwordy,,,,,,,,\n")
    known = Facts(
        display="Brief 2",
        maker="Acme",
        licence="MIT",
        open_weights=True,
        usd_in=0.1,
        usd_out=0.4,
        tokens_per_s=90.0,
        as_of=date(2026, 11, 1),
    )
    assert facts_of(None, bank) == {"brief": known, "wordy": Facts()}
    assert facts_of(str(tmp_path / "models.csv"), BankConfig()) == facts_of(None, bank)


def test_none_is_needed(tmp_path: Path) -> None:
    assert facts_of(None, BankConfig(name="folder", path=str(tmp_path))) == {} == facts_of(None, BankConfig())
    with pytest.raises(ValueError, match=r"facts='nowhere.csv': no such file; give a CSV file with the columns model"):
        facts_of("nowhere.csv", BankConfig())


@pytest.mark.parametrize(
    "text, message",
    [
        ("model,price\nx,1\n", r"models.csv:2: 'price': no such column; there are model, display"),
        ("display\nx\n", r"models.csv:2: model: missing"),
        ("model,usd_out\nx,cheap\n", r"models.csv:2: usd_out: input should be a valid number.* got 'cheap'"),
        ("model,usd_out\nx,-1\n", r"usd_out: input should be greater than or equal to 0, got '-1'"),
        ("model,usd_out\nx,inf\n", r"usd_out: input should be a finite number, got 'inf'"),
        ("model,open_weights\nx,maybe\n", r"open_weights: input should be a valid boolean"),
        ("model,as_of\nx,yesterday\n", r"as_of: input should be a valid date"),
        ("model,usd_in\nx,1\nx,2\n", r"models.csv:3: id: 'x' is already on line 2"),
    ],
)
def test_what_is_no_fact_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        facts_of(None, write(tmp_path, text))


def test_the_api_tells_them(tmp_path: Path) -> None:
    facts = facts_of(None, write(tmp_path, "model,usd_out,as_of\nbrief,0.4,2026-11-01\n"))
    ranker = counting_ranker(small_bank(), tmp_path)
    picking = Picking(ranker, read_pool())
    api = make_api(ranker, picking, judge="late", version="1", about={"facts": facts})
    told = TestClient(api).get("/api/bank").json()["facts"]
    assert told["brief"]["usd_out"] == 0.4 and told["brief"]["as_of"] == "2026-11-01"
    assert told["brief"]["open_weights"] is None
