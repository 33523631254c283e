"""A checkpoint made ready for one bank. In: judge and bank. Out: the same judge, reading the bank's texts once.

What is kept: the token ids of all responses, and on request what a criteria-last model makes of the conversations.
"""

from __future__ import annotations

import logging
from pathlib import Path

from crm.io.processes import ALONE, Processes
from crm.judges import CrmJudge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.cached_judge import CachedJudge
from crm.leaderboard.conversations import KeepingError
from crm.leaderboard.scoring import bank_comparisons
from crm.leaderboard.token_store import stored_ids

log = logging.getLogger(__name__)


def judge_of_bank(
    judge: CrmJudge,
    bank: Bank,
    folder: Path,
    *,
    states_gb: float,
    by_query: bool = False,
    processes: Processes = ALONE,
) -> CrmJudge:
    """``judge`` with token ids in ``folder``; where ``states_gb`` is above 0 a `CachedJudge` with files of that size.

    Of several processes each keeps its share, in a folder of its own. A model that cannot keep anything stays as it is,
    and a line in the log says why.
    """
    texts = [
        text
        for answers in bank.responses.values()
        for answer in answers.values()
        for text in judge.encoder.response_texts(answer)
    ]
    judge.encoder.use(stored_ids(folder, judge.encoder.tokenizer, texts))
    if not states_gb:
        return judge
    own = f"states-{processes.rank}-of-{processes.size}" if processes.size > 1 else "states"
    try:
        return CachedJudge(
            judge.model,
            judge.encoder,
            processes.share(bank_comparisons(bank, (), bank.baseline)),
            batch_size=judge.batch_size,
            precision=judge.precision,
            packing=judge.packing,
            model_digest=judge.model_digest,
            disk_gb=states_gb / processes.size,
            folder=folder / own,
            by_query=by_query,
        )
    except KeepingError as error:
        log.warning("bank_states_gb=%g: no states are kept: %s", states_gb, error)
        return judge
