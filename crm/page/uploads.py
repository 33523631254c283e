"""Models that people add and take away. In: a file, the name of a model, a token. Out: another bank, or why not.

A file is there while it is received and read, in a temporary folder of its own, and is removed whatever came of it.
Files that wait are bounded by number and bytes, and one is read at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, StreamingResponse

from crm.page.additions import Added, Additions, TokenError
from crm.page.answers import Asking, ModelAdded, ModelsSaid
from crm.page.bodies import AskAsked, asked, of_lines
from crm.web.bodies import described

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
FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
Take = Callable[[int], None]


class UploadsFullError(RuntimeError):
    """No more files can wait."""


class ClosedError(RuntimeError):
    """This server takes no models."""


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
    """Give ``api`` the routes of ``/api/models``. Without ``additions`` they answer 403."""
    waiting = Waiting()
    reader = ThreadPoolExecutor(1, thread_name_prefix="uploads")
    asking = threading.Lock()

    @api.exception_handler(UploadsFullError)
    async def full(_request: Request, error: Exception) -> JSONResponse:
        return _no(503, str(error), {"Retry-After": "60"})

    @api.exception_handler(TokenError)
    @api.exception_handler(ClosedError)
    async def forbidden(_request: Request, error: Exception) -> JSONResponse:
        return _no(403, str(error))

    @api.post("/api/models", response_model=ModelAdded, openapi_extra=FILE)
    async def add(request: Request, name: str = "", file: str = "") -> Any:
        """A model more for everybody; the body is a file of its responses, and ``file`` the name that it has."""
        taken = _open(additions)
        try:
            kept = _name(file)
            with waiting.place() as take, TemporaryDirectory(prefix="crm-upload-") as folder:
                path = Path(folder) / kept
                await _receive(request.stream(), path, take)
                added = await asyncio.get_running_loop().run_in_executor(reader, _add, taken, name, path)
        except ValueError as error:
            return _no(422, str(error))
        except OSError as error:
            return _no(507, f"file: it could not be kept ({error.strerror}); try again later", {"Retry-After": "600"})
        return _told(added)

    @api.delete("/api/models", response_model=ModelsSaid)
    async def remove(name: str = "", token: str = "") -> dict[str, Any]:
        """Take a model away again; ``token`` is what the answer held when it was added."""
        bank = await run_in_threadpool(_open(additions).remove, name, token)
        return {"models": list(bank.authors)}

    @api.post(
        "/api/models/ask",
        response_class=StreamingResponse,
        responses=of_lines(Asking, ModelAdded),
        openapi_extra=described(AskAsked),
    )
    async def ask(request: Request) -> StreamingResponse:
        """A model more, whose responses the server's endpoint gives: a line a portion, the last is the model's."""
        taken = _open(additions)
        given = await asked(request, AskAsked)
        return StreamingResponse(_asked(taken, given.name, asking), media_type="application/x-ndjson")


async def _asked(additions: Additions, name: str, asking: threading.Lock) -> AsyncIterator[str]:
    """Until the model is added or nobody listens any more; replies of until then are kept."""
    if not asking.acquire(blocking=False):
        yield json.dumps({"error": "the endpoint is being asked for another model; try again in a minute"}) + "\n"
        return
    steps = additions.ask(name)
    try:
        while (step := await run_in_threadpool(next, steps, None)) is not None:
            said = _told(step) if isinstance(step, Added) else dict(zip(("done", "total"), step, strict=True))
            yield json.dumps(said) + "\n"
    except ValueError as error:
        yield json.dumps({"error": str(error)}) + "\n"
    finally:
        steps.close()
        asking.release()


def _told(added: Added) -> dict[str, Any]:
    return {"model": added.model, "models": list(added.bank.authors), "token": added.token}


def _open(additions: Additions | None) -> Additions:
    if additions is None:
        raise ClosedError("additions: this server takes no models; whoever runs it can start it with additions=true")
    return additions


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


def _add(additions: Additions, name: str, path: Path) -> Added:
    """A sentence about the file does not say where on the server it lies."""
    try:
        return additions.add_file(name, path)
    except ValueError as error:
        raise ValueError(str(error).replace(f"{path.parent}{os.sep}", "")) from None


def _no(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status, headers=headers)
