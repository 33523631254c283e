"""Published banks: what their files hold comes back, what is left out is counted; smaller banks are drawn evenly."""

import logging
from collections import Counter
from pathlib import Path

import pytest

from crm.config import compose
from crm.data.public.banks import FOLDERS, UNTAGGED, read_published
from crm.data.simulation.lexicon import BASELINE
from crm.leaderboard.bank.opening import BASELINES, SimulatedBank, read_public_bank, simulate_bank, smaller_bank
from crm.leaderboard.config import BankConfig
from crm.leaderboard.run import open_bank
from crm.schema import query_of
from experiments.truth import true_win_rates
from tests.made_files import DATA_ROOT, bank_of, write_banks, write_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    asked = {"gpt4_1106_preview.json.gz": ["Why?", "Who?", "When?"], "llama-2.1.json": ["Who?", "Why?", "why?  "]}
    write_banks(tmp_path, justeval=("gpt-3.5-turbo-0301", "other"), alpacaeval=asked)
    return tmp_path


def test_justeval_has_the_first_topic_and_the_first_answer_of_each_query(root: Path) -> None:
    bank = read_public_bank("justeval", str(root))
    topics = {query_of(query.prompt): query.topic for query in bank.queries}
    assert topics == {"Why?": "stem", "How?": "lifestyle", "Where?": UNTAGGED}
    answers = {query_of(query.prompt): bank.responses["other"][query.id] for query in bank.queries}
    assert answers == {"Why?": "other 0", "How?": "other 1", "Where?": "other 3"}
    assert bank.baseline == "gpt-3.5-turbo-0301" and bank.authors == ("gpt-3.5-turbo-0301", "other")


def test_alpacaeval_has_what_all_models_answered(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        bank = read_public_bank("alpacaeval", str(root))
    assert {query_of(query.prompt): query.topic for query in bank.queries} == {"Who?": UNTAGGED, "Why?": "stem"}
    assert bank.authors == ("gpt4_1106_preview", "llama-2.1")
    assert "2 queries, left out: {'not_answered_by_all': 2, 'equal_queries': 0}" in caplog.text


def test_a_smaller_bank_takes_topics_in_turns_and_keeps_the_order(root: Path) -> None:
    bank = bank_of(dict.fromkeys("xy", "one two three four"), "aaaaaaaaaabbbc", baseline="x")
    drawn = smaller_bank(bank, BankConfig(queries=7, seed=3))
    assert Counter(query.topic for query in drawn.queries) == {"a": 3, "b": 3, "c": 1}
    assert [query.id for query in drawn.queries] == sorted(query.id for query in drawn.queries)
    assert drawn == smaller_bank(bank, BankConfig(queries=7, seed=3))
    assert len({smaller_bank(bank, BankConfig(queries=7, seed=seed)).queries for seed in range(6)}) > 1
    assert smaller_bank(bank, BankConfig(queries=99)) == smaller_bank(bank, BankConfig()) == bank
    assert smaller_bank(bank, BankConfig(max_words=2)).responses["y"]["q00"] == "one two ..."
    unwanted = BankConfig(without=["justeval"], root=str(root))
    with pytest.raises(ValueError, match="all queries of bank 'justeval' are left out"):
        smaller_bank(read_public_bank("justeval", str(root)), unwanted)


def test_the_settings_of_leaderboard_choose_and_shrink_a_bank(root: Path) -> None:
    words = ["checkpoint=x", "bank=justeval", f"bank.root='{root}'", "bank.without=[alpacaeval]", "bank.max_words=1"]
    bank = open_bank(compose("leaderboard", words, root).bank)
    assert sorted(query_of(query.prompt) for query in bank.queries) == ["How?", "Where?"]
    assert set(bank.responses["other"].values()) == {"other ..."}
    assert len(open_bank(compose("leaderboard", [*words, "bank.queries=1"], root).bank).queries) == 1


@pytest.mark.parametrize(
    ("name", "queries", "authors", "tagged"), [("alpacaeval", 804, 30, 442), ("justeval", 781, 13, 781)]
)
def test_the_published_files(name: str, queries: int, authors: int, tagged: int) -> None:
    """The sizes that the sets' authors give; 19 of just-eval's 800 rows repeat a query."""
    if not (DATA_ROOT / FOLDERS[name]).is_dir():
        pytest.skip(f"no {FOLDERS[name]} under {DATA_ROOT}; set CRM_DATA_ROOT")
    bank = read_public_bank(name, str(DATA_ROOT))
    assert (len(bank.queries), len(bank.authors)) == (queries, authors)
    assert sum(query.topic != UNTAGGED for query in bank.queries) == tagged
    assert bank.baseline == BASELINES[name]


def test_without_tags_nothing_has_a_topic(root: Path) -> None:
    (root / "bank_justeval" / "tags_list.json.gz").unlink()
    assert {topic for _, topic in read_published("alpacaeval", root)[0].values()} == {UNTAGGED}


def test_what_is_missing_or_malformed_is_named(root: Path) -> None:
    with pytest.raises(ValueError, match=r"bank.root='no': has no folder 'bank_justeval'.*fetch=justeval out=no`"):
        read_published("justeval", "no")
    for row, reason in (
        ({"instruction": "Why?", "output": None}, "output: expected a valid string, got None"),
        ({"output": "Because."}, "instruction: "),
    ):
        write_files(root, {"bank_alpacaeval/third.json": [row]})
        with pytest.raises(ValueError, match=rf"third.json:1: {reason}"):
            read_published("alpacaeval", root)
    for path in (root / "bank_alpacaeval").iterdir():
        path.unlink()
    with pytest.raises(ValueError, match=r"no file \*.json or \*.json.gz"):
        read_published("alpacaeval", root)


@pytest.fixture(scope="module")
def simulated() -> SimulatedBank:
    return simulate_bank(seed=2)


def test_win_rates_by_hand(simulated: SimulatedBank) -> None:
    rates = true_win_rates(simulated, ["Prefers detailed", "wants jokes and humor"])
    ids = [query.id for query in simulated.bank.queries]
    for author, rate in rates.items():
        wins = draws = 0
        for key in ids:
            ours, theirs = simulated.levels[author][key], simulated.levels[BASELINE][key]
            mine, base = ours["detail"] + ours["humor"], theirs["detail"] + theirs["humor"]
            wins += mine > base
            draws += mine == base
        assert rate == pytest.approx((wins + draws / 2) / len(ids))
    assert BASELINE not in rates


def test_errors_name_the_value_and_the_nearest_allowed_one(simulated: SimulatedBank) -> None:
    with pytest.raises(ValueError, match=r"'prefers detailled' has no known truth; .*'Prefers detailed'"):
        true_win_rates(simulated, ["prefers detailled"])
    with pytest.raises(ValueError, match="queries_per_topic: 0 is not between 1 and"):
        simulate_bank(seed=0, queries_per_topic=0)
