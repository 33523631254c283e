"""The reader's sentences and training: what is drawn, what is held out, and a file that is read back."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from crm.criteria.counting import MEASURES
from crm.judges.reader import UNKNOWN, SentenceReader, word_pieces
from experiments.reader.__main__ import train, write
from experiments.reader.measure import HELD_OUT, calibrate, calibration_error, logits_of
from experiments.reader.sentences import KINDS, OTHER, Sentences, sides, unseen, wordings

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


def test_every_side_has_words_enough_and_none_is_in_the_held_out_set() -> None:
    criteria = wordings()["criteria"]
    assert set(criteria) > set(MEASURES) and len(criteria) == 64
    test = HELD_OUT.read_text(encoding="utf-8").casefold()
    for name, side in sides():
        own = criteria[name][side]
        assert len(own["sentences"]) >= 12 and all(len(own[kind]) >= 10 for kind in KINDS), (name, side)
        assert not [text for text in own["sentences"] if f'"text": "{text.casefold()}"' in test]


def test_a_trained_reader_is_read_back_from_its_file(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["[PAD]", UNKNOWN, *letters, *(f"##{letter}" for letter in letters)]
    vectors = torch.randn(len(pieces), 128, generator=torch.Generator().manual_seed(0))
    model = train(pieces, vectors, Sentences(0, QUERIES), 2, seed=0)
    tokenizer = word_pieces(pieces)
    temperature, limit = calibrate(model, tokenizer)
    path = tmp_path / "reader.safetensors"
    write(path, model, pieces, temperature, limit)
    reader = SentenceReader(path)
    texts = ["short answers", "no lists"]
    expected = (logits_of(model, tokenizer, texts) / temperature).softmax(dim=1)
    torch.testing.assert_close(reader._probabilities(texts), expected, atol=2e-3, rtol=0.1)
    assert 0.3 <= temperature <= 3 and 0 < limit <= 1


def test_the_calibration_error_by_hand() -> None:
    import numpy as np

    sure, right = np.array([0.95, 0.95, 0.15, 0.15]), np.array([True, False, False, False])
    assert calibration_error(sure, right) == pytest.approx((0.45 + 0.15) / 2)
