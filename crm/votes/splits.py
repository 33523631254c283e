"""One small module per dataset. In: the files as their authors publish them. Out: `Splits` of `Preference` records.

No module outside this package knows a dataset's field names. Every loader returns the same `Splits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from crm.io.intake import Intake, Rejection
from crm.schema import Preference, prompt_key
from crm.votes.prompt_groups import split_by_prompt


@dataclass(frozen=True)
class Splits:
    """What a source gives: no prompt of ``train`` is in ``validation`` or a suite (checked when built).

    ``suites`` maps a suite's name (``D``, ``C``, ...) to its preferences; suites may share prompts with one another.
    ``counts`` says how many rows were read, dropped for which reason, and kept where. ``rejected`` holds the refused
    rows of a lenient reading (the first of them, `crm.io.intake.MAX_SHOWN`).
    """

    train: list[Preference]
    validation: list[Preference]
    suites: dict[str, list[Preference]]
    counts: dict[str, int]
    rejected: list[Rejection] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_disjoint(self.train, self.validation, self.suites)


def check_disjoint(
    train: Sequence[Preference], validation: Sequence[Preference], suites: Mapping[str, Sequence[Preference]]
) -> None:
    """Raise ``ValueError`` with the count when a prompt (`prompt_key`) of one part stands in another part."""
    keys = {
        "train": {prompt_key(row.prompt) for row in train},
        "validation": {prompt_key(row.prompt) for row in validation},
        "suites": {prompt_key(row.prompt) for rows in suites.values() for row in rows},
    }
    for left, right in (("train", "validation"), ("train", "suites"), ("validation", "suites")):
        shared = len(keys[left] & keys[right])
        if shared:
            raise ValueError(f"{shared} prompts of {left} are also in {right}; split by prompt, never by row")


def sizes(
    train: Sequence[Preference], validation: Sequence[Preference], suites: Mapping[str, Sequence[Preference]]
) -> dict[str, int]:
    """The last entries of every loader's ``counts``: records kept in each part."""
    named = {f"suite_{name}": len(rows) for name, rows in suites.items()}
    return {"train": len(train), "validation": len(validation), **named}


def by_suite(
    records: Sequence[Preference], suite_of: Callable[[Preference], str] | None
) -> dict[str, list[Preference]]:
    """Held-out records by suite; all in ``D`` where nothing says otherwise."""
    suites: dict[str, list[Preference]] = {} if suite_of else {"D": []}
    for row in records:
        suites.setdefault(suite_of(row) if suite_of else "D", []).append(row)
    return suites


def split_records(
    records: Sequence[Preference],
    reading: Intake,
    *,
    seed: int,
    validation: float,
    test: float,
    suite_of: Callable[[Preference], str] | None = None,
) -> Splits:
    """`Splits` of a file without a split of its own: by prompt, near-duplicates together, the test share in suites."""
    split = split_by_prompt(records, seed=seed, validation=validation, test=test)
    suites = by_suite(split.test, suite_of)
    kept = sizes(split.train, split.validation, suites)
    return Splits(split.train, split.validation, suites, {**reading.all_counts(), **kept}, reading.rejections)
