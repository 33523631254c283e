"""Read what is known of models beside their answers, such as maker, licence and price, from a CSV file.

The file has a row a model and the columns ``model`` and any of `Facts`; an empty cell is not known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from crm.io.intake import Intake
from crm.leaderboard.bank.config import BankConfig
from crm.page.answers import Facts
from crm.schema import RecordError, short

FILE = "models.csv"
COLUMNS = tuple(Facts.model_fields)


def facts_of(path: str | None, bank: BankConfig) -> dict[str, Facts]:
    """Of the file that settings name, or of `FILE` beside a bank in a folder; none without either.

    Raises ``ValueError`` that names file, line and field for what is no fact.
    """
    beside = Path(bank.path) / FILE if bank.name == "folder" and bank.path else None
    if path is not None and not Path(path).is_file():
        raise ValueError(f"facts={path!r}: no such file; give a CSV file with the columns model, {', '.join(COLUMNS)}")
    where = Path(path) if path is not None else beside
    if where is None or not where.is_file():
        return {}
    return dict(Intake(strict=True).rows(where, _parse, key=lambda found: found[0]))


def _parse(row: dict[str, Any], _line: int) -> tuple[str, Facts]:
    for name in row:
        if name not in ("model", *COLUMNS):
            raise RecordError(short(name), f"no such column; there are model, {', '.join(COLUMNS)}")
    if not row.get("model"):
        raise RecordError("model", "missing; every row names a model of the bank")
    known = {name: value for name, value in row.items() if name != "model" and value not in ("", None)}
    try:
        return str(row["model"]), Facts.model_validate_strings(known, strict=False)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise RecordError(str(first["loc"][0]), f"{first['msg'].lower()}, got {short(first['input'])}") from None
