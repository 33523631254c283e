"""Read what is known of models beside their answers, such as maker, licence and price, from a CSV file."""

from __future__ import annotations

import csv
from pathlib import Path

from pydantic import ValidationError

from crm.leaderboard.bank.config import BankConfig
from crm.page.bodies import sentence
from crm.page.schemas import Facts
from crm.schema import short

FILE = "models.csv"
COLUMNS = ("model", *Facts.model_fields)


def facts_of(path: str | None, bank: BankConfig) -> dict[str, Facts]:
    """By model, of the file that settings name, or of `FILE` beside a bank in a folder; none without either.

    A row a model with any of `COLUMNS`; an empty cell is not known. Raises ``ValueError`` that names file, line and
    field for a mistake.
    """
    beside = str(Path(bank.path) / FILE) if bank.name == "folder" and bank.path else ""
    file = Path(path or beside)
    if not file.is_file():
        if path:
            raise ValueError(f"facts={path!r}: no such file; give a CSV file with the columns {', '.join(COLUMNS)}")
        return {}
    found: dict[str, Facts] = {}
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = csv.DictReader(stream)
        for column in rows.fieldnames or ():
            if column not in COLUMNS:
                raise ValueError(f"{file}:1: {short(column)}: no such column; there are {', '.join(COLUMNS)}")
        for row in rows:
            model = row.pop("model", None)
            if not model or model in found:
                why = f"{model!r} is in an earlier row too" if model else "missing; every row names a model of the bank"
                raise ValueError(f"{file}:{rows.line_num}: model: {why}")
            try:
                known = {name: value for name, value in row.items() if value not in ("", None)}
                found[model] = Facts.model_validate_strings(known, strict=False)
            except ValidationError as error:
                raise ValueError(f"{file}:{rows.line_num}: {sentence(error.errors())}") from None
    return found
