"""The blocks of the reliability table. In: nothing. Out: what each tries, by which tests.

The tests are those of `make test`; they count what they try. A block names them by file or by test.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Block:
    """``tests`` are files, or tests of a file, of the checkout; at least ``inputs`` and ``faults`` have to be tried."""

    letter: str
    what: str
    tests: tuple[str, ...]
    inputs: int = 0
    faults: int = 0


def _block(letter: str, what: str, *tests: str, inputs: int = 0, faults: int = 0) -> Block:
    return Block(letter, what, tuple(f"tests/{test}" for test in tests), inputs, faults)


BLOCKS = (
    _block("A", "no execution of data", "test_no_execution.py", "test_security.py", inputs=1_000),
    _block(
        "B",
        "properties",
        "io/test_bad_inputs.py",
        "leaderboard/bank/test_hostile_banks.py",
        "dataset/test_noise.py",
        "model/test_hostile_texts.py",
        "votes/test_splits.py",
        "model/batching/test_batches.py",
        "rewards/best_of_n/test_estimator.py",
        "report/test_statistics.py",
        "picking/test_posterior.py",
        "test_wrong_commands.py",
        inputs=14_000,
    ),
    _block("C", "known defects of others", "test_upstream_defects.py", faults=40),
    _block(
        "D",
        "kills",
        "training/test_resume.py",
        "training/test_killed_together.py",
        "evaluation/test_prediction_file.py",
        "leaderboard/test_index.py",
        "dataset/prepare/test_killed.py",
        faults=500,
    ),
    _block(
        "E",
        "damaged files",
        "io/test_every_file.py",
        "io/test_older_versions.py",
        "training/test_checkpointing.py",
        "page/test_score_store.py",
        "model/test_export.py",
        faults=640,
    ),
    _block("F", "endpoints", "io/chat/test_faults.py", "io/chat/test_replies.py", faults=360),
    _block(
        "G",
        "servers",
        "rewards/server/test_hostile.py",
        "rewards/server/test_together.py",
        "page/test_hostile.py",
        "page/test_hostile_browser.py",
        "page/test_slow_clients.py",
        "page/test_scoring_queue.py",
        "web/test_body_limit.py",
        "web/test_hosts.py",
        "web/test_forwarded.py",
        "web/test_aborted.py",
        inputs=300,
    ),
)
