"""Every public set: its published files, where they are present, to the last row; and bad values in any field of it,
which are refused by `RecordError`, counted, and nothing else is raised."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from crm.config import compose
from crm.data.catalogue import PUBLIC
from crm.data.load import load_data
from crm.data.public.pairs import flips
from crm.io.intake import Intake
from crm.schema import LABELS, Preference, to_json

ROOT = Path(os.environ.get("CRM_DATA_ROOT", Path(__file__).parents[3] / "shared" / "data"))
AS_PUBLISHED = {"llmbar"}
"""Sets in which the published order of the responses is kept."""


@dataclass
class Counts:
    read: int
    records: int
    dropped: int = 0
    flips: int = 0
    ties: int = 0
    with_criteria: int = 0


EXPECTED = {
    "summeval": Counts(1600, 12000, flips=3587, ties=183, with_criteria=11817),
    "dsp": Counts(661, 3908, dropped=58, flips=3908, with_criteria=3908),
    "concise_verbose": Counts(14486, 12526, dropped=1964, flips=12526, with_criteria=12526),
    "llmbar": Counts(734, 734, with_criteria=734),
}


def folder(name: str) -> Path:
    path = ROOT / str(PUBLIC[name].folder)
    if not path.is_dir():
        pytest.skip(f"no {PUBLIC[name].folder} under {ROOT}; set CRM_DATA_ROOT")
    return path


@pytest.mark.parametrize("name", PUBLIC)
def test_every_row_is_accounted_for(name: str) -> None:
    reading = Intake(strict=True)
    got = Counts(0, 0)
    ids: set[str] = set()
    first = 0
    for number, row in enumerate(PUBLIC[name].read(folder(name), reading)):
        ids.add(row.id)
        got.records += 1
        got.flips += flips(row)
        got.ties += row.winner == "tie"
        got.with_criteria += bool(row.criteria_a or row.criteria_b)
        first += row.winner == "a"
        dataset, label = row.source.split("/")
        assert dataset == name
        assert label in LABELS
        if number % 25 == 0:
            assert Preference.from_dict(json.loads(to_json(row))) == row
    got.read = reading.read
    got.dropped = sum(n for key, n in reading.counts.items() if key.startswith("dropped"))
    assert got == EXPECTED[name]
    assert len(ids) == got.records
    if name not in AS_PUBLISHED and got.ties < got.records:
        assert 0.4 < first / (got.records - got.ties) < 0.6, "which side stands as A is drawn"


def test_a_set_that_is_missing_says_how_to_fetch_it(tmp_path: Path) -> None:
    for name in PUBLIC:
        data = compose("evaluate", ["judge=length", f"data={name}", f"data.root={tmp_path}"], tmp_path).data
        sentence = rf"data={name}: there is no folder {tmp_path}/\w+; run `crm-prepare fetch={name} out={tmp_path}`"
        with pytest.raises(ValueError, match=sentence):
            load_data(data)
