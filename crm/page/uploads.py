"""Files of responses that people send. In: the body of a request. Out: one model more, or a sentence why not.

A file is there while it is received and read, in a temporary folder of its own, and is removed whatever came of it.
Files that wait are bounded by number and bytes, and one is read at a time.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from crm.page.additions import Additions

MAX_FILE = 20 * 1024 * 1024
"""Bytes of a file as it is sent."""
MAX_WAITING_BYTES = 100 * 1024 * 1024
"""Of all files that are being received and read."""
MAX_WAITING_FILES = 16
"""Each is an open file beside its connection."""
MAX_NAME = 60
"""Characters of a file's name that are kept, its last."""
ENDINGS = (".jsonl", ".json", ".csv", ".tsv")
"""Also with ``.gz``. Parquet is not among them: it can unfold a kilobyte to gigabytes before anybody can count."""
Take = Callable[[int], None]


class UploadsFullError(RuntimeError):
    """No more files can wait."""


class Waiting:
    """How many files wait, and how many ``bytes`` they have; used by one thread, the server's."""

    def __init__(self) -> None:
        self.files = self.bytes = 0

    @contextmanager
    def place(self) -> Iterator[Take]:
        """A place for one file; what is given has to be called before bytes are kept. Raises `UploadsFullError`."""
        if self.files >= MAX_WAITING_FILES:
            raise UploadsFullError(f"{self.files} files are being added right now; try again in a minute")
        taken = 0

        def take(count: int) -> None:
            nonlocal taken
            if self.bytes + count > MAX_WAITING_BYTES:
                raise UploadsFullError(f"{self.bytes:,} bytes of files wait to be added; try again in a minute")
            self.bytes += count
            taken += count

        self.files += 1
        try:
            yield take
        finally:
            self.files -= 1
            self.bytes -= taken


def add_uploads(api: FastAPI, additions: Additions | None) -> None:
    """Give ``api`` the route ``POST /api/models?name=<of the model>&file=<name of the file>``, the file as its body.

    Without ``additions`` it answers 403.
    """
    waiting = Waiting()
    reader = ThreadPoolExecutor(1, thread_name_prefix="uploads")

    @api.post("/api/models")
    async def add(request: Request, name: str = "", file: str = "") -> JSONResponse:
        """A model more for everybody; its name and those of all models out."""
        if additions is None:
            return _no(403, "additions: this server takes no models; whoever runs it can start it with additions=true")
        try:
            kept = _name(file)
            with waiting.place() as take, TemporaryDirectory(prefix="crm-upload-") as folder:
                path = Path(folder) / kept
                await _receive(request.stream(), path, take)
                reading = asyncio.get_running_loop().run_in_executor(reader, _add, additions, name, path)
                models = await reading
        except UploadsFullError as error:
            return _no(503, str(error), {"Retry-After": "60"})
        except ValueError as error:
            return _no(422, str(error))
        except OSError as error:
            return _no(507, f"file: it could not be kept ({error.strerror}); try again later", {"Retry-After": "600"})
        return JSONResponse({"model": name.strip(), "models": models})


def _name(file: str) -> str:
    """A name for the file that has the ending of the one given, and means nothing to a file system."""
    name = re.sub(r"[^\w .-]", "_", file)[-MAX_NAME:]
    if Path(name.lower().removesuffix(".gz")).suffix not in ENDINGS:
        raise ValueError(
            f"file: {name!r} has no ending that is read here; send JSON Lines, JSON, CSV or TSV ({', '.join(ENDINGS)}, "
            "also with .gz). Parquet is read by `python bank.py`, where the server runs"
        )
    return name


async def _receive(pieces: AsyncIterator[bytes], path: Path, take: Take) -> None:
    with path.open("wb") as file:
        async for piece in pieces:
            take(len(piece))
            file.write(piece)


def _add(additions: Additions, name: str, path: Path) -> list[str]:
    """Names of all models. A sentence about the file does not say where on the server it lies."""
    try:
        return list(additions.add_file(name, path).authors)
    except ValueError as error:
        raise ValueError(str(error).replace(f"{path.parent}{os.sep}", "")) from None


def _no(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)
