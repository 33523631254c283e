"""A fault for each block of `bench.reliability`, as data: one line made wrong, and the tests of the block that find it.

Block A has a file of its own (`bench.reliability.red`); block C puts its faults in by itself.
"""

from __future__ import annotations

from tests.upstream_defects import DEFECTS as UPSTREAM
from tests.upstream_defects import Defect

DEFECTS: dict[str, Defect] = {
    "B: text of data becomes a control token": Defect(
        "crm.model.encoding:Encoder._tokenize",
        "split_special_tokens=True",
        "split_special_tokens=False",
        ("tests/model/test_hostile_texts.py::test_10000_texts_spell_no_control_token",),
    ),
    **{
        f"{block}: {name[0].lower()}{name[1:]}": UPSTREAM[name]
        for block, name in (
            ("D", "An evaluation that goes on repeats rows"),
            ("D", "An evaluation that goes on loses the rows of a batch that was cut"),
            ("E", "A flipped bit of a checkpoint is loaded"),
            ("E", "A flipped bit of a published model is loaded"),
            ("E", "A full disk takes the last checkpoint along"),
            ("F", "A completion without text passes for an answer"),
            ("G", "A body of any size is read by the server"),
        )
    },
}
