"""Stored token ids against the tokenizer itself; damaged, foreign and contested files."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

from crm.leaderboard.bank_judge import stored_ids
from crm.model.backbone import train_tokenizer
from crm.schema import Comparison, Message

TEXTS = ("assistant\nHello there", "", "東京 \u2028 é", "assistant\n<|im_end|> stays text", "x" * 500)


def plain(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_ids_are_the_tokenizers_own_now_and_from_the_file(tokenizer, tmp_path, monkeypatch) -> None:
    first = stored_ids(tmp_path, tokenizer, TEXTS)
    monkeypatch.setattr(type(tokenizer), "__call__", lambda *_, **__: pytest.fail("tokenised again"))
    again = stored_ids(tmp_path, tokenizer, TEXTS[::-1])
    for text in TEXTS:
        assert list(first[text]) == list(again[text]) == plain(tokenizer, text)
    assert len(again) == len(TEXTS) and "not stored" not in again
    assert again.get("not stored") is None


def test_texts_are_added_to_what_is_there(tokenizer, tmp_path) -> None:
    stored_ids(tmp_path, tokenizer, TEXTS[:2])
    more = stored_ids(tmp_path, tokenizer, [*TEXTS[1:], TEXTS[2]])
    assert len(more) == len(TEXTS)
    assert [list(more[text]) for text in TEXTS] == [plain(tokenizer, text) for text in TEXTS]


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "other"])
def test_a_damaged_file_is_left_aside_and_made_anew(damage: str, tokenizer, tmp_path) -> None:
    stored_ids(tmp_path, tokenizer, TEXTS)
    path = only_file(tmp_path)
    content = bytearray(path.read_bytes())
    wanted = bytes(plain(tokenizer, TEXTS[-1])[0].to_bytes(4, "little") * 4)
    at = content.find(wanted)
    assert at > 0
    content[at] ^= 1
    path.write_bytes(
        {"flipped": bytes(content), "cut": bytes(content[:-40]), "empty": b"", "other": b"{}\n" * 99}[damage]
    )
    with pytest.warns(UserWarning, match=r"tokens-.*: not used and made anew"):
        found = stored_ids(tmp_path, tokenizer, TEXTS)
    assert [list(found[text]) for text in TEXTS] == [plain(tokenizer, text) for text in TEXTS]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored_ids(tmp_path, tokenizer, TEXTS)


def test_another_tokenizers_file_is_never_used(tokenizer, tmp_path) -> None:
    stored_ids(tmp_path, tokenizer, TEXTS)
    path = only_file(tmp_path)
    other = train_tokenizer(["assistant\nHello there"] * 20, vocab_size=300)
    assert plain(other, TEXTS[0]) != plain(tokenizer, TEXTS[0])
    found = stored_ids(tmp_path, other, TEXTS)
    assert list(found[TEXTS[0]]) == plain(other, TEXTS[0])
    theirs = next(file for file in tmp_path.iterdir() if file != path)
    shutil.copy(path, theirs)  # even under the other's name
    with pytest.warns(UserWarning, match="made anew"):
        assert list(stored_ids(tmp_path, other, TEXTS)[TEXTS[0]]) == plain(other, TEXTS[0])


def test_a_reader_keeps_what_it_opened_while_another_process_replaces_the_file(tokenizer, tmp_path) -> None:
    stored_ids(tmp_path, tokenizer, TEXTS[:3])
    mine = stored_ids(tmp_path, tokenizer, TEXTS[:3])
    stored_ids(tmp_path, tokenizer, TEXTS)
    assert [list(mine[text]) for text in TEXTS[:3]] == [plain(tokenizer, text) for text in TEXTS[:3]]
    assert len(list(tmp_path.iterdir())) == 1, "no draft is left"


@pytest.mark.parametrize("head", ["scalar", "pairwise", "pairwise_span"])
def test_an_encoder_with_stored_ids_gives_the_same_segments(head: str, make_encoder, tokenizer, tmp_path) -> None:
    answers = ("a first answer", "another <|im_end|>")
    first, second = ((Message("assistant", text),) for text in answers)
    row = Comparison("c", "p", ("brief",), (Message("user", "Why?"),), first, second, "a")
    bare, helped, misled = (make_encoder(head) for _ in range(3))
    texts = [text for answer in answers for text in helped.response_texts(answer)]
    helped.use(stored_ids(tmp_path, tokenizer, texts))
    misled.use(dict.fromkeys(texts, (7,)))
    for order in ("ab", "ba"):
        expected = bare.encode(row, order)
        assert helped.encode(row, order) == expected
        # Responses do come from there, and nothing else does.
        for found, plain_one in zip(misled.encode(row, order).sequences, expected.sequences, strict=True):
            for segment, other in zip(found, plain_one, strict=True):
                assert (segment == other) == (segment.kind in ("criteria", "query"))
                assert (7 in segment.ids) == (segment.kind not in ("criteria", "query"))
