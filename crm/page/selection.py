"""Select the part of a bank that a profile asks about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from crm.leaderboard.bank.bank import Bank, BankQuery, check_topics
from crm.leaderboard.bank.public import in_turns
from crm.page.profile import SIMILAR, Profile, ProfileError
from crm.schema import query_of

SEED = 1
"""Of the reading order: the same for everybody, so that scores of a drawn part serve the whole."""
PARTS = 16
"""So many chosen parts are held: to check all texts of a large bank again takes a quarter of a second."""


class Selector:
    """Chooses the part of a bank that a profile asks about."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._part = lru_cache(PARTS)(self._select)

    def select(self, profile: Profile) -> Bank:
        """The part that ``profile`` asks about, with the baseline and at least one other model.

        Queries stand in the order in which they are to be read: in turns over topics, or the most similar first. Raises
        `ProfileError` for topics or models that the bank does not have.
        """
        baseline = profile.baseline or self.bank.baseline
        return self._part(baseline, profile.models, profile.topics, profile.about, profile.queries)

    def _select(self, baseline: str, wanted: tuple[str, ...], topics: tuple[str, ...], about: str, number: int) -> Bank:
        self._check_models("baseline", [baseline])
        self._check_models("models", wanted)
        models = [name for name in self.bank.authors if name in {baseline, *(wanted or self.bank.authors)}]
        if len(models) < 2:
            raise ProfileError(f"models: only the baseline {baseline!r} is left; choose at least one more")
        queries = self._similar(about) if about else in_turns(self._on_topics(topics), SEED, "reading order")
        kept = queries[: number or (SIMILAR if about else len(queries))]
        responses = {name: {query.id: self.bank.responses[name][query.id] for query in kept} for name in models}
        return Bank(self.bank.name, baseline, tuple(kept), responses)

    def topic_counts(self) -> dict[str, int]:
        """Queries by topic, in the order of the topics' names."""
        counts = Counter(query.topic for query in self.bank.queries)
        return {topic: counts[topic] for topic in self.bank.topics}

    def _check_models(self, field: str, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.bank.responses:
                known = ", ".join(self.bank.authors)
                raise ProfileError(f"{field}: {name!r} is not in the bank; there are {known}")

    def _on_topics(self, topics: Sequence[str]) -> list[BankQuery]:
        if not topics:
            return list(self.bank.queries)
        try:
            wanted = check_topics(topics, self.bank.topics)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        return [query for query in self.bank.queries if query.topic in wanted]

    def _similar(self, about: str) -> list[BankQuery]:
        """Queries that share words with a sentence, the nearest first."""
        words, vectors = self._words
        near = np.asarray((vectors @ words.transform([about]).T).toarray())[:, 0]
        found = [self.bank.queries[place] for place in np.argsort(-near, kind="stable") if near[place] > 0]
        if not found:
            raise ProfileError(f"about: no query of the bank shares a word with {about!r}; say it in other words")
        return found

    @cached_property
    def _words(self) -> tuple[TfidfVectorizer, Any]:
        """The vectorizer, and a row a query."""
        words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        return words, words.fit_transform([query_of(query.prompt) for query in self.bank.queries])
