"""How connections are kept. In: uvicorn's protocol of HTTP. Out: the same with deadlines and a bound on connections.

uvicorn waits for ever for a header or a body, and takes connections until the process has no descriptor left; it has
no option for either (`limit_concurrency` counts only requests whose header is complete).
"""

from __future__ import annotations

import asyncio
import json
import resource
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_S = 10.0
"""Seconds from the opening of a connection, or the last answer, until the header of a request has to be complete."""
KEEP_S = 60
"""uvicorn's own bound on an idle connection, above `HEADER_S`, so that this one holds.

By default both uvicorn and httpx close at 5 seconds, and a request that crosses the closing on its way is lost.
"""
BODY_S = 30.0
"""Seconds from the header until the body has to be complete."""
LARGE = 1_000_000
"""Bytes from which on a body is a file."""
UPLOAD_S = 120.0
"""The same for a file, whose header tells its length."""
READ_S = 60.0
"""Seconds that an answer may wait for somebody who does not read it."""
MAX_CONNECTIONS = 1000
"""At a time, where the process may open that many files."""
OWN_FILES = 64
"""Descriptors of the process itself: its scores, logs, libraries."""


def max_connections() -> int:
    """At most `MAX_CONNECTIONS`, and half of the descriptors that this process may have."""
    allowed = _descriptors()
    return min(MAX_CONNECTIONS, allowed // 2)


def options(proxy: str | None = None) -> dict[str, Any]:
    """What uvicorn is started with, beside address and port.

    Whoever asks from ``proxy``, an address or network, is believed to ask for the address in ``X-Forwarded-For``. By
    default uvicorn believes everybody on this machine.

    asyncio takes up to ``backlog`` connections in one turn, and a refused one is closed some three turns later: four
    times ``backlog``, the connections and `OWN_FILES` have to fit into the descriptors.
    """
    backlog = min(512, max(4, (_descriptors() // 2 - OWN_FILES) // 4))
    return {
        "http": BoundedProtocol,
        "loop": "asyncio",
        "ws": "none",
        "backlog": backlog,
        "log_level": "warning",
        "timeout_keep_alive": KEEP_S,
        "proxy_headers": proxy is not None,
        "forwarded_allow_ips": proxy or "",
    }


def _descriptors() -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if allowed == resource.RLIM_INFINITY else allowed


class BoundedProtocol(H11Protocol):
    """A connection that is closed when it is one too many, and when a header or a body is late."""

    _state: Any = None
    """Where the client was in its request when the clock was set; h11's name for it."""
    _clock: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a header, or answer 503 and close."""
        full = len(self.connections) >= max_connections()
        super().connection_made(transport)
        if full:
            self._turn_away(503, "more connections than this server can hold; try again in a minute")
        else:
            self._set_clock()

    def data_received(self, data: bytes) -> None:
        """Take what came; the clock goes on unless header or body are complete."""
        super().data_received(data)
        self._set_clock()

    def on_response_complete(self) -> None:
        """Wait for the next header. A body that is still on its way keeps its deadline."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._state = None
        self._set_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        super().connection_lost(exc)
        for clock in (self._clock, self._unread):
            if clock is not None:
                clock.cancel()

    def pause_writing(self) -> None:
        """Wait for the client to read, but not for ever."""
        super().pause_writing()
        self._unread = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _set_clock(self) -> None:
        state = self.conn.their_state
        if state is self._state:
            return
        self._state = state
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        if state is h11.IDLE:
            self._clock = self.loop.call_later(HEADER_S, self._close)
        elif state is h11.SEND_BODY:
            length = dict(self.headers).get(b"content-length", b"0")
            seconds = UPLOAD_S if length.isdigit() and int(length) >= LARGE else BODY_S
            self._clock = self.loop.call_later(seconds, self._late, seconds)

    def _late(self, seconds: float) -> None:
        if self.cycle.response_started:
            self._close()
        else:
            self._turn_away(408, f"body: not complete within {seconds:g} seconds; send it faster, or in parts")

    def _turn_away(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence})
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\nRetry-After: 60\r\n\r\n"
        )
        self.transport.write((head + body).encode("ascii"))
        self._close()

    def _close(self) -> None:
        """Once what was written has been read, or after `READ_S`."""
        self.transport.close()
        self._clock = self.loop.call_later(READ_S, self.transport.abort)
