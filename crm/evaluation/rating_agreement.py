"""A judge against people's ratings. In: overrides of ``evaluate.py``. Out: Spearman's rho by aspect, as a table.

``python -m crm.evaluation.rating_agreement data=summeval checkpoint=<run>/model`` reads the summaries of the held-out
documents; ``data=topicalchat`` all replies.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from crm.config import compose
from crm.dataset.comparisons import FIXED_SEED
from crm.evaluation.agreement import agreement, rating_comparisons, shown
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.readings import is_first, read_suites, reader
from crm.io.installed import commit
from crm.io.intake import Intake
from crm.judges import check_judge, open_judge
from crm.report.tables import caption, write_table
from crm.report.terminal import print_table
from crm.votes.catalogue import location
from crm.votes.public import aspects, summeval
from crm.votes.public.pairs import RatedInPlace, wordings_of

SUITE = "ratings"


def main(words: Sequence[str] | None = None) -> int:
    """Read, compute, write ``agreement.md/.csv/.tex`` into ``--out``; exit code 2 for a mistake."""
    parser = argparse.ArgumentParser(prog="crm.evaluation.rating_agreement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("overrides", nargs="+", help="of evaluate.py, with data=summeval or data=topicalchat")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(words)
    try:
        config = compose("evaluate", given.overrides, given.out)
        check_judge(config)
        run(config)
    except (ValueError, OSError) as error:
        print(f"crm.evaluation.rating_agreement: {error}", file=sys.stderr)
        return 2
    return 0


def run(config: EvaluateConfig) -> None:
    """The table of one judge, written and printed; readings go into the usual prediction files."""
    if config.threads:
        torch.set_num_threads(config.threads)
    by = reader(config)
    responses, wordings = rated_responses(config)
    opened = open_judge(config, blind=config.criteria == "none")
    rows = rating_comparisons(responses, wordings, FIXED_SEED)
    readings = read_suites(opened, {SUITE: rows}, config, by)
    if not is_first(by):
        return
    frame = agreement(responses, readings.predictions)
    line = caption(len(responses), opened.seeds, f"{opened.name} on {config.data.name}", commit())
    folder = Path(config.run_dir)
    write_table(folder, "agreement", frame, line, shown=shown(frame))
    print_table(shown(frame), f"Spearman's rho with people's ratings, 95 % over groups ({folder})")


def rated_responses(config: EvaluateConfig) -> tuple[list[RatedInPlace], Mapping[str, Sequence[str]]]:
    """What people rated, and wordings of what they rated it for. Raises ``ValueError`` for other data."""
    data, reading = config.data, Intake(strict=config.data.strict)
    if data.name == "summeval":
        place = location("summeval", root=data.root, path=None)
        words = data.max_words or None
        return list(summeval.rated(place, reading, max_document_words=words, seed=data.seed)), summeval.WORDINGS
    if data.name == "topicalchat":
        place = location("topicalchat", root=data.root, path=None)
        return list(aspects.chats(place, reading)), wordings_of("topicalchat")
    raise ValueError(f"data={data.name}: has no ratings of single responses; use data=summeval or data=topicalchat")


if __name__ == "__main__":
    sys.exit(main())
