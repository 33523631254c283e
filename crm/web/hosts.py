"""Which names a server answers to, and which sites may ask. In: an ASGI application. Out: the same, or 403.

A web site that somebody visits can let its own name point at their machine and then read what a server there answers
(DNS rebinding), and it can have their browser send requests to any address. The name that the browser was given is in
the header ``Host``, the site that asks is in ``Origin``. Programs send no ``Origin``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import ip_address

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from crm.schema import short

OWN = frozenset({"localhost", "127.0.0.1", "::1"})
"""What a machine calls itself; no other site can have these names."""
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[^\s\[\]:@/,]+))(?::(?P<port>\d+))?")
_ORIGIN = re.compile(f"(?P<scheme>https?)://{_HOST.pattern}")
_PORTS = {"http": "80", "https": "443"}


class KnownHosts:
    """``listening`` is the address that a server listens on, ``hosts`` the names that its settings allow besides.

    Without ``hosts`` a server on a loopback address answers to `OWN` names alone and any other to every name. A site
    may ask by the name and port that it was served from itself, and if its name is one of ``hosts``.
    """

    def __init__(self, app: ASGIApp, *, listening: str, hosts: Sequence[str] = ()) -> None:
        self.app = app
        self._named = frozenset(name.lower() for name in hosts)
        bounded = bool(hosts) or _is_loopback(listening)
        self._names = self._named | OWN | {listening.lower()} if bounded else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403 with a sentence that names the setting to change."""
        if scope["type"] == "http" and (sentence := self._refusal(scope)):
            await JSONResponse({"error": sentence}, 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        host = _header(scope, b"host")
        found = _HOST.fullmatch(host)
        name = _name(found)
        if self._names is not None and name not in self._names:
            return f"host: {short(host)} is no name of this server; start it with hosts=[<that name>] to allow it"
        origin = _header(scope, b"origin")
        asking = _ORIGIN.fullmatch(origin)
        if not origin or (name and _same(asking, found)) or _name(asking) in self._named:
            return ""
        return (
            f"origin: {short(origin)} is another site than {short(host)}, and other sites may not ask; start the "
            "server with hosts=[<the name of that site>] to allow it"
        )


def _header(scope: Scope, name: bytes) -> str:
    """Its value in small letters; where it comes more than once, all of them, which is no name."""
    return ", ".join(value.decode("latin-1") for key, value in scope["headers"] if key == name).strip().lower()


def _name(found: re.Match[str] | None) -> str:
    return (found["six"] or found["name"]) if found else ""


def _same(asking: re.Match[str] | None, host: re.Match[str] | None) -> bool:
    """Whether a site has the name and port of ``host``, which may leave out the port that the site's scheme implies."""
    if asking is None or host is None:
        return False
    usual = _PORTS[asking["scheme"]]
    return (_name(asking), asking["port"] or usual) == (_name(host), host["port"] or usual)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"
