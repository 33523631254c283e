"""``python -m experiments.what_people_want --root <public sets> --out <folder>``: tables and plots.

A set that is not there is left out with a line that says so.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from crm.criteria.topics import find_topics
from crm.data.catalogue import source_named
from crm.io.installed import commit
from crm.io.rows import Intake
from crm.report.tables import write_table
from crm.schema import Preference
from experiments.command import answered
from experiments.what_people_want.charts import dots
from experiments.what_people_want.contradictions import by_topic, disagreements, flip_share
from experiments.what_people_want.diversity import diversity
from experiments.what_people_want.raters import agreement_of_three
from experiments.what_people_want.trait_wins import trait_wins, traits_by_topic

RATED = ("summeval", "topicalchat", "d2t")
"""Sets whose responses were rated on several criteria."""
VOTED = ("vibecheck_arena", "autoj", "pandalm", "rmb", "cot_rationales")
"""Sets where somebody chose between two responses for reasons of their own."""
SEED = 0


def main(words: Sequence[str] | None = None) -> int:
    """Write every table that the sets under ``--root`` allow; 2 where there is none of them."""
    parser = argparse.ArgumentParser(prog="experiments.what_people_want", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--root", required=True, help="folder of the public sets")
    parser.add_argument("--out", required=True, type=Path, help="folder for tables and plots")
    given = parser.parse_args(words)
    return answered("what_people_want", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Every table."""
    sets = {name: read for name in (*RATED, *VOTED, "prefeval") if (read := _read(given.root, name))}
    if not sets:
        raise ValueError(f"--root={given.root}: holds none of the sets; name the folder of the public sets")
    rows = {name: found for name, (found, _) in sets.items()}
    counts = {name: reading for name, (_, reading) in sets.items()}
    line = f"{sum(map(len, rows.values()))} pairs of {len(rows)} sets; 95 % intervals by prompt; commit {commit()}"
    for name, frame in _tables(rows, counts):
        write_table(given.out, name, frame, line)
        print(f"{name}: {len(frame)} rows")
        if name in ("flips", "traits"):
            dots(given.out / f"{name}.png", frame, name)


def _read(root: str, name: str) -> tuple[list[Preference], Intake] | None:
    source = source_named(name)
    folder = Path(root) / str(source.folder)
    if not folder.is_dir():
        print(f"{name}: {folder} is not there, left out", file=sys.stderr)
        return None
    reading = Intake(strict=False)
    return list(source.read(folder, reading)), reading


def _tables(rows: dict[str, list[Preference]], counts: dict[str, Intake]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and content of every table."""
    rated = {name: found for name, found in rows.items() if name in RATED}
    voted = {name: found for name, found in rows.items() if name in VOTED}
    if rated:
        shares = [{"set": name, "label": _label(found), **flip_share(found)} for name, found in rated.items()]
        yield "flips", pd.DataFrame(shares)
        yield "disagreements", _joined({name: disagreements(found) for name, found in rated.items()})
        yield "topics", _joined({name: by_topic(found) for name, found in rated.items()})
    if voted:
        labels = {f"{name} ({_label(found)})": found for name, found in voted.items()}
        yield "traits", _joined({name: trait_wins(found) for name, found in labels.items()})
        yield "traits_by_topic", _joined({name: traits_by_topic(found) for name, found in labels.items()})
    if "pandalm" in rows:
        found = counts["pandalm"].counts
        agreement = agreement_of_three(
            unanimous=found["unanimous"], three_way=found["three_way_splits"], pairs=len(rows["pandalm"])
        )
        yield "raters", pd.DataFrame([{"set": "pandalm", **_fields(agreement)}])
    if texts := _texts(rows):
        yield "diversity", pd.DataFrame([{"texts of": name, **_diversity(found)} for name, found in texts.items()])


def _texts(rows: dict[str, list[Preference]]) -> dict[str, list[str]]:
    """What people, or models in their place, wrote about what they prefer."""
    found = {
        "prefeval: stated preferences": {
            text for row in rows.get("prefeval", []) for text in row.criteria_a + row.criteria_b
        },
        "cot_rationales: reasons of a choice": {row.reason for row in rows.get("cot_rationales", []) if row.reason},
    }
    return {name: sorted(texts) for name, texts in found.items() if texts}


def _diversity(texts: list[str]) -> dict[str, float]:
    return _fields(diversity(list(find_topics(texts, seed=SEED)[0].values())))


def _fields(record: object) -> dict[str, float]:
    names = record.__dataclass_fields__  # type: ignore[attr-defined]
    return {name: getattr(record, name) for name in names}


def _joined(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([frame.assign(set=name) for name, frame in frames.items()]).pipe(
        lambda frame: frame[["set", *(column for column in frame.columns if column != "set")]]
    )


def _label(rows: list[Preference]) -> str:
    return rows[0].source.rpartition("/")[2]


if __name__ == "__main__":
    sys.exit(main())
