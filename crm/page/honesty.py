"""Say when a ranking should not be shown, and why.

A program gets the sentence and the numbers, where there are any; the page shows the sentence instead of the numbers.
"""

from __future__ import annotations

from crm.page.ranker import Ranking

MOST_UNREAD = 0.2
"""Share of comparisons without a verdict above which a ranking says little."""
LEAST_QUERIES = 20
"""Below so many queries, intervals of a win rate are some 40 points wide."""


def refusal(ranking: Ranking) -> str:
    """Why this ranking should not be shown; empty where it may be."""
    queries = len(ranking.part.queries)
    if queries < LEAST_QUERIES:
        few = "one question of the bank matches" if queries == 1 else f"{queries} questions of the bank match"
        return f"Only {few}, and a ranking needs {LEAST_QUERIES}: choose more topics, or say more."
    if ranking.advice:
        return ranking.advice
    asked = queries * (len(ranking.part.authors) - 1)
    if ranking.failed > MOST_UNREAD * asked:
        share = f"{ranking.failed:,} of {asked:,} comparisons"
        return f"The judge could not read {share}, so that a ranking would rest on what is left by chance."
    return ""
