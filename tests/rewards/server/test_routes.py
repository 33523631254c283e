"""The routes of /v1 against the words that responses have, and every way in which a request can be wrong."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from crm.rewards.server.app import MAX_BODY
from crm.rewards.server.bodies import MAX_RESPONSES
from fastapi.testclient import TestClient

from tests.rewards.server.serving import LONG, OnlyCompares, WordJudge, app_of, group, log_words

LONG_TEXT = "word " * (LONG + 1)


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient]:
    with TestClient(app_of(WordJudge())) as client:
        yield client


def test_scores_are_the_judge_s_and_what_cannot_be_read_is_null_with_a_reason(http: TestClient) -> None:
    asked = [group("a b", LONG_TEXT, "nan", "c"), group("d e f", criteria=[])]
    answer = http.post("/v1/score", json={"groups": asked, "model": "words"}).json()
    assert (answer["model"], answer["digest"], answer["pointwise"]) == ("words", "length-words-2", True)
    assert answer["groups"] == [
        {
            "rewards": [log_words("a b"), None, None, log_words("c")],
            "reasons": [None, "too_long", "no_verdict", None],
        },
        {"rewards": [log_words("d e f")], "reasons": [None]},
    ]


def test_a_criterion_of_nothing_but_white_space_is_refused_whatever_white_space_it_is(http: TestClient) -> None:
    blanks = [one for one in map(chr, range(0xD800)) if not one.strip()]
    assert len(blanks) > 20
    for blank in blanks:
        answer = http.post("/v1/score", json={"groups": [group("a", criteria=[blank])]})
        assert answer.status_code == 422 and "criteria" in answer.json()["error"], hex(ord(blank))


def test_a_response_may_have_several_turns(http: TestClient) -> None:
    talk = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    answer = http.post("/v1/score", json={"groups": [group() | {"responses": [talk, "c d e"]}]}).json()
    assert answer["groups"][0]["rewards"] == [math.log(3), log_words("c d e")]


def test_comparisons_are_log_odds_in_both_orders(http: TestClient) -> None:
    pair = {key: value for key, value in group().items() if key != "responses"} | {"first": "a b c", "second": "a"}
    right = log_words("a b c") - log_words("a")
    for client, shift in ((http, 0.0), (TestClient(app_of(OnlyCompares())), 0.3)):
        (said,) = client.post("/v1/compare", json={"pairs": [pair]}).json()["pairs"]
        assert (said["logit"], said["reason"]) == (pytest.approx(right), None)
        assert said["probability"] == pytest.approx(1 / (1 + math.exp(-right)))
        assert (said["shown_first"], said["shown_second"]) == pytest.approx((right + shift, right - shift))
    (said,) = http.post("/v1/compare", json={"pairs": [pair | {"first": LONG_TEXT}]}).json()["pairs"]
    assert said == dict.fromkeys(("logit", "probability", "shown_first", "shown_second")) | {"reason": "too_long"}


def test_a_ranking_has_the_best_first_and_equal_rewards_in_one_rank(http: TestClient) -> None:
    answer = http.post("/v1/rank", json=group("a", LONG_TEXT, "a b", "c", "")).json()
    places = [(row["rank"], row["response"]) for row in answer["ranking"]]
    assert places == [(1, 2), (2, 0), (2, 3), (4, 4)]
    assert answer["unread"] == [{"response": 1, "reason": "too_long"}]


def test_a_judge_that_only_compares_gives_means_or_compares_with_an_anchor() -> None:
    with TestClient(app_of(OnlyCompares())) as http:
        asked = [group("a", "a b c"), group("a", anchor="a b c"), group("a")]
        answer = http.post("/v1/score", json={"groups": asked}).json()
        gap = log_words("a") - log_words("a b c")
        assert answer["pointwise"] is False
        assert [row["rewards"] for row in answer["groups"]] == [
            pytest.approx([gap, -gap]),
            pytest.approx([gap]),
            [None],
        ]
        assert answer["groups"][2]["reasons"] == ["alone"]
        many = http.post("/v1/score", json={"groups": [group(*["a"] * 80)]})
        assert many.status_code == 422 and "80" not in many.text and "6,320 readings" in many.json()["error"]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("score", b"", "body: expected JSON in UTF-8"),
        ("score", b"\xff{}", "body: expected JSON in UTF-8"),
        ("score", b"[" * 100_000, "body: expected JSON in UTF-8"),
        ("score", b"[]", "body: input should be an object, got []; there are model, groups"),
        ("score", {"groups": []}, "groups: list should have at least 1 item"),
        (
            "score",
            {"groups": [group("a")], "temperature": 1},
            "temperature: extra inputs are not permitted, got 1; ",
        ),
        ("score", {"groups": [group()]}, "groups.0.responses: list should have at least 1 item"),
        ("score", {"groups": [group("a", criteria=[" "])]}, "groups.0.criteria.0: string should match pattern"),
        (
            "score",
            {"groups": [group("a", criteria=["x"] * 65)]},
            "groups.0.criteria: list should have at most 64",
        ),
        ("score", {"groups": [group("a") | {"messages": []}]}, "groups.0.messages: list should have at least 1 item"),
        ("score", {"groups": [group("a") | {"messages": [{"role": "tool", "content": ""}]}]}, "messages.0.role: input"),
        ("score", {"groups": [group(*["a"] * MAX_RESPONSES)] * 2}, "groups: 2,048 responses, at most 1,024 are read"),
        ("score", b'{"groups": [{"messages": [{"role": "user", "content": "\\ud800"}]}]}', "body: expected JSON"),
        ("score", {"groups": [group("a" * 200_001)]}, "at most 200000 characters"),
        ("rank", {"responses": ["a"]}, "messages: field required"),
        ("compare", {"pairs": [{"messages": [], "first": 1}]}, "pairs.0.messages: list should have at least 1 item"),
    ],
)
def test_a_wrong_body_is_422_with_a_sentence(http: TestClient, path: str, body: Any, said: str) -> None:
    given = {"content": body} if isinstance(body, bytes) else {"json": body}
    answer = http.post(f"/v1/{path}", **given)
    assert answer.status_code == 422 and set(answer.json()) == {"error"}
    assert said in answer.json()["error"]


def test_other_mistakes_have_their_status_and_a_sentence(http: TestClient) -> None:
    for answer, status, said in (
        (http.post("/v1/score", json={"groups": [group("a")], "model": "gpt"}), 404, "'gpt' is not served here"),
        (http.get("/nothing"), 404, "Not Found"),
        (http.get("/v1/score"), 405, "Method Not Allowed"),
        (http.post("/v1/score", content=b"x" * (MAX_BODY + 1)), 413, "body: larger than 4,000,000 bytes"),
        (
            http.post("/v1/score", json={"groups": [group("break")]}),
            500,
            "the judge could not read this (RuntimeError)",
        ),
    ):
        assert answer.status_code == status and said in answer.json()["error"], answer.text
        assert answer.headers["X-Model-Digest"] == "length-words-2"


def test_a_key_is_wanted_of_everything_but_health() -> None:
    with TestClient(app_of(WordJudge(), key="hush")) as http:
        assert http.get("/health").status_code == 200
        for header in (
            {},
            {"Authorization": "Bearer hus"},
            {"Authorization": "hush"},
            {"Authorization": b"Bearer \xff"},
        ):
            for path in ("/v1/models", "/metrics", "/openapi.json"):
                answer = http.get(path, headers=header)
                assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert http.post("/v1/score", json={"groups": [group("a")]}, headers=header).status_code == 401
        assert http.get("/v1/models", headers={"Authorization": "Bearer hush"}).json()["data"] == [
            {"id": "words", "object": "model", "owned_by": "crm", "digest": "length-words-2", "pointwise": True}
        ]


def test_metrics_count_requests_and_rows() -> None:
    with TestClient(app_of(WordJudge())) as http:
        http.post("/v1/score", json={"groups": [group("a", "b", "c")]})
        http.post("/v1/score", json={})
        text = http.get("/metrics").text
    for line in (
        'crm_requests_total{route="/v1/score",status="200"} 1.0',
        'crm_requests_total{route="/v1/score",status="422"} 1.0',
        "crm_batch_rows_sum 3.0",
        "crm_waiting_rows 0.0",
    ):
        assert line in text.splitlines()
