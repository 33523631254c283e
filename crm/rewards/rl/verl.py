"""A judge as verl's reward function. In: what its reward managers pass for one sample. Out: ``score`` and ``failed``.

A file of two lines, named by ``custom_reward_function.path``:

    from crm.rewards.rl import verl_reward
    compute_score = verl_reward("model/")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crm.judges import Judge
from crm.rewards.rl.single import SingleRewards
from crm.rewards.rl.turns import answer_turns, completion_turns, criteria_texts, prompt_turns


def verl_reward(
    judge: str | Path | Judge, *, failed_reward: float | None = None
) -> Callable[..., dict[str, float | int]]:
    """``compute_score`` for verl.

    The column ``extra_info`` of its data set holds ``criteria`` (one text, a list, or its JSON text), ``prompt`` (text
    or messages) and, for a judge that only compares, ``anchor``, an answer. Every answer has the same keys: ``score``
    in nats, and ``failed``, 1 where it is ``failed_reward`` because the judge gave none.
    """
    rewards = SingleRewards(judge, failed_reward)

    def compute_score(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any], **_: Any
    ) -> dict[str, float | int]:
        """Raises ``ValueError`` where ``extra_info`` lacks something."""
        for name in ("criteria", "prompt"):
            if name not in extra_info:
                raise ValueError(f"extra_info: has no {name!r}; add it to the data set's column extra_info")
        anchor = extra_info.get("anchor")
        score, failed = rewards.of(
            criteria_texts(_plain(extra_info["criteria"]), "extra_info.criteria"),
            prompt_turns(_plain(extra_info["prompt"]), "extra_info.prompt"),
            completion_turns(solution_str),
            None if anchor is None else answer_turns(_plain(anchor), "extra_info.anchor"),
        )
        return {"score": score, "failed": int(failed)}

    return compute_score


def _plain(given: Any) -> Any:
    """Lists of a Parquet file reach verl as arrays of numpy."""
    return given.tolist() if hasattr(given, "tolist") else given
