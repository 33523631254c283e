"""A server of this project as a process of its own. In: its command and settings. Out: its address, while it runs.

It listens on 127.0.0.1 alone, ends with this process whatever becomes of it, and can be stopped and started again at
the same address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psutil

from bench.soak import tied
from bench.soak.children import last_line

ROOT = Path(__file__).parents[2]
COMMANDS = {"app": ROOT / "app.py", "serve": ROOT / "serve.py"}
HEALTH = {"app": "/api/health", "serve": "/health"}
START_S = 180.0


class ServerError(Exception):
    """A server that did not start: the last line that it wrote."""


class Server:
    """``name`` is one of `COMMANDS`; a context manager that starts it and ends it."""

    def __init__(self, name: str, folder: Path, *overrides: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.address, self.name = f"http://127.0.0.1:{self.port}", name
        self.log = folder / f"{name}.log"
        own = (f"port={self.port}", f"predictions={folder / 'kept'}", f"hydra.run.dir={folder / name}")
        self._command = [sys.executable, tied.__file__, sys.executable, str(COMMANDS[name]), *own, *overrides]
        self._popen: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGTERM)

    @property
    def process(self) -> psutil.Process:
        """The one that runs now, or ran last."""
        assert self._popen is not None, "start comes first"
        return psutil.Process(self._popen.pid)

    def start(self) -> None:
        """Start it and wait until it answers. Raises `ServerError`."""
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with self.log.open("ab") as log:  # a session of its own: Ctrl-C is for us, who then stop it
            self._popen = subprocess.Popen(  # noqa: S603 - our own scripts
                self._command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        ends = time.monotonic() + START_S
        while self._popen.poll() is None and time.monotonic() < ends:
            try:
                httpx.get(self.address + HEALTH[self.name]).raise_for_status()
                return
            except httpx.HTTPError:
                time.sleep(0.1)
        self.stop(signal.SIGKILL)
        raise ServerError(f"{self.name} did not start: {last_line(self.log)}")

    def stop(self, how: signal.Signals) -> None:
        """End it; one that does not within 20 seconds is killed."""
        if self._popen is None:
            return
        self._popen.send_signal(how)
        try:
            self._popen.wait(20)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
