"""A judge for trainers that ask for one response at a time. In: criteria, prompt, response. Out: a reward in nats.

Such trainers ask from many processes, so that nothing is standardized here: each would do it by other numbers. verl and
OpenRLHF cannot leave a response out: one without a reward raises, unless whoever trains says what it is worth.
"""

from __future__ import annotations

import threading
from pathlib import Path

from crm.judges import Judge
from crm.rewards.rl.turns import Turns, conversation
from crm.rewards.scoring import Group, open_rewards


class SingleRewards:
    """Rewards one by one; threads wait for each other.

    ``failed_reward`` (nats) is what counts where the judge reads nothing; None raises instead.
    """

    def __init__(self, judge: str | Path | Judge, failed_reward: float | None = None) -> None:
        self._rewards, self.failed_reward = open_rewards(judge), failed_reward
        self._lock = threading.Lock()

    def of(
        self, criteria: tuple[str, ...], prompt: Turns, response: Turns | None, anchor: Turns | None
    ) -> tuple[float, bool]:
        """The reward, and whether there is none, so that it is ``failed_reward``; a ``response`` of None is not read.

        Raises ``ValueError`` for a judge that only compares and has no ``anchor``, and for a response that is not read.
        """
        if anchor is None and not self._rewards.pointwise:
            raise ValueError("anchor: this judge only compares; give an answer to compare with, or use a scalar head")
        if response is not None:
            prompt, response = conversation(prompt, response)
            group = Group(criteria, prompt, (response,), None if self._rewards.pointwise else anchor)
            with self._lock:
                reward = self._rewards.of_groups([group])[0][0]
            if reward is not None:
                return reward, False
        if self.failed_reward is None:
            raise ValueError(
                "response: the judge gave it no reward (it is longer than the judge reads, or holds half a character), "
                "and this trainer cannot leave it out; shorten responses, or say what such a one is worth: "
                "failed_reward=..."
            )
        return self.failed_reward, True
