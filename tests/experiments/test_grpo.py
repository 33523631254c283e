"""GRPO against a reward model: what counts as gold, how far a policy is from its start, and one whole tiny run."""

import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import AUTHORS, write
from crm.judges.judge import OracleJudge
from crm.leaderboard.bank.opening import simulate_bank
from crm.model.export import export_model
from crm.rewards.scoring import Rewards
from crm.schema import Message
from experiments.grpo import measure, start, tune
from experiments.grpo.boards import boards, policy_name, standing
from experiments.grpo.grammar import sentences
from experiments.grpo.stages import Plan
from experiments.grpo.summary import selected_rates, turn, turns

CRITERIA = ("Prefers detailed", "Prefers concise")
LONG = "Good lectures build on the quiz. In detail, the quiz depends on the tutor and the grade."
SHORT = "In brief, just the quiz."


def test_the_grammar_knows_what_the_authors_write_and_nothing_else() -> None:
    rng, asked = random.Random(2), start.all_queries()
    for _ in range(50):
        text = write(rng.randrange(9), rng.choice(AUTHORS), rng.choice(asked)).text
        assert " ".join(sentences(text) or ()) == text
    assert sentences("In brief, just the quiz. Key points:\n- quiz\n- tutor\n- grade") is not None
    for rubbish in ("", "In brief, just the quiz", "In brief, just the quizzer.", f"{SHORT} haha", f"{SHORT}{SHORT}"):
        assert sentences(rubbish) is None


def test_gold_is_the_truth_of_what_the_grammar_knows() -> None:
    for text in (LONG, SHORT, "Good lectures build on the quiz."):
        for criterion in CRITERIA:
            truth = OracleJudge().score((criterion,), (Message("assistant", text),))
            assert measure.gold(criterion, text) == truth / RATIONALITY  # type: ignore[operator]
    assert measure.gold(CRITERIA[1], f"{SHORT} haha haha") is None
    pairs = ((1, 0), (0, 0), (-1, None), (None, None), (None, -1))
    assert [measure.won(*pair) for pair in pairs] == [1, 0.5, 1, 0.5, 0]


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


def course(rates: list[float], proxies: list[float]) -> dict[str, Any]:
    """A course by hand: two queries, wins of ``rates``."""
    rest = {"degenerate": 0.0, "tokens": 30.0, "gold": 0}
    points = [
        {"step": 5 * n, "won": [rate, rate], "proxy": proxy, "kl": float(n), **rest}
        for n, (rate, proxy) in enumerate(zip(rates, proxies, strict=True))
    ]
    return {"course": points, "selected": points[1]}


def test_where_gold_turns() -> None:
    turned = turn(course([0.5, 0.8, 0.9, 0.2], [0.0, 1.0, 2.0, 3.0]))
    assert (turned["step"], turned["kl"], turned["win_rate"], turned["last_win_rate"]) == (10, 2.0, 0.9, 0.2)
    assert turned["turned"] and turned["proxy_after"] == 1.0
    still = course([0.5, 0.8, 0.9, 0.88], [0.0, 1.0, 2.0, 3.0])
    assert not turn(still)["turned"]
    both = turns([still, course([0.5, 0.8, 0.9, 0.2], [0.0, 1.0, 2.0, 3.0])])
    assert (both["turned"], both["courses"], both["win_rate"]) == (1, 2, 0.9)


def test_limits_of_a_rate_are_over_seeds_too() -> None:
    apart = selected_rates([course([0.5, rate], [0.0, 1.0]) for rate in (0.6, 0.8, 1.0)])
    same = selected_rates([course([0.5, 0.8], [0.0, 1.0])] * 3)
    assert apart["win_rate"] == same["win_rate"] == 0.8 and apart["seeds"] == "0.600, 0.800, 1.000"
    assert apart["low"] < same["low"] and apart["n"] == 6


def test_one_criterion_has_no_policy_that_is_conditioned_on_it(tmp_path: Path) -> None:
    for criteria, conditioned in ((CRITERIA, 1), (CRITERIA[:1], 0)):
        policies = Plan(tmp_path, criteria, 1, 1).policies([1], 7, 20)
        assert sum(policy.name.startswith("conditioned") for policy in policies) == conditioned


def test_by_a_judge_that_knows_the_truth_each_policy_leads_its_own_board(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = len(simulate_bank(seed=0, queries_per_topic=measure.PER_TOPIC).bank.queries)
    texts = dict(zip(CRITERIA, (LONG, SHORT), strict=True))
    courses = {
        criterion: {
            "course": [{"texts": ["Good lectures build on the quiz."] * queries}],
            "selected": {"texts": [text] * queries},
        }
        for criterion, text in texts.items()
    }
    conditioned = {"selected": {"texts": [text for text in texts.values() for _ in range(queries)]}}
    found = standing(boards(Rewards(OracleJudge()), courses, conditioned, CRITERIA), CRITERIA)
    assert list(found["user"]) == list(CRITERIA)
    for column in ("own_rank", "own_true_rank", "conditioned_rank", "conditioned_true_rank"):
        assert list(found[column]) == [1, 1]
    assert found["others_rank"].min() == found["models"].max() == 16
    alone = standing(boards(Rewards(OracleJudge()), dict(list(courses.items())[:1]), None, CRITERIA[:1]), CRITERIA[:1])
    assert pd.isna(alone["conditioned_rank"]).all() and pd.isna(alone["others_rank"]).all()
    assert policy_name(CRITERIA[0]) == "policy: detailed"


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
    wanted = tune.Policy("conditioned", CRITERIA, str(tmp_path / "model"), 1, 2, (1, 2))
    folder = tune.tune(wanted, tmp_path / "start", tmp_path / "conditioned")
    found = json.loads((folder / tune.DONE).read_text(encoding="utf-8"))
    assert [point["step"] for point in found["course"]] == [0, 1, 2]
    assert found["course"][0]["kl"] == 0 < abs(found["course"][2]["kl"])
    assert len(found["selected"]["won"]) == 2 * len(found["course"][0]["won"]) == 24
    made = (folder / tune.DONE).stat().st_mtime_ns
    tune.tune(wanted, tmp_path / "start", tmp_path / "conditioned")
    assert (folder / tune.DONE).stat().st_mtime_ns == made
