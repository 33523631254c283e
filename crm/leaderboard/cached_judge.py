"""A judge that reads a bank once for all users. In: a criteria-last model and a bank's comparisons. Out: readings.

What the model makes of the conversations is kept; for a user only the criteria are computed, behind each of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from crm.judges import Asked, CrmJudge, Reading
from crm.leaderboard.conversations import Continuation, Conversations, KeepingError
from crm.leaderboard.kv_cache_store import KVCacheStore, name_of, rows_of
from crm.model.attention.kv_cache import KVCache
from crm.model.attention.prefill import extend, prefill
from crm.model.batching.packs import Packing
from crm.model.encoding import Encoder, Order
from crm.model.reward_model import RewardModel, read_head
from crm.schema import Comparison

ORDERS: tuple[Order, ...] = ("ab", "ba")
Outcome = tuple[float, float | None, float | None]
"""Of a conversation: the logit for the response shown first, and the scores; of the scalar head a score, twice."""


@dataclass
class _Work:
    """What one pass has to give: texts by criteria, and the comparisons that are complete after it."""

    texts: dict[tuple[str, ...], set[int]] = field(default_factory=lambda: defaultdict(set))
    complete: list[tuple[Asked, tuple[int, ...]]] = field(default_factory=list)


class CachedJudge(CrmJudge):
    """A `CrmJudge` of one bank's ``comparisons``, whose criteria do not matter here, for as many users as come.

    States of the conversations go into ``memory_gb`` of the model's device, then into files of ``disk_gb`` in all in
    ``folder``; what fits neither is computed anew for every call of `read`, once for all criteria in it. They are kept
    in float32, or in bfloat16 for the precision ``bf16-mixed``; another ``dtype`` shows in the digest. ``by_query`` is
    for a judge that is asked for one query after the other: see `Conversations`.
    Raises ``ValueError`` for files without a ``folder`` or without ``model_digest``, which keeps models apart, and
    `KeepingError` for a model with the criteria first, or of an architecture that cannot go on from states.
    """

    def __init__(
        self,
        model: RewardModel,
        encoder: Encoder,
        comparisons: Sequence[Comparison],
        *,
        batch_size: int,
        precision: str = "32-true",
        packing: Packing | None = None,
        model_digest: str = "",
        memory_gb: float = 0.0,
        disk_gb: float = 0.0,
        folder: Path | None = None,
        dtype: torch.dtype | None = None,
        by_query: bool = False,
    ) -> None:
        super().__init__(
            model, encoder, batch_size=batch_size, precision=precision, packing=packing, model_digest=model_digest
        )
        if not model.reads_forests:
            raise KeepingError(f"model: {type(model.backbone).__name__} is not known to go on from kept states")
        if disk_gb and not (folder and model_digest):
            raise ValueError(f"disk_gb={disk_gb:g}: files of states need a folder and the model_digest of its manifest")
        self._rows = list(comparisons)
        usual = torch.bfloat16 if precision == "bf16-mixed" else torch.float32
        self._dtype = dtype or usual
        self._mark = "" if self._dtype == usual else f"-states-{self._dtype}"
        self._conversations = Conversations(encoder, comparisons, by_query=by_query)
        self._starts = self._conversations.starts
        passes = range(len(self._starts) - 1)
        self._pass_of = [index for index in passes for _ in self._texts(index)]
        facts = (self.digest, str(self._dtype))
        self.states = KVCacheStore(
            [name_of(self._texts(index), *facts) for index in passes],
            [self._size(index) for index in passes],
            memory_gb=memory_gb,
            disk_gb=disk_gb,
            folder=folder,
        )

    @property
    def digest(self) -> str:
        """That of a `CrmJudge`, whose numbers these are, unless states are kept in a dtype of one's own."""
        return super().digest + self._mark

    @property
    def together(self) -> int:
        """1: passes are made of the bank's conversations, whichever of them are asked for."""
        return 1

    def score(self, criteria: Sequence[str]) -> list[Reading]:
        """Readings of the bank's comparisons in both orders for one user; too long ones are missing."""
        return self.score_many([criteria])[0]

    def score_many(self, users: Sequence[Sequence[str]]) -> list[list[Reading]]:
        """`score` of several users in one go: states that are kept nowhere are made once, not once a user."""
        if not self._rows:
            return [[] for _ in users]
        criteria = [replace(self._rows[0], criteria=tuple(user)).criteria for user in users]  # as a record has them
        rows = (replace(row, criteria=user) for user in dict.fromkeys(criteria) for row in self._rows)
        found: dict[tuple[str, ...], list[Reading]] = {user: [] for user in criteria}
        for readings in self.read([(row, order) for row in rows for order in ORDERS]):
            for reading in readings:
                found[reading.comparison.criteria].append(reading)
        return [found[user] for user in criteria]

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions, as `CrmJudge.read` gives them; what is not of the bank is read its way."""
        work, users, strangers = self._plan(comparisons)
        outcomes: dict[tuple[str, ...], dict[int, Outcome]] = {user: {} for user in users}
        for index in sorted(work):
            texts = work[index].texts
            needed = sorted(set().union(*texts.values()))
            cache, held = self._cache(index, needed)
            row = {number: place for place, number in enumerate(held)}
            for user, numbers in texts.items():
                rows = [row[number] for number in sorted(numbers)]
                outcomes[user].update(zip(sorted(numbers), self._outcomes(cache, rows, users[user]), strict=True))
            yield [
                self._reading(pair, [outcomes[pair[0].criteria][n] for n in ns]) for pair, ns in work[index].complete
            ]
        if strangers:
            yield from super().read(strangers)

    def _plan(
        self, comparisons: Sequence[Asked]
    ) -> tuple[dict[int, _Work], dict[tuple[str, ...], Continuation], list[Asked]]:
        """Work by pass, what every user adds, and comparisons of which a conversation is not known."""
        work: dict[int, _Work] = defaultdict(_Work)
        users: dict[tuple[str, ...], Continuation] = {}
        strangers = []
        for pair in comparisons:
            numbers, criteria = self._conversations.of(*pair), pair[0].criteria
            if numbers is None:
                strangers.append(pair)
                continue
            if criteria not in users:
                users[criteria] = self._conversations.continuation(criteria)
            if all(self._conversations.fits(number, users[criteria]) for number in numbers):
                for number in numbers:
                    work[self._pass_of[number]].texts[criteria].add(number)
                work[max(self._pass_of[number] for number in numbers)].complete.append((pair, numbers))
        return work, users, strangers

    def _texts(self, index: int) -> list[tuple[int, ...]]:
        return self._conversations.texts[self._starts[index] : self._starts[index + 1]]

    def _shape(self, index: int) -> tuple[int, ...]:
        """Of the keys of a pass, and of its values: (layers, texts, key heads, tokens, size of a head)."""
        backbone, texts = self.model.backbone, self._texts(index)
        attention = backbone.layers[0].self_attn  # type: ignore[union-attr,index]
        size = int(attention.head_dim)
        heads = attention.k_proj.out_features // size
        return (len(backbone.layers), len(texts), int(heads), len(texts[-1]), size)  # type: ignore[arg-type]

    def _size(self, index: int) -> int:
        return 2 * self._dtype.itemsize * int(torch.Size(self._shape(index)).numel())

    @torch.inference_mode()
    def _cache(self, index: int, needed: Sequence[int]) -> tuple[KVCache, Sequence[int]]:
        """States of a pass, or of its ``needed`` texts alone where none are kept; and whose they are."""

        def make(texts: Sequence[tuple[int, ...]]) -> KVCache:
            with self._autocast:
                return prefill(self.model, texts, self._pad_id, self._dtype)

        if self.states.places[index] == "nowhere":
            return make([self._conversations.texts[number] for number in needed]), needed
        kept = self.states.get(index, self._shape(index), self._dtype, lambda: make(self._texts(index)))
        return kept, range(self._starts[index], self._starts[index + 1])

    @torch.inference_mode()
    def _outcomes(self, cache: KVCache, rows: Sequence[int], user: Continuation) -> list[Outcome]:
        """What the head says of some texts of a pass, after a user's criteria."""
        hidden = len(self._conversations.lead) - user.shared
        some = rows_of(cache, rows, hidden).to(self.model.device)
        with self._autocast:
            states: Tensor = extend(self.model, some, user.ids, user.reads)
        output = read_head(self.model.head, self.model.score, states.expand(-1, 2, -1))
        logits = output.preference_logit.tolist()
        if output.scores is None:
            return [(logit, None, None) for logit in logits]
        return [(logit, *scores) for logit, scores in zip(logits, output.scores.tolist(), strict=True)]

    def _reading(self, asked: Asked, outcomes: Sequence[Outcome]) -> Reading:
        comparison, order = asked
        if len(outcomes) == 2:  # the scalar head: a conversation a response
            first, second = (score for _, score, _ in outcomes)
            assert first is not None and second is not None
            logit: float = first - second
        else:
            ((logit, first, second),) = outcomes
        if order == "ba":
            logit, first, second = -logit, second, first
        return Reading(comparison, order, logit, first, second)
