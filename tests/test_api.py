"""The Python API says what the judge under it says, for every head; nothing unread becomes a number."""

import json
import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from crm import Judge, load_bank, load_judge, train
from crm.judges.crm_judge import open_checkpoint
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.model.export import export_model
from crm.schema import Comparison, Message
from tests.conftest import TINY_MODEL

HEADS = ("scalar", "pairwise", "pairwise_span", "late")
POINTWISE = ("scalar", "late")
ASK = "How can I change the homework for my class?"
SHORT, LONG, OTHER = "In brief, just the homework.", "Students rely on it. First the homework, then a quiz.", "No."
TASTE = "Prefers concise answers"


@pytest.fixture(scope="module")
def judges(make_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judge]:
    found = {}
    for head in HEADS:
        run = tmp_path_factory.mktemp(head)
        model = make_model(head)
        draws = torch.Generator().manual_seed(1)
        if head != "late":
            torch.nn.init.normal_(model.score.weight, std=1, generator=draws)
        export_model(model, tokenizer, run / "model", {"max_length": 512, "seed": 3})
        found[head] = load_judge(run)
    return found


def comparison(first: str, second: str) -> Comparison:
    texts = ((Message("user", ASK),), (Message("assistant", first),), (Message("assistant", second),))
    return Comparison("1", "1", (TASTE,), *texts, "tie")


@pytest.mark.parametrize("head", HEADS)
def test_a_comparison_is_the_mean_of_both_orders(head: str, judges: dict[str, Judge]) -> None:
    under, _ = open_checkpoint(judges[head].folder, batch_size=2, precision="32-true")
    rows = [(comparison(SHORT, LONG), order) for order in ("ab", "ba")]
    logits = [reading.preference_logit for portion in under.read(rows) for reading in portion]
    assert len(logits) == 2
    expected = 1 / (1 + math.exp(-sum(logits) / 2))
    found = judges[head].compare(ASK, SHORT, LONG, TASTE)
    assert found == pytest.approx(expected, abs=1e-6) and abs(found - 0.5) > 1e-4
    assert judges[head].compare(ASK, LONG, SHORT, [TASTE]) == pytest.approx(1 - found, abs=1e-6)


def test_texts_and_messages_have_the_same_scores(judges: dict[str, Judge]) -> None:
    judge = judges["scalar"]
    found = judge.score(ASK, [SHORT, LONG, OTHER], TASTE)
    as_messages = [{"role": "user", "content": ASK}]
    assert judge.score(as_messages, [SHORT, LONG, OTHER], criteria=[TASTE]) == found
    assert judge.score(ASK, SHORT, TASTE) == pytest.approx(found[:1], abs=1e-5)
    assert len(set(found)) == 3


@pytest.mark.parametrize("head", POINTWISE)
def test_a_difference_of_scores_is_the_log_odds(head: str, judges: dict[str, Judge]) -> None:
    judge = judges[head]
    short, long = judge.score(ASK, [SHORT, LONG], TASTE)
    odds = judge.compare(ASK, SHORT, LONG, TASTE)
    assert short - long == pytest.approx(math.log(odds / (1 - odds)), abs=1e-4)
    scores = judge.score(ASK, [SHORT, LONG, OTHER], TASTE)
    assert judge.best_of(ASK, [SHORT, LONG, OTHER], TASTE) == scores.index(max(scores))


@pytest.mark.parametrize("head", ["pairwise", "pairwise_span"])
def test_a_model_that_only_compares_says_so_and_picks_the_best_by_comparisons(
    head: str, judges: dict[str, Judge]
) -> None:
    judge = judges[head]
    with pytest.raises(ValueError, match=rf"head={head} compares two responses.*judge\.compare\(prompt, a, b, crit"):
        judge.score(ASK, [SHORT], TASTE)
    texts = [SHORT, LONG, OTHER]

    def wins(place: int) -> float:
        odds = [judge.compare(ASK, texts[place], text, TASTE) for text in texts if text != texts[place]]
        return sum(math.log(odd / (1 - odd)) for odd in odds)

    assert judge.best_of(ASK, texts, TASTE) == max(range(3), key=wins)
    assert judge.best_of(ASK, [SHORT], TASTE) == 0


@pytest.mark.parametrize("head", HEADS)
def test_what_cannot_be_read_is_none_with_a_reason(head: str, judges: dict[str, Judge]) -> None:
    judge, endless = judges[head], "the homework " * 200
    with pytest.warns(UserWarning, match=r"1 of 1 could not be judged: .* longer than the 512 tokens") as caught:
        assert judge.compare(ASK, SHORT, endless, TASTE) is None
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="could not be judged"):
        assert judge.best_of(ASK, [endless, LONG, OTHER], TASTE) in (1, 2)
    with (
        pytest.raises(ValueError, match=r"none of 2 responses .* than the 512 tokens"),
        warnings.catch_warnings(action="ignore"),
    ):
        judge.best_of(ASK, [endless, endless + "x"], TASTE)
    if head in POINTWISE:
        with pytest.warns(UserWarning, match="1 of 3 could not be judged") as caught:
            found = judge.score(ASK, [SHORT, endless, LONG], TASTE)
        assert caught[0].filename == __file__
        assert found[1] is None and found[0] is not None and found[2] is not None


def test_a_mistake_names_its_argument(judges: dict[str, Judge]) -> None:
    for prompt, responses, criteria, message in (
        (ASK, [], TASTE, "responses: expected one or more"),
        (ASK, 7, TASTE, "responses=7: expected a text, or a list of texts"),
        (ASK, [SHORT], 5, "criteria=5: expected a text, or a list of texts"),
        (7, [SHORT], TASTE, "prompt"),
        (ASK, [SHORT], {TASTE: -1}, "criteria: weights count in judge.rank alone"),
    ):
        with pytest.raises(ValueError, match=message):
            judges["scalar"].score(prompt, responses, criteria)
    for name in ("late", "traits"):
        judge = judges.get(name) or load_judge(name)
        for criteria, message in (
            (5, "criteria=5: expected a text, or a list of texts"),
            ({TASTE: 0}, r"criteria={'Prefers concise answers': 0}: expected one weight at least that is not 0"),
            ({TASTE: math.nan}, r"criteria={.*: nan}: expected finite numbers"),
            ({TASTE: 1, "jargon": -math.inf}, r"criteria={.*-inf}: expected finite numbers"),
            ({TASTE: "2"}, r"criteria={.*: '2'}: expected finite numbers"),
        ):
            with pytest.raises(ValueError, match=message):
                judge.rank("simulated", criteria)
    assert judges["scalar"].score(ASK, [SHORT], None) == judges["scalar"].score(ASK, [SHORT])
    with pytest.raises(ValueError, match="learning_rte: no such setting"):
        train(data="simulation", learning_rte=1)


def test_a_line_that_is_not_understood_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="“flibber glorp wazzle”: not understood"):
        table = load_judge("traits").rank(
            load_bank("simulated", queries=20), criteria=["short answers", "flibber glorp wazzle"]
        )
    read, lost = table.attrs["understood"]
    assert read == "“short answers” is read as shorter answers (0.99), by counting" and "not understood" in lost


@pytest.mark.parametrize("head", ["pairwise", "late"])
def test_a_ranking_is_that_of_score_bank(head: str, judges: dict[str, Judge], tmp_path: Path) -> None:
    judge = judges[head]
    bank = load_bank("simulated", queries=2)
    assert len(bank.queries) == 2
    found = judge.rank(bank, [TASTE])
    assert list(found.columns) == ["model", "win_rate", "low", "high", "rank", "n", "unread"]
    assert sorted(found["model"]) == list(bank.authors) and set(found["n"]) == {2}
    assert found["rank"].tolist() == list(range(1, len(found) + 1))
    under, _ = open_checkpoint(judge.folder, batch_size=8, precision="32-true")
    outcomes, _ = score_bank(under, bank, [TASTE], folder=tmp_path, progress=False)
    rates = Leaderboard(outcomes).win_rates()
    assert dict(zip(found["model"], found["win_rate"], strict=True)) == pytest.approx(rates, abs=2e-3)
    if head == "late":
        one, other = (judge.rank(bank, {TASTE: weight}) for weight in (2.0, -2.0))
        turned = dict(zip(other["model"], 1 - other["win_rate"], strict=True))
        assert dict(zip(one["model"], one["win_rate"], strict=True)) == pytest.approx(turned, abs=1e-3)
    else:
        with pytest.raises(ValueError, match=f"{head} reads all criteria together and cannot weigh them"):
            judge.rank(bank, {TASTE: 2.0})


def test_a_bank_is_named_or_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = load_bank("simulated", queries=1)
    bank.save(tmp_path / "deep" / "mine")
    assert load_bank(tmp_path / "deep" / "mine") == load_bank(str(tmp_path / "deep" / "mine")) == bank
    monkeypatch.setenv("CRM_DATA_ROOT", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match="nowhere"):
        load_bank("alpacaeval")
    with pytest.raises(ValueError, match=r"bank\.name='alpaca': expected one of simulated"):
        load_bank("alpaca")


def test_a_reward_for_trl(judges: dict[str, Judge]) -> None:
    judge = judges["scalar"]
    reward = judge.as_reward(criteria="likes")
    assert reward([ASK] * 2, [SHORT, LONG], likes=[TASTE] * 2) == pytest.approx(judge.score(ASK, [SHORT, LONG], TASTE))


def test_a_model_is_pushed_without_what_lies_beside_it(judges: dict[str, Judge], monkeypatch: Any) -> None:
    calls: list[Any] = []

    class Api:
        def create_repo(self, repo: str, **given: Any) -> str:
            calls.append((repo, given))
            return f"https://hub/{repo}"

        def upload_folder(self, **given: Any) -> None:
            calls.append(given)

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    judge = judges["late"]
    (judge.folder / "notes.md").write_text("private")
    assert judge.push_to_hub("me/my-judge", private=True) == "https://hub/me/my-judge"
    assert calls[0] == ("me/my-judge", {"private": True, "exist_ok": True})
    assert (calls[1]["repo_id"], calls[1]["folder_path"]) == ("me/my-judge", judge.folder)
    sent = {path.name for path in judge.folder.iterdir() for form in calls[1]["allow_patterns"] if path.match(form)}
    assert sent == {path.name for path in judge.folder.iterdir()} - {"notes.md"}


def test_own_words_have_no_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.HfApi", None)
    judge = load_judge("traits")
    with pytest.raises(ValueError, match=r"no checkpoint to evaluate; python evaluate\.py judge=traits data=<votes>"):
        judge.evaluate("simulation")
    with pytest.raises(ValueError, match=r"no checkpoint to upload; train\(\.\.\.\)\.judge has one"):
        judge.push_to_hub("me/x")


@pytest.mark.slow
def test_train_evaluate_and_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"prompt": f"Is it {word} today?", "chosen": f"Yes, {word}.", "rejected": f"No, it is not {word} at all."}
        for word in ("rainy", "windy", "sunny", "cold", "foggy", "hot", "icy", "dry", "wet", "mild", "grey", "clear")
    ]
    Path("it's pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    fractions = {"validation_fraction": 0.3, "test_fraction": 0.3}
    torch.set_num_threads(2)
    run = train(
        *TINY_MODEL,
        schedule={"max_steps": 2},
        data="it's pairs.jsonl",
        loss="ranking",
        criteria="none",
        direction="original",
        folder="runs/mine",
        **{f"data.{name}": value for name, value in fractions.items()},
    )
    assert torch.get_num_threads() == 2, "a small model trains on one"
    assert run.folder == Path("runs/mine") and 0 <= run.accuracy <= 1 and run.loss > 0
    assert len(run.metrics) and {"step", "train/loss"} <= set(run.metrics)
    assert run.judge.head == "scalar" and run.judge.folder == Path("runs/mine/model")
    with pytest.raises(ValueError, match="a finished run is there; name another folder, or overwrite=true"):
        train(data="it's pairs.jsonl", criteria="none", folder="runs/mine")
    table = run.judge.evaluate()
    assert table["suite"].tolist() == ["D+"] and 0 < table["n"][0] < 12
    row = table.iloc[0]
    assert 0 <= row["low"] <= row["accuracy"] <= row["high"] <= 1
    other = run.judge.evaluate("simulation", "data.suite=10", "data.train=20", suite=["D+", "D-"])
    assert other["suite"].tolist() == ["D+", "D-"]
