"""Read what is known of models beside their answers, such as maker, licence and price, from a file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from crm.io.intake import Intake
from crm.leaderboard.config import BankConfig
from crm.schema import RecordError, short, validated


class Facts(BaseModel):
    """What the page shows of a model; ``usd_out`` are US dollars for a million tokens of answers."""

    display: str | None = None
    maker: str | None = None
    licence: str | None = None
    released: Annotated[str | None, Field(pattern=r"^\d{4}(-\d{2})?$")] = None
    open_weights: bool | None = None
    usd_out: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None


COLUMNS = ("model", *Facts.model_fields)


def facts_of(path: str | None, bank: BankConfig) -> dict[str, Facts]:
    """By model, of the file that settings name, of ``models.csv`` beside a bank in a folder, or of the package.

    The package has AlpacaEval's 30 LLMs, with list prices of the month of their release.

    Raises ``ValueError`` for a file that is not there, and with ``file:line: field: why`` for a row.
    """
    known = files("crm.leaderboard.bank").joinpath(f"{bank.name}_models.csv")
    file = Path(path or (f"{bank.path}/models.csv" if bank.name == "folder" else str(known)))
    if not file.is_file():
        if path:
            raise ValueError(f"facts={path!r}: no such file; give a CSV file with the columns {', '.join(COLUMNS)}")
        return {}
    found: dict[str, Facts] = {}

    def read(row: dict[str, Any], _line: int) -> None:
        for column in row:
            if column not in COLUMNS:
                raise RecordError(short(column), f"no such column; there are {', '.join(COLUMNS)}")
        known = {name: value for name, value in row.items() if value not in ("", None)}
        model = known.pop("model", None)
        if not model or model in found:
            why = f"{model!r} is in an earlier row too" if model else "missing; every row names a model of the bank"
            raise RecordError("model", why)
        found[model] = validated(Facts, known)

    list(Intake(strict=True).rows(file, read))
    return found
