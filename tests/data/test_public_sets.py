"""The public sets: small made-up files by hand, and the published files to the last row where they are at hand."""

import json
import statistics
from pathlib import Path

import pytest

from crm.data.catalogue import PUBLIC, SOURCES
from crm.data.public.constructed import MODELS
from crm.data.public.pairs import wordings_of
from crm.data.splits import Splits
from crm.io.rows import Intake
from crm.schema import Preference, to_json
from tests.made_files import read_published, write_rows


def load(name: str, root: Path, *, strict: bool = True, **settings: int) -> Splits:
    source = SOURCES[name]
    given = {"seed": 0, "train": 0, "validation": 0, "suite": 0, "max_words": 0} | settings
    assert source.splits
    return source.splits(root / str(source.folder), Intake(strict=strict), **given)


def parts(splits: Splits) -> dict[str, list[Preference]]:
    return {"train": splits.train, "validation": splits.validation, **splits.suites}


def everything(splits: Splits) -> list[Preference]:
    return [row for rows in parts(splits).values() for row in rows]


def write_dsp(root: Path, queries: int) -> None:
    names = ("academy", "business", "entertainment", "literature", "normal")
    items = [
        {
            "query": f"{'qwertyuiop'[n % 10] * 9} {n * 7919} ?",
            "responses": {name: f"{name} answer to {n}" for name in names},
        }
        for n in range(queries)
    ]
    items[0]["responses"]["business"] = items[0]["responses"]["academy"]  # type: ignore[index]
    write_rows(root / "dsp" / "domain_specific_preference.test.json.gz", items)


def test_dsp_criteria_speak_for_the_domain_of_their_side(tmp_path: Path) -> None:
    write_dsp(tmp_path, 50)
    splits = load("dsp", tmp_path, seed=2, max_words=80)
    assert splits.counts["pairs"] == 300
    assert splits.counts["dropped_identical_responses"] == 1
    assert sum(len(rows) for name, rows in parts(splits).items() if name != "C") == 299
    for name, rows in parts(splits).items():
        bank = wordings_of("dsp_unseen" if name == "C" else "dsp")
        for row in rows:
            for response, topics, criteria in (
                (row.response_a, row.criteria_topics_a, row.criteria_a),
                (row.response_b, row.criteria_topics_b, row.criteria_b),
            ):
                assert response[0].content.split()[0] == topics[0] or response[0].content == "academy answer to 0"
                assert 1 <= len(criteria) <= 2
                assert set(criteria) <= set(bank[topics[0]])
    seen = {text for texts in wordings_of("dsp").values() for text in texts}
    assert not seen & {text for texts in wordings_of("dsp_unseen").values() for text in texts}
    strip = [{row.id.removesuffix("-unseen") for row in splits.suites[name]} for name in "DC"]
    assert strip[0] == strip[1]


def write_concise_verbose(root: Path, instructions: int) -> None:
    folder = root / "alpacaeval_concise_verbose"
    for model in MODELS:
        for style, words in (("_concise", 2), ("", 5), ("_verbose", 9)):
            items = [
                {"instruction": f"{'qwertyuiop'[n % 10] * 9} {n * 7919}", "output": " ".join([model] * words)}
                for n in range(instructions)
            ]
            if (model, style) == ("alpaca-7b", "_concise"):
                items[0]["output"] = "far too long for a short answer, truly"
                items.pop()
            write_rows(folder / f"{model}{style}.json", items)


def test_concise_verbose_by_hand(tmp_path: Path) -> None:
    write_concise_verbose(tmp_path, 40)
    splits = load("concise_verbose", tmp_path, max_words=6)
    assert splits.counts["pairs"] == 40 * 6 * 3
    assert splits.counts["dropped_answer_missing"] == 2
    assert splits.counts["dropped_detailed_side_not_longer"] == 1
    for row in everything(splits):
        detailed, concise = (row.response_a, row.response_b)
        if row.criteria_topics_a == ("concise",):
            detailed, concise = concise, detailed
        assert len(detailed[0].content.split()) > len(concise[0].content.split())
        assert {row.criteria_topics_a, row.criteria_topics_b} == {("concise",), ("detailed",)}
        bank = wordings_of("concise_verbose" + "_unseen" * row.id.startswith("unseen-"))
        for criteria, (topic,) in ((row.criteria_a, row.criteria_topics_a), (row.criteria_b, row.criteria_topics_b)):
            assert 1 <= len(criteria) <= 2 and set(criteria) <= set(bank[topic])
    assert 0.4 < statistics.mean(row.criteria_topics_a == ("concise",) for row in everything(splits)) < 0.6
    models = {name: {row.author_a for row in rows} for name, rows in parts(splits).items()}
    assert models["train"] == models["D"] == models["validation"]
    assert len(models["train"]) == 4
    assert models["M"] == models["C"] == set(MODELS) - models["train"]
    unseen = {row.id.removeprefix("unseen-"): row for row in splits.suites["C"]}
    assert unseen.keys() == {row.id for row in splits.suites["M"]}
    for row in splits.suites["M"]:
        other = unseen[row.id]
        same = ("response_a", "response_b", "winner", "criteria_topics_a", "criteria_topics_b")
        assert all(getattr(row, field) == getattr(other, field) for field in same)
    cut = load("concise_verbose", tmp_path, max_words=4)
    assert {row.id.rsplit("-", 2)[1] for row in everything(cut) if row.author_a != "alpaca-7b"} == {"concise"}
    assert cut.counts["dropped_both_cut"] == 40 * 6 + 1, "plain and verbose answers lose their ends"


# read, records, dropped, flips, ties, with criteria
PUBLISHED = {
    "dsp": (661, 3908, 58, 3908, 0, 3908),
    "concise_verbose": (14486, 12526, 1964, 12526, 0, 12526),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLIC)
def test_every_row_of_the_published_files_is_accounted_for(name: str) -> None:
    rows, counts = read_published(name)
    assert counts == PUBLISHED[name]
    for row in rows[::25]:
        assert Preference.from_dict(json.loads(to_json(row))) == row
    first = statistics.mean(row.winner == "a" for row in rows if row.winner != "tie")
    assert 0.4 < first < 0.6, "which side stands as A is drawn"
