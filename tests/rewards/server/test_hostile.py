"""300 generated requests for each route of the OpenAPI document, those that it forbids too: never an answer of 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from tests.rewards.server.serving import WordJudge, app_of, serve

pytestmark = pytest.mark.slow

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]


ANYTHING = {"name": "unknown", "in": "query", "schema": {"type": "string"}}


def document() -> dict[str, Any]:
    """Routes that take nothing get a parameter that they do not know."""
    found = TestClient(app_of(WordJudge())).get("/openapi.json").json()
    for route in (route for methods in found["paths"].values() for route in methods.values()):
        if "requestBody" not in route:
            route["parameters"] = [ANYTHING]
    return dict(found)


schema = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve(WordJudge()) as found:
        yield found


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


@schema.parametrize()
@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_server(case: Any, address: str, session: requests.Session) -> None:
    response = case.call(base_url=address, session=session)
    case.validate_response(response, checks=CHECKS)


def test_every_route_is_tried() -> None:
    paths = {operation.ok().path for operation in schema.get_all_operations()}
    assert paths == {
        *("/health", "/metrics", "/v1/models", "/v1/score", "/v1/compare", "/v1/rank"),
        *("/get_reward", "/classify", "/pooling", "/score"),
    }
