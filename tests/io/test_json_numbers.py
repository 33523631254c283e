"""JSON has no NaN: what is not known is null, wherever it stands."""

from __future__ import annotations

import json
import math
from pathlib import Path

from crm.evaluation.results import read_results, write_results
from crm.io.files import with_nulls
from crm.schema import Result


def test_unknown_numbers_are_null_at_any_depth() -> None:
    given = {"a": math.nan, "b": [1.5, math.inf, {"c": (-math.inf, 0.0)}], "d": "nan", "e": True, "f": None}
    assert with_nulls(given) == {"a": None, "b": [1.5, None, {"c": [None, 0.0]}], "d": "nan", "e": True, "f": None}
    json.dumps(with_nulls(given), allow_nan=False)


def test_results_without_limits_are_read_back(tmp_path: Path) -> None:
    one = Result("D+", "log_loss", 0.7, 1, math.nan, math.nan, math.nan)
    path = write_results(tmp_path, [one], {"judge": "coin"})
    assert '"low": null' in path.read_text(encoding="utf-8")
    _, (found,) = read_results(path)
    assert found.value == 0.7 and math.isnan(found.low) and math.isnan(found.standard_error)
