"""Read what is known of models beside their answers, such as maker, licence and price, from a CSV file."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from crm.leaderboard.bank.config import BankConfig
from crm.page.profile import Body, sentence
from crm.schema import short

Amount = Annotated[float | None, Field(ge=0, allow_inf_nan=False)]


class Facts(Body):
    """What is known of a model on the date ``as_of``; prices are US dollars for a million tokens."""

    display: str | None = None
    maker: str | None = None
    licence: str | None = None
    open_weights: bool | None = None
    usd_in: Amount = None
    usd_out: Amount = None
    tokens_per_s: Amount = None
    as_of: date | None = None


COLUMNS = ("model", *Facts.model_fields)


def facts_of(path: str | None, bank: BankConfig) -> dict[str, Facts]:
    """By model, of the file that settings name, or of ``models.csv`` beside a bank in a folder; none without either.

    Raises ``ValueError`` that names file, line and field for a mistake.
    """
    file = Path(path or (f"{bank.path}/models.csv" if bank.name == "folder" and bank.path else ""))
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
