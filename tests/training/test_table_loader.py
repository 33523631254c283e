"""Tables as steps of training: first without words, then with them; a restart goes on where a run stopped."""

from __future__ import annotations

import numpy as np
import pytest

from crm.schema import Message
from crm.training.table_loader import TableLoader
from crm.votes.tables import ComparisonTable


class Source:
    """Tables of one comparison, whose target is their number."""

    wishes = 1

    def __call__(self, number: int, *, in_words: bool) -> ComparisonTable:
        prompt, texts = (Message("user", "Why rain?"),), ("Clouds cool.", "It just does.")
        return ComparisonTable(
            [(prompt, (Message("assistant", text),)) for text in texts],
            ("Short answers",) if in_words else (),
            np.array([[0, 1]]),
            np.array([0]),
            np.array([number / 100], dtype=np.float32),
        )


def test_steps_begin_without_words_and_go_on_after_a_restart(make_encoder) -> None:
    def loader() -> TableLoader:
        return TableLoader(Source(), make_encoder("late"), steps=5, without_words=2)

    whole = list(loader())
    assert len(whole) == len(loader()) == 5
    assert [bool(batch.texts.criteria) for batch in whole] == [False, False, True, True, True]
    begun = loader()
    handed = iter(begun)
    next(handed), next(handed), next(handed)
    again = loader()
    again.load_state_dict(begun.state_dict())
    assert [batch.target[0].item() for batch in again] == pytest.approx([0.03, 0.04])
    other = TableLoader(Source(), make_encoder("late"), steps=5, without_words=3)
    with pytest.raises(ValueError, match="began with words at step 2, this one at 3"):
        other.load_state_dict(begun.state_dict())
