"""300 generated requests for each route of the page's API, those that it forbids too: never an answer of 5xx.

Most of what is generated would be refused for a name that is no model, or for weights that are too many. So the
document that is generated from allows what is known of the bank alone, and what it forbids is any text. Routes that
take nothing get a parameter that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import requests
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from crm.config import compose
from crm.leaderboard.agreement import compare
from crm.page import reasons
from crm.page.run import make_app
from tests.page.conftest import AUTHORS, small_bank
from tests.page.counting import counting_ranker
from tests.running_app import running

pytestmark = pytest.mark.slow

CHECKS = [not_a_server_error, response_schema_conformance, status_code_conformance]
CASES = 300
QUERIES = 4
KNOWN: dict[str, list[Any]] = {
    "model": list(AUTHORS),
    "models": list(AUTHORS),
    "baseline": ["", *AUTHORS],
    "topics": ["S", "T"],
    "about": ["", "tea"],
    "queries": [0, 3],
    "weights": [[]],
    "bank": [""],
    "query_id": [f"q{n}" for n in range(QUERIES)],
    "ending": ["csv", "json"],  # a picture takes half a second
}
"""Values of fields, or of their items where these are texts."""
ANYTHING = {"name": "unknown", "in": "query", "schema": {"type": "string"}}
LINK = [
    {"name": name, "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}
    for name in ("criteria", "dislikes")
]


def app_of(folder: Path) -> Any:
    ranker = counting_ranker(small_bank(QUERIES), folder)
    config = compose("app", ["checkpoint=none", "requests_per_minute=1000000"], folder)
    return make_app(ranker, "late", config)


def document() -> dict[str, Any]:
    with TemporaryDirectory() as folder:
        found = TestClient(app_of(Path(folder)), base_url="http://localhost").get("/openapi.json").json()
    asked = [body for name, body in found["components"]["schemas"].items() if name.endswith("Request")]
    routes = [route for methods in found["paths"].values() for route in methods.values()]
    _name_known([asked, routes])
    found["paths"]["/api/export/{ending}"]["get"]["parameters"] += LINK
    for route in routes:
        if not route.keys() & {"parameters", "requestBody"}:
            route["parameters"] = [ANYTHING]
    return dict(found)


def _name_known(part: Any) -> None:
    for each in part.values() if isinstance(part, dict) else part:
        if isinstance(each, dict):
            fields = {each["name"]: each["schema"]} if "in" in each else each.get("properties", {})
            for name in KNOWN.keys() & fields.keys():
                (fields[name]["items"] if name in ("models", "topics") else fields[name])["enum"] = KNOWN[name]
        if isinstance(each, dict | list):
            _name_known(each)


schema = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch, running(app_of(tmp_path_factory.mktemp("page"))) as found:
        patch.setattr(reasons, "compare", partial(compare, resamples=20))  # a thousand draws take a fifth of a second
        yield found


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as made:
        yield made


@schema.parametrize()
@settings(max_examples=CASES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_breaks_the_page(case: Any, address: str, session: requests.Session) -> None:
    response = case.call(base_url=address, session=session)
    case.validate_response(response, checks=CHECKS)


def test_every_route_is_tried() -> None:
    routes = {(each.ok().method.upper(), each.ok().path) for each in schema.get_all_operations()}
    posts = {f"/api/{name}" for name in ("rank", "compare", "why", "sentences", "picks")}
    gets = {f"/api/{name}" for name in ("health", "bank", "queries", "export/{ending}")}
    assert routes == {("POST", path) for path in posts} | {("GET", path) for path in gets}
