"""GRPO against a reward model: what counts as gold, how far a policy is from its start, and one whole tiny run."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import AUTHORS
from crm.data.simulation.responses import write
from crm.judges.oracle import OracleJudge, true_utility
from crm.leaderboard.bank.simulated import simulate_bank
from crm.model.export import export_model
from crm.rewards.scoring import Rewards
from crm.schema import Message
from experiments.grpo import measure, start, tune
from experiments.grpo.__main__ import main
from experiments.grpo.boards import boards, policy_name, standing
from experiments.grpo.grammar import sentences
from experiments.grpo.stages import Plan
from experiments.grpo.summary import kept_rates, turn, turns

WISHES = ("Prefers detailed", "Prefers concise")
LONG = "Good lectures build on the quiz. In detail, the quiz depends on the tutor and the grade."
SHORT = "In brief, just the quiz."


def test_the_grammar_knows_what_the_authors_write_and_nothing_else() -> None:
    rng, asked = random.Random(2), start.all_queries()
    for _ in range(300):
        text = write(rng.randrange(9), rng.choice(AUTHORS), rng.choice(asked)).text
        assert " ".join(sentences(text) or ()) == text
    assert sentences("In brief, just the quiz. Key points:\n- quiz\n- tutor\n- grade") is not None
    for rubbish in ("", "In brief, just the quiz", "In brief, just the quizzer.", f"{SHORT} haha", f"{SHORT}{SHORT}"):
        assert sentences(rubbish) is None


def test_gold_is_the_truth_of_what_the_grammar_knows() -> None:
    for text in (LONG, SHORT, "Good lectures build on the quiz."):
        for wish in WISHES:
            truth = true_utility((wish,), (Message("assistant", text),))
            assert measure.gold(wish, text) == truth / RATIONALITY  # type: ignore[operator]
    assert measure.gold(WISHES[1], f"{SHORT} haha haha") is None
    assert [measure.won(*pair) for pair in ((1, 0), (0, 0), (-1, None), (None, None), (None, -1))] == [
        1,
        0.5,
        1,
        0.5,
        0,
    ]


@pytest.fixture(scope="module")
def beginner() -> tuple[Any, Any]:
    """A start that has been taught nothing, but is no longer the identity, and its tokenizer."""
    tokenizer = start.policy_tokenizer()
    policy = start.untaught(tokenizer, 3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for parameter in policy.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
    return policy.eval(), tokenizer


def test_only_what_is_answered_is_learned(beginner: tuple[Any, Any]) -> None:
    _, tokenizer = beginner
    rows = [(start.conversation("Why?", None), SHORT), (start.conversation("Why?", WISHES[0]), LONG)]
    ids, mask, labels = start.batch(tokenizer, rows)
    for row, (turns_, answer) in enumerate(rows):
        learned = labels[row][labels[row] != start.IGNORED]
        assert tokenizer.decode(learned) == answer + start.END
        whole = tokenizer.apply_chat_template(turns_, add_generation_prompt=True, tokenize=False) + answer + start.END
        assert tokenizer.decode(ids[row][mask[row].bool()]) == whole


def test_kl_is_that_of_single_texts_without_padding(beginner: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    policy, tokenizer = beginner
    monkeypatch.setattr(measure, "LONGEST", 12)
    other = start.untaught(tokenizer, 4).eval()
    asks = [measure.Ask("Why?", WISHES[0], told) for told in (True, False)] + [measure.Ask("How so, dear?", WISHES[1])]
    state = torch.get_rng_state()
    written = measure.write_all(policy, other, tokenizer, asks, seed=1)
    assert torch.equal(state, torch.get_rng_state())
    assert written == measure.write_all(policy, other, tokenizer, asks, seed=1)
    assert measure.write_all(policy, policy, tokenizer, asks, seed=1).kl == [0, 0, 0]
    with torch.no_grad():
        for ask, text, tokens, kl in zip(asks, written.texts, written.tokens, written.kl, strict=True):
            asked = start.conversation(ask.query, ask.wish if ask.told else None)
            head = tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
            assert (WISHES[0] in head) == ask.told
            ids = tokenizer(head, add_special_tokens=False, return_tensors="pt").input_ids
            with torch.random.fork_rng(devices=[]):  # the answer's ids, which its text may not give back
                answer = _ids(policy, tokenizer, asks)[asks.index(ask)][:tokens]
            whole = torch.cat([ids[0], answer])[None]
            each = [model(whole).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1) for model in (policy, other)]
            gaps = (each[0] - each[1]).gather(-1, answer[:, None])
            assert kl == pytest.approx(gaps.sum().item(), abs=1e-3)
            assert tokenizer.decode(answer, skip_special_tokens=True) == text


def _ids(policy: Any, tokenizer: Any, asks: list[measure.Ask]) -> torch.Tensor:
    torch.manual_seed(1)
    asked = [start.conversation(ask.query, ask.wish if ask.told else None) for ask in asks]
    inputs = tokenizer.apply_chat_template(
        asked, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
    )
    ids: torch.Tensor = policy.generate(**inputs, max_new_tokens=12, do_sample=True, temperature=1.0, top_k=0)
    return ids[:, inputs["input_ids"].shape[1] :]


def test_an_answer_counts_up_to_its_first_end() -> None:
    kept = measure._up_to_end(torch.tensor([[5, 2, 0, 0], [2, 0, 0, 0], [5, 5, 5, 5], [5, 2, 5, 2]]), end=2)
    assert kept.sum(1).tolist() == [2, 1, 4, 2]


def course(rates: list[float], proxies: list[float]) -> dict[str, Any]:
    """A course by hand: two queries, wins of ``rates``."""
    points = [
        {
            "step": 5 * n,
            "won": [rate, rate],
            "proxy": proxy,
            "kl": float(n),
            "degenerate": 0.0,
            "tokens": 30.0,
            "gold": 0,
        }
        for n, (rate, proxy) in enumerate(zip(rates, proxies, strict=True))
    ]
    return {"course": points, "kept": points[1]}


def test_where_gold_turns() -> None:
    turned = turn(course([0.5, 0.8, 0.9, 0.2], [0.0, 1.0, 2.0, 3.0]))
    assert (turned["step"], turned["kl"], turned["win_rate"], turned["last_win_rate"]) == (10, 2.0, 0.9, 0.2)
    assert turned["turned"] and turned["proxy_after"] == 1.0
    still = course([0.5, 0.8, 0.9, 0.88], [0.0, 1.0, 2.0, 3.0])
    assert not turn(still)["turned"]
    both = turns([still, course([0.5, 0.8, 0.9, 0.2], [0.0, 1.0, 2.0, 3.0])])
    assert (both["turned"], both["courses"], both["win_rate"]) == (1, 2, 0.9)


def test_rates_of_kept_policies_are_clustered_by_query_and_by_wish() -> None:
    made = course([0.5, 1.0], [0.0, 1.5])
    made["kept"] = made["kept"] | {"won": [1.0, 0.0, 1.0, 1.0, 0.5, 0.5]}
    assert [kept_rates([made, made], place, 3)["win_rate"] for place in range(3)] == [0.5, 1.0, 0.5]
    whole = kept_rates([made, made])
    assert (whole["n"], whole["proxy_gain"]) == (12, 1.5)
    assert whole["win_rate"] == pytest.approx(np.mean(made["kept"]["won"]), abs=1e-4)
    assert whole["low"] < whole["win_rate"] < whole["high"]


def test_by_a_judge_that_knows_the_truth_each_policy_leads_its_own_board(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = len(simulate_bank(seed=0, queries_per_topic=measure.PER_TOPIC).queries)
    texts = dict(zip(WISHES, (LONG, SHORT), strict=True))
    courses = {
        wish: {
            "course": [{"texts": ["Good lectures build on the quiz."] * queries}],
            "kept": {"texts": [text] * queries},
        }
        for wish, text in texts.items()
    }
    told = {"kept": {"texts": [text for text in texts.values() for _ in range(queries)]}}
    found = standing(boards(Rewards(OracleJudge()), courses, told, WISHES), WISHES)
    assert list(found["user"]) == list(WISHES)
    for column in ("own_rank", "own_true_rank", "told_rank", "told_true_rank"):
        assert list(found[column]) == [1, 1]
    assert found["others_rank"].min() == found["models"].max() == 16
    alone = standing(boards(Rewards(OracleJudge()), dict(list(courses.items())[:1]), None, WISHES[:1]), WISHES[:1])
    assert pd.isna(alone["told_rank"]).all() and pd.isna(alone["others_rank"]).all()
    assert policy_name(WISHES[0]) == "policy: detailed"


def test_a_plan_names_every_policy_once_and_no_unknown_wish(tmp_path: Path, capsys: Any) -> None:
    policies = Plan(tmp_path, WISHES, 1, 1).policies([1, 2], 10, 40)
    assert len({policy.name for policy in policies}) == len(policies) == 2 * (1 + 2 * 2)
    assert policies[0].told and policies[0].measured == (20, 40) and policies[-1].measured == (7, 10)
    assert len(policies[0].asks(every=True)) == 2 * len(policies[0].asks(every=False))
    assert main(["--out", str(tmp_path), "--wishes", "Prefers cats"]) == 2
    assert "--wishes: 'Prefers cats' has no known truth; the nearest wording is" in capsys.readouterr().err


@pytest.mark.slow
def test_a_policy_is_trained_measured_and_not_made_again(
    beginner: tuple[Any, Any], make_model: Any, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy, own = beginner
    for module in (measure, tune):
        monkeypatch.setattr(module, "LONGEST", 8)
    monkeypatch.setattr(measure, "PER_TOPIC", 1)
    monkeypatch.setattr(tune, "held_out_queries", lambda: measure.held_out_queries(1))
    monkeypatch.setattr(tune, "LOST", 2.0)
    policy.save_pretrained(tmp_path / "start")
    own.save_pretrained(tmp_path / "start")
    export_model(make_model("late"), tokenizer, tmp_path / "model", {"max_length": 2048})
    wanted = tune.Policy("told", WISHES, str(tmp_path / "model"), 1, 2, (1, 2))
    folder = tune.tune(wanted, tmp_path / "start", tmp_path / "told")
    found = json.loads((folder / tune.DONE).read_text(encoding="utf-8"))
    assert [point["step"] for point in found["course"]] == [0, 1, 2]
    assert found["course"][0]["kl"] == 0 < abs(found["course"][2]["kl"])
    assert len(found["kept"]["won"]) == 2 * len(found["course"][0]["won"]) == 24
    made = (folder / tune.DONE).stat().st_mtime_ns
    tune.tune(wanted, tmp_path / "start", tmp_path / "told")
    assert (folder / tune.DONE).stat().st_mtime_ns == made
