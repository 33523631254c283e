"""When a ranking should not be shown. In: a `PartialRanking`. Out: a sentence that says why, or nothing.

Nothing is hidden from a program: the sentence stands beside the numbers, and the page shows it instead of them.
"""

from __future__ import annotations

from crm.page.ranker import PartialRanking

MOST_UNREAD = 0.2
"""Share of comparisons without a verdict above which a ranking says little."""
LEAST_QUERIES = 20
"""Below so many queries, intervals of a win rate are some 40 points wide."""


def refusal(progress: PartialRanking) -> str:
    """Why this ranking should not be shown; empty where it may be."""
    if progress.total < LEAST_QUERIES:
        few = (
            "one question of the bank matches"
            if progress.total == 1
            else f"{progress.total} questions of the bank match"
        )
        return f"Only {few}, and a ranking needs {LEAST_QUERIES}: choose more topics, or say more."
    asked = progress.done * (len(progress.part.authors) - 1)
    if asked and progress.failed > MOST_UNREAD * asked:
        share = f"{progress.failed:,} of {asked:,} comparisons"
        return f"The judge could not read {share}, so that a ranking would rest on what is left by chance."
    if progress.complete and progress.unheard and len(progress.unheard) == len(progress.profile.told):
        return (
            "The judge does not react to these words: they rank the models as random letters do. Say it in other words."
        )
    return ""
