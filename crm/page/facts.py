"""Read what is known of models beside their answers, such as maker, licence and price, from a file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from crm.io.rows import Intake
from crm.leaderboard.config import BankConfig
from crm.schema import RecordError, validated


class Facts(BaseModel, extra="forbid"):
    """What the page shows of a model; ``usd_out`` are US dollars for a million tokens of answers."""

    display: str | None = None
    maker: str | None = None
    licence: str | None = None
    released: Annotated[str | None, Field(pattern=r"^\d{4}(-\d{2})?$")] = None
    open_weights: bool | None = None
    usd_out: Annotated[float | None, Field(ge=0, allow_inf_nan=False)] = None


class _Row(Facts):
    model: str


def facts_of(path: str | None, bank: BankConfig) -> dict[str, Facts]:
    """By model, of the file that settings name, of ``models.csv`` beside a bank in a folder, or of the package.

    The package has AlpacaEval's 30 LLMs, with list prices of the month of their release.

    Raises ``ValueError`` for a file that is not there, and with ``file:line: field: why`` for a row.
    """
    known = files("crm.leaderboard.bank").joinpath(f"{bank.name}_models.csv")
    file = Path(path or (f"{bank.path}/models.csv" if bank.name == "folder" else str(known)))
    if not file.is_file():
        if path:
            columns = ", ".join(["model", *Facts.model_fields])
            raise ValueError(f"facts={path!r}: no such file; give a CSV file with the columns {columns}")
        return {}

    found: dict[str, Facts] = {}

    def read(row: dict[str, Any], _line: int) -> None:
        known = validated(_Row, {name: value for name, value in row.items() if value not in ("", None)})
        if known.model in found:
            raise RecordError("model", f"{known.model!r} is in an earlier row too")
        found[known.model] = Facts(**known.model_dump(exclude={"model"}))

    list(Intake(strict=True).rows(file, read))
    return found
