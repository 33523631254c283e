"""The HTTP API as it describes itself: every field of every body has words, and answers are what is described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from crm.page.answers import RankResponse
from crm.page.api import make_api
from crm.page.picks import Picking
from crm.picking.pool import read_pool
from tests.page.conftest import small_bank
from tests.page.counting import counting_ranker

PLAIN = {"name", "baseline", "model", "query", "topic", "text", "response", "baseline_response", "first", "second"}
PLAIN |= {"profile", "maker", "licence", "left", "right", "choice", "error", "models", "sentences", "judge", "seed"}
PLAIN |= {"left_text", "right_text", "high", "complete", "queries", "status", "place", "asked", "agreed", "picked"}
PLAIN |= {"bibtex", "rank_first", "rank_second", "win_rate_first", "win_rate_second", "picks", "kind", "random", "next"}
"""Fields that their names say all of, beside the words of the body that they stand in."""


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    folder = tmp_path_factory.mktemp("index")
    ranker = counting_ranker(small_bank(30), folder)
    return TestClient(make_api(ranker, Picking(ranker, read_pool()), judge="late", version="1"))


def test_every_field_is_described(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    bare = []
    for where, body in bodies(document):
        assert body.get("description"), f"{where} has no words"
        for name, field in body["properties"].items():
            if not field.get("description") and name not in PLAIN:
                bare.append(f"{where}.{name}")
    assert bare == [], "\n".join(bare)


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """All objects that are described, wherever they stand."""
    for path, routes in document["paths"].items():
        for method, route in routes.items():
            assert route["description"], f"{method} {path} has no words"
            for answer in (route.get("requestBody", {}), *route["responses"].values()):
                for content in answer.get("content", {}).values():
                    check_references(content, document)
    for name, body in document["components"]["schemas"].items():
        if name not in ("HTTPValidationError", "ValidationError"):
            yield name, body


def check_references(part: Any, document: dict[str, Any]) -> None:
    for key, value in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        if key == "$ref":
            assert value.removeprefix("#/components/schemas/") in document["components"]["schemas"], value
        check_references(value, document)


def test_every_route_names_its_request(http: TestClient) -> None:
    routes = http.get("/openapi.json").json()["paths"]
    assert {path for path, kinds in routes.items() if "post" in kinds} == {
        "/api/rank",
        "/api/compare",
        "/api/why",
        "/api/sentences",
        "/api/picks",
    }
    assert all("requestBody" in kinds["post"] for kinds in routes.values() if "post" in kinds)
    fields = routes["/api/rank"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert set(fields) == {"criteria", "dislikes", "topics", "about", "baseline", "models", "queries", "weights"}
    assert all(field["description"] for field in fields.values())


def test_answers_have_the_fields_that_are_described(http: TestClient) -> None:
    """FastAPI checks all other answers against their types while it sends them."""
    step = RankResponse.model_validate(http.post("/api/rank", json={"criteria": ["short"]}).json())
    assert step.queries == 30 and step.leaderboard[0].rank == 1
    assert set(step.leaderboard[0].model_extra or {}) == {"S", "T"}
    profile = {"criteria": ["short"]}
    for path, body in (
        ("compare", {"first": profile, "second": {}}),
        ("why", {"profile": profile, "model": "brief", "examples": True}),
        ("sentences", {"profile": profile, "model": "brief", "query_id": "q0"}),
        ("picks", {"profile": profile}),
    ):
        assert http.post(f"/api/{path}", json=body).status_code == 200, path


@pytest.mark.parametrize(
    "path, body, message",
    [
        ("why", "[1]", "body: input should be an object, got .1.; there are profile, model, examples"),
        ("why", '{"profile": {}}', "model: field required.*there are profile, model, examples"),
        ("why", '{"profile": {}, "model": 3}', "model: input should be a valid string, got 3"),
        ("why", "{", "body: expected JSON in UTF-8"),
        ("rank", "3", "profile: expected an object such as"),
    ],
)
def test_a_wrong_body_is_a_sentence(http: TestClient, path: str, body: str, message: str) -> None:
    answer = http.post(f"/api/{path}", content=body)
    said = answer.json()["error"]
    assert re.search(message, said), said
