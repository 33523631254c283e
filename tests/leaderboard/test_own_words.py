"""Rankings by own words: the right way round, and the matrix of counts and scores that they are made of."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from crm import load_bank, load_judge
from crm.config import compose
from crm.criteria.counting import DIGEST, MEASURES
from crm.judges.sentence_reader import KNOWN, bundled_reader
from crm.judges.traits_judge import TraitsJudge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.matrix import COUNTED, Column, CriteriaMatrix, open_matrix
from crm.leaderboard.outcomes import LEAST_QUERIES
from crm.leaderboard.own_words import OwnWords
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import run_leaderboard
from crm.leaderboard.scoring import score_bank
from tests.made_files import bank_of


def made_bank() -> Bank:
    """Three models on 24 queries: a short one, one that lists, a long one."""
    texts = {
        "short": lambda n: f"It is answer number {n}, as far as anybody here can tell you today.",
        "lister": lambda n: "\n".join(f"- point {k} of question {n}, in a few plain words" for k in range(4 + n % 3)),
        "long": lambda n: f"The answer to question {n} takes a while to explain in full. " * (6 + n % 4),
    }
    return bank_of(texts, ["all"] * 24, baseline="lister")


@pytest.fixture
def words(tmp_path: Path) -> OwnWords:
    return OwnWords(bundled_reader(), CriteriaMatrix(made_bank(), tmp_path / "criteria.parquet"))


def ranked(words: OwnWords, *lines: str, weights: tuple[float, ...] = ()) -> list[str]:
    return list(Leaderboard(words.outcomes(lines, weights)).win_rates())


def test_what_is_asked_for_comes_first_and_its_opposite_last(words: OwnWords) -> None:
    assert ranked(words, "short answers") == ranked(words, "I want short replies")
    assert ranked(words, "short answers")[0] == "short" and ranked(words, "long, detailed answers")[0] == "long"
    assert ranked(words, "bullet points")[0] == "lister" and ranked(words, "no lists")[-1] == "lister"


def test_a_dislike_is_the_same_criterion_with_the_other_side(words: OwnWords) -> None:
    assert words.weights(["bullet points"], [-1.0]) == {"Lists": -1.0}
    (each,) = words.understood(["bullet points"], [-1.0])
    assert (each.criterion, each.side, each.meaning) == ("Lists", "less", "prose instead of lists")


def test_weights_add_up_over_lines(words: OwnWords) -> None:
    assert words.weights(["short answers, no lists", "keep it brief"]) == {"Length": -2.0, "Lists": -1.0}


def test_nothing_understood_is_an_error_that_proposes(words: OwnWords) -> None:
    with pytest.raises(ValueError, match=r"criteria: “vibes”: not understood; did you mean .*[?]"):
        words.outcomes(["vibes"])
    with pytest.raises(ValueError, match="criteria: “kurze Antworten”: not understood; put it in plain English"):
        words.outcomes(["kurze Antworten"])
    with pytest.raises(ValueError, match="a thing and its opposite"):
        words.outcomes(["short answers", "long answers"])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        *((line, "prices are beside") for line in ("cheap", "Inexpensive", "free to use", "under $5 a million tokens")),
        *((line, "licences are below") for line in ("open source", "commercial licence", "runs on my laptop")),
        *((line, "not measured here") for line in ("speaks Turkish", "supports tool calling", "good at German law")),
        *((line, "not measured here") for line in ("a large context", "fast", "GDPR compliant", "good at coding")),
    ],
)
def test_what_buyers_ask_has_its_place_named(words: OwnWords, line: str, why: str) -> None:
    (each,) = words.understood([line])
    assert each.criterion is None and each.why.startswith(why) and each.nearest == ()
    assert words.weights([line, "short answers"]) == {"Length": -1.0}
    with pytest.raises(ValueError, match=f"criteria: “{re.escape(line)}”: {why}"):
        words.outcomes([line])


def test_a_response_that_is_too_short_to_count_is_the_cause(tmp_path: Path) -> None:
    bank = bank_of({"brief": "Yes.", "base": "No."}, ["all"] * 2)
    with pytest.raises(ValueError, match=r"Sentence length by counting lacks 100.0%\); too short to count"):
        OwnWords(bundled_reader(), CriteriaMatrix(bank, tmp_path / "c.parquet")).outcomes(["short sentences"])


def test_sentences_about_answers_may_have_buyers_words(words: OwnWords) -> None:
    assert words.weights(["code"]) == {"Code": 1.0}
    found = words.understood(["free of jargon", "a quick answer", "speak in plain language"])
    assert [(each.criterion, each.why) for each in found] == [("Vocabulary", ""), ("Length", ""), ("Vocabulary", "")]


def test_a_criterion_that_nobody_scored_says_so_and_counts_once_it_is(words: OwnWords) -> None:
    (each,) = words.understood(["lots of humour"])
    assert each.criterion == "Humour" and each.why == "nobody has scored “humour” on enough questions of this bank"
    assert words.why_nothing(["funny answers"]).endswith(
        "python bank.py score bank=made judge=llm (or checkpoint=..., ratings=...)"
    )
    rows = len(words.bank.queries)
    words.matrix.add([Column("Humour", "people")], np.tile([3.0, 1.0, np.nan], rows))
    partly = "“humour” is scored for 2 of 3 models, by people; missing: short"
    assert words.understood(["lots of humour"])[0].why == partly
    words.matrix.add([Column("Humour", "people")], np.tile([3.0, 1.0, 2.0], rows))  # lister, long, short
    assert ranked(words, "lots of humour") == ["lister", "short", "long"]


def test_a_few_ratings_do_not_make_a_criterion(words: OwnWords) -> None:
    before = ranked(words, "short answers, lots of humour")
    few = np.full(3 * len(words.bank.queries), np.nan)
    few[: 3 * (LEAST_QUERIES - 1)] = 1.0
    words.matrix.add([Column("Humour", "people")], few)
    words.matrix.add([Column("Length", "people")], few)
    (short, humour) = words.understood(["short answers, lots of humour"])
    assert short.scored_by == COUNTED and humour.why and humour.scored_by == ""
    assert ranked(words, "short answers, lots of humour") == before
    words.matrix.add([Column("Humour", "llm")], np.tile([3.0, 1.0, 2.0], len(words.bank.queries)))
    words.matrix.add([Column("Humour", "people")], few)
    assert ranked(words, "lots of humour") == ["lister", "short", "long"], "nor do they hide a full column"


def test_counting_can_be_named_before_anything_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "criteria.parquet"
    bank = made_bank()
    CriteriaMatrix(bank, path).add([Column("Length", "people")], np.tile([3.0, 1.0, 2.0], len(bank.queries)))
    assert ranked(OwnWords(bundled_reader(), CriteriaMatrix(bank, path)), "long answers")[0] == "lister"
    assert ranked(OwnWords(bundled_reader(), CriteriaMatrix(bank, path, COUNTED)), "long answers")[0] == "long"


def test_somebody_s_own_criteria_are_known_word_for_word(words: OwnWords) -> None:
    column = Column("Naval law", "me", more="Cites naval law, and cases", less="no law")
    words.matrix.add([column], np.arange(72))
    words = OwnWords(bundled_reader(), words.matrix)
    assert words.weights(["cites naval law, and cases."]) == {"Naval law": 1.0}, "not split at its comma"
    assert words.weights(["No law; short answers"]) == {"Naval law": -1.0, "Length": -1.0}
    (each,) = words.understood(["no law"])
    assert (each.meaning, each.scored_by) == ("no law", "me") and each.confidence == KNOWN


def test_the_judge_gives_the_same_ranking_in_every_other_command(words: OwnWords, tmp_path: Path) -> None:
    found, _ = score_bank(TraitsJudge(), words.bank, ["short answers, no lists"], folder=tmp_path, progress=False)
    fast = words.outcomes(["short answers, no lists"])
    np.testing.assert_allclose(found.logits, fast.logits, rtol=1e-4)
    assert Leaderboard(found).win_rates() == pytest.approx(Leaderboard(fast).win_rates(), rel=1e-4)


def test_other_rules_are_another_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    before = TraitsJudge().digest
    monkeypatch.setattr("crm.judges.splitting.__file__", __file__)
    assert TraitsJudge().digest != before


@pytest.mark.parametrize(
    ("criteria", "responses", "why"),
    [
        ("candle", ["Yes.", "No."], "nothing of the criteria is understood; say in English"),
        ("lots of humour", ["Yes.", "No."], "nothing that the criteria ask for can be counted"),
        (["short answers", "long answers"], ["Yes.", "No."], "the criteria ask for a thing and its opposite"),
        ((), ["Yes.", "No."], "no criteria are given; say what you prefer"),
        ("short sentences", ["", "Yes."], "the response is empty, and the response is too short to count"),
    ],
)
def test_the_python_api_names_what_keeps_it_from_judging(criteria: Any, responses: list[str], why: str) -> None:
    judge = load_judge("traits")
    with pytest.warns(UserWarning, match=f"2 of 2 could not be judged: {why}"):
        assert judge.score("Why?", responses, criteria) == [None, None]
    with pytest.warns(UserWarning, match=f"1 of 1 could not be judged: {why.partition(',')[0]}"):
        assert judge.compare("Why?", *responses, criteria) is None
    with pytest.raises(ValueError, match=f"none of 2 responses can be judged: {why}"), pytest.warns(UserWarning):
        judge.best_of("Why?", responses, criteria)


def test_an_empty_response_has_no_score() -> None:
    judge, answer = load_judge("traits"), "Good answer here."
    with pytest.warns(UserWarning, match="1 of 2 could not be judged: the response is empty"):
        assert judge.best_of("Why?", [" \n", answer], "no lists") == 1
    with pytest.warns(UserWarning, match="the response is empty"):
        assert judge.compare("Why?", "", answer, "short answers") is None


def test_the_command_says_what_it_understood(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_bank().save(tmp_path / "bank")
    given = ["judge=traits", "bank=folder", f"bank.path={tmp_path / 'bank'}", "criteria=[ideally short,candle]"]
    board = run_leaderboard(compose("leaderboard", given, tmp_path / "run"))
    assert next(iter(board.win_rates())) == "short"
    read = json.loads((tmp_path / "run/understood.json").read_text(encoding="utf-8"))
    assert [(row["clause"], row["criterion"], row["side"], row["why"]) for row in read] == [
        ("ideally short", "Length", "less", ""),
        ("candle", None, read[1]["side"], "not understood"),
    ]
    assert (tmp_path / "bank/criteria.parquet").is_file() and (tmp_path / "run/leaderboard.csv").is_file()
    counted = ["0.5 x ideally short (shorter answers)", "0 x candle (not understood)"]
    assert json.loads((tmp_path / "run/criteria.json").read_text(encoding="utf-8"))["counted"] == counted
    assert f"; criteria {' | '.join(counted)}; bank" in (tmp_path / "run/leaderboard.md").read_text(encoding="utf-8")
    assert "short" in capsys.readouterr().out


def test_a_loaded_bank_has_its_folder_s_scores_and_what_is_left_out_is_warned_of(tmp_path: Path) -> None:
    prose = "This is one sentence that says a little. Here is another one that says some more. " * 4
    texts = {"lister": prose, "long": 2 * prose, "short": lambda n: prose if n > 2 else "Yes."}
    bank_of(texts, ["all"] * 24, baseline="lister").save(tmp_path / "bank")
    bank = load_bank(tmp_path / "bank")
    open_matrix(bank).add([Column("Humour", "people")], np.tile([3.0, 1.0, 2.0], 24))
    assert load_judge("traits").rank(bank, "lots of humour")["model"].tolist() == ["lister", "short", "long"]
    with pytest.warns(UserWarning, match="3 comparisons had a response too short to count .* 3 queries are left out"):
        load_judge("traits").rank(bank, "short sentences")


TEXTS = {
    "brief": ("Yes.", "No."),
    "lister": ("- one\n- two\n- three\n- four", "- a\n- b\n- c"),
    "wordy": ("A long answer that goes on and on about the matter. " * 5, "Another long answer with many words. " * 6),
}


def bank(*models: str) -> Bank:
    return bank_of({name: TEXTS[name].__getitem__ for name in models}, ["all"] * 2, baseline=models[0])


def test_a_column_is_counted_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "criteria.parquet"
    first = CriteriaMatrix(bank("brief", "lister"), path)
    first.count(["Length", "Lists"])
    expected = [[MEASURES["Length"](TEXTS[name][row]) for name in ("brief", "lister")] for row in range(2)]
    np.testing.assert_allclose(first.raw("Length"), expected, rtol=1e-6)
    monkeypatch.setitem(MEASURES, "Length", lambda text: pytest.fail("counted again"))
    again = CriteriaMatrix(bank("brief", "lister"), path)
    again.count(["Length"])
    np.testing.assert_array_equal(again.raw("Length"), first.raw("Length"))
    assert again.columns == {name: Column(name, COUNTED, DIGEST) for name in ("Length", "Lists")}
    monkeypatch.setattr("crm.leaderboard.matrix.DIGEST", "other rules")
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        CriteriaMatrix(bank("brief", "lister"), path).count(["Length"])


def test_the_bank_may_grow_a_model_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "criteria.parquet"
    CriteriaMatrix(bank("brief", "lister"), path).count(["Lists"])
    grown = CriteriaMatrix(bank("brief", "lister", "wordy"), path)
    assert np.isnan(grown.raw("Lists")[:, 2]).all() and not np.isnan(grown.raw("Lists")[:, :2]).any()
    grown.count(["Lists"])
    assert not np.isnan(grown.raw("Lists")).any()
    smaller = CriteriaMatrix(bank("brief", "lister"), path)
    smaller.count(["Length"])
    assert not np.isnan(CriteriaMatrix(bank("brief", "lister", "wordy"), path).raw("Lists")).any(), "other rows stay"


def test_weights_make_scores_in_clear_differences(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    matrix.count(["Length", "Lists"])
    matrix.add([Column("Humour", "people")], [1, 3, 2, 4])
    expected = 2 * matrix.raw("Lists") / MEASURES["Lists"].clear - matrix.raw("Humour") / np.std([1, 3, 2, 4])
    np.testing.assert_allclose(matrix.scores({"Lists": 2, "Humour": -1}), expected, rtol=1e-5)


def test_a_missing_score_is_missing(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    matrix.add([Column("Humour", "people")], [1, np.nan, 2, 4])
    assert np.isnan(matrix.scores({"Humour": 1})).tolist() == [[False, True], [False, False]]


def test_scores_of_another_digest_never_mix(tmp_path: Path) -> None:
    matrix = CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet")
    old, new = (Column("Humour", "llm", digest) for digest in ("old", "new"))
    matrix.add([old], [1, 2, 3, np.nan])
    matrix.add([old], [np.nan, 5, np.nan, 4])
    assert matrix.raw("Humour").ravel().tolist() == [1, 5, 3, 4], "the same judge fills up"
    assert np.isnan(matrix.scored([new])).all()
    matrix.add([new], [np.nan, 7, np.nan, np.nan])
    np.testing.assert_array_equal(matrix.scored([new])[:, 0], [np.nan, 7, np.nan, np.nan])
    assert np.isnan(matrix.scored([old])).all()


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    first, second = (CriteriaMatrix(bank("brief", "lister"), tmp_path / "criteria.parquet") for _ in range(2))
    first.add([Column("Humour", "llm")], [1, 2, 3, 4])
    second.count(["Length"])
    first.add([Column("Depth", "llm")], [1, 2, 3, 4])
    assert set(CriteriaMatrix(second.bank, second.path).columns) == {"Humour", "Length", "Depth"}


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "criteria.parquet"
    path.write_text("no parquet")
    with pytest.raises(ValueError, match=r"criteria\.parquet: no criteria matrix that can be read .*; remove it"):
        CriteriaMatrix(bank("brief", "lister"), path)
