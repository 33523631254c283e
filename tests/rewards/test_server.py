"""Rewards against single comparisons, and their HTTP servers: every route by hand, mistakes, many clients at once."""

import json
import math
import runpy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import httpx
import pytest
import torch
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from crm.judges.crm_judge import CrmJudge, open_checkpoint
from crm.judges.judge import CoinJudge, LengthJudge
from crm.model.export import export_model
from crm.rewards.scoring import Group, Pair, Rewards
from crm.web import BodyLimit, KnownHosts, bound
from tests.conftest import rounding, say
from tests.model.helpers import stock_score
from tests.rewards.serving import LONG, OnlyCompares, WordJudge, app_of, group, log_words, serve
from tests.test_docs import DOCS, example

LONG_TEXT = "word " * (LONG + 1)
PAGE = DOCS["reward_server.md"]


@pytest.fixture(scope="module")
def http() -> Iterator[TestClient]:
    with TestClient(app_of(WordJudge()), raise_server_exceptions=False) as client:
        yield client


def test_scores_have_null_and_a_reason_where_nothing_could_be_read(http: TestClient) -> None:
    talk = [{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}]
    asked = [group("a b", LONG_TEXT, "nan", "c"), group("d e f", criteria=["x", "y"]) | {"responses": [talk]}]
    answer = http.post("/v1/score", json={"groups": asked, "model": "words"}).json()
    assert answer == {
        "model": "words",
        "digest": "length-words-2",
        "pointwise": True,
        "groups": [
            {
                "rewards": [log_words("a b"), None, None, log_words("c")],
                "reasons": [None, "too_long", "no_verdict", None],
            },
            {"rewards": [math.log(3)], "reasons": [None]},
        ],
    }


def test_comparisons_are_log_odds_in_both_orders(http: TestClient) -> None:
    pair = {key: value for key, value in group().items() if key != "responses"} | {"first": "a b c", "second": "a"}
    gap = log_words("a b c") - log_words("a")
    with TestClient(app_of(OnlyCompares())) as compares:
        for client, shift in ((http, 0.0), (compares, 0.3)):
            (found,) = client.post("/v1/compare", json={"pairs": [pair]}).json()["pairs"]
            assert (found["logit"], found["reason"]) == (pytest.approx(gap), None)
            assert found["probability"] == pytest.approx(1 / (1 + math.exp(-gap)))
            assert (found["shown_first"], found["shown_second"]) == pytest.approx((gap + shift, gap - shift))
    (found,) = http.post("/v1/compare", json={"pairs": [pair | {"first": LONG_TEXT}]}).json()["pairs"]
    assert found == dict.fromkeys(("logit", "probability", "shown_first", "shown_second")) | {"reason": "too_long"}


def test_a_judge_that_only_compares_gives_means() -> None:
    with TestClient(app_of(OnlyCompares())) as http:
        asked = [group("a", "a b c"), group("a")]
        answer = http.post("/v1/score", json={"groups": asked}).json()
        gap = log_words("a") - log_words("a b c")
        found = [row["rewards"] for row in answer["groups"]]
        assert found == [pytest.approx([gap, -gap]), [None]]
        assert (answer["pointwise"], answer["groups"][1]["reasons"]) == (False, ["alone"])
        many = http.post("/v1/score", json={"groups": [group(*["a"] * 80)]})
        assert many.status_code == 422 and "6,320 readings, at most 2,000" in many.json()["detail"]
        sample = {"query": ["Why?a"], "prompts": ["Why?"], "labels": ['{"criteria": [], "prompt": "Why?"}']}
        assert "use /v1/compare" in http.post("/get_reward", json=sample).json()["detail"]


def sample(**label: Any) -> dict[str, Any]:
    prompt = "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n"
    return {"query": [f"{prompt}one two<|im_end|>\n"], "prompts": [prompt], "labels": [json.dumps(label)], "step": 1}


def test_openrlhf_gets_rewards_and_their_sigmoids(http: TestClient) -> None:
    answer = http.post("/get_reward", json=sample(criteria=["likes words"], prompt="Why?")).json()
    assert answer == {
        "rewards": [math.log(3)],
        "scores": [pytest.approx(0.75)],
        "extra_logs": {"reward": [math.log(3)]},
    }
    for label, why in (
        ({"criteria": ["x"]}, "label[0]: has no 'prompt'; add it to the data set"),
        ({"prompt": "Why?"}, "label[0]: has no 'criteria'; add it"),
    ):
        answer = http.post("/get_reward", json=sample(**label))
        assert answer.status_code == 422 and answer.json()["detail"].startswith(why)


def test_the_numbers_are_those_of_the_folder(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    export_model(make_model("scalar"), tokenizer, tmp_path, {"max_length": 2048, "seed": 1})
    turns = [
        {"role": "system", "content": "This user cares about:\n- Likes rain\n- Short"},
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "Because of the air."},
    ]
    expected = stock_score(tmp_path, turns)
    with TestClient(app_of(open_checkpoint(tmp_path)[0])) as http:
        for criteria in (["Likes rain", "Short"], "Likes rain; Short"):
            answer = http.post("/v1/score", json={"groups": [group("Because of the air.", criteria=criteria)]}).json()
            assert answer["groups"][0]["rewards"] == [pytest.approx(expected, rel=1e-4)]


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        ("score", b"{", "body: expected JSON in UTF-8"),
        ("score", {"groups": [group("a"), group("a", criteria=["x", " "])]}, "groups[1].criteria[1]: "),
        ("score", {"groups": [{"responses": ["a"]}]}, "groups[0].messages: missing"),
        ("score", {"groups": [group("a", n=1)]}, "groups[0].n: unknown field"),
        (
            "score",
            b'{"groups": [{"messages": [{"role": "user", "content": "\\ud800"}], "responses": ["a"]}]}',
            "groups[0].messages[0].content: expected a valid string",
        ),
    ],
)
def test_a_wrong_body_names_the_field(http: TestClient, path: str, body: Any, why: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body)
    answer = http.post(f"/v1/{path}", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422 and answer.json()["detail"].startswith(why), answer.text


def test_other_mistakes_have_their_status_and_a_sentence(http: TestClient) -> None:
    other = http.post("/v1/score", json={"groups": [group("a")], "model": "gpt"})
    broken = http.post("/v1/score", json={"groups": [group("break")]})
    assert (other.status_code, broken.status_code) == (404, 500)
    assert "'gpt' is not served here" in other.json()["detail"]
    absent = http.post("/v1/embeddings", json={})
    assert absent.status_code == 404 and "/v1/score, /v1/compare, /get_reward" in absent.json()["detail"]
    assert "the judge could not read this (RuntimeError)" in broken.json()["detail"]
    assert http.post("/v1/score", json={"groups": [group("a")]}).status_code == 200, "it goes on"


def test_a_key_is_required_of_everything_but_health_and_descriptions() -> None:
    with TestClient(app_of(WordJudge(), key="hush")) as http:
        assert [http.get(path).status_code for path in ("/docs", "/openapi.json")] == [200, 200]
        assert http.get("/health").json() == {
            "status": "ok",
            "model": "words",
            "digest": "length-words-2",
            "pointwise": True,
            "waiting": 0,
        }
        for header in ({}, {"Authorization": "Bearer hus"}, {"Authorization": "hush"}):
            for path in ("/v1/score", "/v1/compare", "/get_reward"):
                answer = http.post(path, json={}, headers=header)
                assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        body, right = {"groups": [group("a")]}, {"Authorization": "Bearer hush"}
        assert http.post("/v1/score", json=body, headers=right).status_code == 200


def test_clients_at_once_are_read_together_and_get_their_own_rewards() -> None:
    judge = WordJudge(pause=0.05)
    with serve(judge, queue_rows=40) as address, httpx.Client(base_url=address, timeout=30) as http:

        def ask(number: int) -> Any:
            texts = [f"nonce{number} " * (number + 1), f"nonce{number}"]
            answer = http.post("/v1/score", json={"groups": [group(*texts)]})
            return answer.json()["groups"][0]["rewards"], [log_words(text) for text in texts]

        with ThreadPoolExecutor(12) as pool:
            for given, expected in pool.map(ask, range(12)):
                assert given == pytest.approx(expected)
            assert len([sides for sides in judge.__dict__["asked"] if sides]) < 12
            judge.__dict__["pause"] = 0.5
            bodies = [{"groups": [group(*["a"] * 30)]}] * 3
            answers = list(pool.map(lambda body: http.post("/v1/score", json=body), bodies))
    codes = [answer.status_code for answer in answers]
    assert codes.count(200) >= 1 and codes.count(503) >= 1
    assert {answer.headers.get("Retry-After") for answer in answers if answer.status_code == 503} == {"1"}


def test_the_page_is_true(tmp_path: Path, capsys: Any) -> None:
    script = tmp_path / "ask.py"
    with serve(LengthJudge()) as address:
        script.write_text(example(PAGE, "example: ask").replace("http://127.0.0.1:8000", address), encoding="utf-8")
        runpy.run_path(str(script))
    assert capsys.readouterr().out.strip() == example(PAGE, "output: ask")


def test_docs_describe_every_field() -> None:
    http = TestClient(app_of(LengthJudge()))
    document = http.get("/openapi.json").json()
    assert all(f"{path}`" in PAGE for path in document["paths"]) and http.get("/docs").status_code == 200
    schemas = document["components"]["schemas"]
    ours = [kind for name, kind in schemas.items() if name not in ("Mistake", "Message")]
    fields = [field for kind in ours for field in kind["properties"].values()]
    assert len(fields) > 12 and all(field.get("description") for field in fields)
    assert set(schemas["GroupBody"]["properties"]) == {"criteria", "messages", "responses"}
    assert schemas["GroupBody"]["properties"]["responses"]["items"]["anyOf"][0]["type"] == "string"
    wrong = document["paths"]["/v1/score"]["post"]["responses"]["422"]["content"]["application/json"]["schema"]
    assert wrong == {"$ref": "#/components/schemas/Mistake"}, "as it is answered"


LOCAL, OPEN, NAMED = ("127.0.0.1", ()), ("192.168.1.7", ()), ("192.168.1.7", ("Board.example.org", "2001:db8::1"))
HOSTS = [
    *((LOCAL, host, 200) for host in ("LocalHost:7860", "[::1]:7860", "127.0.0.1")),
    *((LOCAL, host, 400) for host in ("evil.example:7860", "127.0.0.1.evil.example", "", "[::2]")),
    *((OPEN, host, 200) for host in ("anything.example", "")),
    *((NAMED, host, 200) for host in ("board.example.org:443", "[2001:db8::1]:80", "localhost:7860")),
    *((NAMED, host, 400) for host in ("evil.example", "")),
]


def api() -> FastAPI:
    made = FastAPI()

    @made.post("/{path}")
    async def size(request: Request, path: str) -> int:
        return len(await request.body())

    made.get("/api/any")(lambda: "")
    return made


@pytest.mark.parametrize(("server", "host", "status"), HOSTS)
def test_which_names_are_answered(server: tuple[str, tuple[str, ...]], host: str, status: int) -> None:
    app = KnownHosts(api(), listening=server[0], hosts=server[1])
    assert TestClient(app).get("/api/any", headers={"Host": host}).status_code == status


def test_a_body_is_limited_with_and_without_a_length() -> None:
    client = TestClient(BodyLimit(api(), 10))

    def pieces(count: int) -> Iterator[bytes]:
        yield from [b"x" * 5] * count

    assert client.post("/any", content=b"x" * 10).json() == 10 == client.post("/any", content=pieces(2)).json()
    for answer in (client.post("/any", content=b"x" * 11), client.post("/any", content=pieces(3))):
        assert answer.status_code == 413 and "body: larger than 10 bytes" in answer.text


def test_an_address_that_cannot_be_used() -> None:
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"host=127.0.0.1 port={port}: cannot be used .*in use.*take another"):
            bound("127.0.0.1", port)


PROMPT = say("user: Why is the sky blue?")
ANSWERS = tuple(say(f"assistant: {'word ' * count}") for count in (3, 1, 8, 5, 2))
GROUP = Group(("likes words",), PROMPT, ANSWERS)


def log_words_at(place: int) -> float:
    return math.log(1 + len(ANSWERS[place][0].content.split()))


def test_a_judge_that_only_compares_gives_the_mean_over_the_group_in_both_orders() -> None:
    for judge in (OnlyCompares(), CoinJudge(7)):
        found = Rewards(judge).of_groups([GROUP])[0]
        asked = [Pair(GROUP, a, b) for a, b in combinations(range(5), 2)]
        logits = dict(zip([(pair.first, pair.second) for pair in asked], Rewards(judge).of_pairs(asked), strict=True))
        for place, reward in enumerate(found):
            own = [
                sign * (logits[key] or 0) for key in logits for sign, at in ((1, key[0]), (-1, key[1])) if at == place
            ]
            assert reward == pytest.approx(fmean(own))
    lengths = Rewards(OnlyCompares(place=5.0)).of_groups([GROUP])[0]
    mean = fmean(map(log_words_at, range(5)))
    assert lengths == pytest.approx([5 / 4 * (log_words_at(place) - mean) for place in range(5)])


def test_a_pair_that_failed_in_one_order_is_left_out_and_never_a_number() -> None:
    rewards = Rewards(OnlyCompares(fails=ANSWERS[2][0].content))
    found = rewards.of_groups([GROUP])[0]
    assert found[2] is None
    rest = [place for place in range(5) if place != 2]
    mean = fmean(map(log_words_at, rest))
    assert [found[place] for place in rest] == pytest.approx([4 / 3 * (log_words_at(place) - mean) for place in rest])
    assert rewards.of_pairs([Pair(GROUP, 0, 2), Pair(GROUP, 0, 1)])[0] is None


@pytest.mark.parametrize("head", ["late", "scalar", "pairwise", "pairwise_span"])
def test_every_head_gives_what_its_comparisons_say(head, make_model, make_encoder) -> None:
    judge = CrmJudge(make_model(head, "llama", seed=3), make_encoder(head), batch_size=4)
    groups = [GROUP, Group((), PROMPT, ANSWERS[:3]), Group(("likes words", "hates words"), PROMPT, ANSWERS[1:])]
    rewards = Rewards(judge)
    assert rewards.pointwise == (head in ("late", "scalar"))
    for one, found in zip(groups, rewards.of_groups(groups), strict=True):
        pairs = [Pair(one, a, b) for a, b in combinations(range(len(one.responses)), 2)]
        logits = rewards.of_pairs(pairs)
        assert all(logits) and all(found)
        if rewards.pointwise:
            expected = [found[pair.first] - found[pair.second] for pair in pairs]
            assert logits == pytest.approx(expected, abs=rounding(torch.tensor(found)))
        else:
            assert sum(found) == pytest.approx(0, abs=rounding(torch.tensor(found)))


def test_an_endpoint_is_not_asked_again_why_it_gave_nothing() -> None:
    class Down(OnlyCompares):
        left_out, calls = "unanswered", 0

        def read(self, comparisons):  # type: ignore[no-untyped-def]
            self.calls += len(comparisons)
            return iter(())

    judge = Down()
    rewards = Rewards(judge)
    assert rewards.of_pairs([Pair(GROUP, 0, 1)]) == [None] and judge.calls == 2
    assert rewards.why_unread(Pair(GROUP, 0, 1)) == "no_verdict" and judge.calls == 2
