"""Who asks, behind a proxy and without one: the limit of requests counts the address that is true."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from crm.page.guard import Guard
from tests.running_app import running

MOST = 3
FORGED = [
    *[{"X-Forwarded-For": f"6.6.6.{number}"} for number in range(8)],
    *[{"X-Forwarded-For": f"6.6.7.{number}, 7.7.7.7"} for number in range(4)],
    *[{"Forwarded": f"for=6.6.8.{number}"} for number in range(4)],
    *[{"X-Real-IP": f"6.6.9.{number}"} for number in range(4)],
]


def statuses(proxy: str | None, headers: list[dict[str, str]]) -> list[int]:
    api = FastAPI()
    api.get("/api/any")(lambda: "")
    with (
        running(Guard(api, per_minute=MOST), proxy=proxy) as address,
        httpx.Client(base_url=address) as http,
    ):
        return [http.get("/api/any", headers=each).status_code for each in headers]


@pytest.mark.parametrize("proxy", [None, "10.0.0.1", "10.0.0.0/8"])
def test_nobody_passes_the_limit_by_a_forged_header(proxy: str | None) -> None:
    """Without a proxy, and on this machine beside one that is elsewhere."""
    assert statuses(proxy, FORGED) == [200] * MOST + [429] * (len(FORGED) - MOST)


def test_behind_a_proxy_each_address_has_its_own_limit() -> None:
    """A proxy puts the address that it sees last; what came before it is from whoever asks."""
    asked = [{"X-Forwarded-For": f"6.6.6.{number}, 9.9.9.{number // (MOST + 1)}"} for number in range(4 * (MOST + 1))]
    assert statuses("127.0.0.1", asked) == ([200] * MOST + [429]) * 4
