"""Train one policy by TRL's GRPO and measure its course.

The course goes on until gold is lost or the steps end, without anything that holds the policy back (``beta`` 0). The
selected policy is the last one that is at most `BUDGET` away from the start: a rule that knows no gold.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from crm.io.draws import generator
from crm.io.files import replace_file
from crm.model.manifest import read_manifest
from crm.rewards.rl import grpo_reward
from crm.rewards.scoring import Rewards, open_rewards
from experiments.grpo.measure import Ask, gold, held_out_queries, proxies, won, write_all
from experiments.grpo.start import LONGEST, all_queries, conversation

DONE = "course.json"
GROUP, PROMPTS = 8, 8
"""Responses to a prompt, and prompts of a step."""
BUDGET = 5.0
"""Nats of KL to the start, a response: the selected policy has no more."""
LOST = 0.9
"""Share of degenerate texts from which on there is nothing left to see."""


@dataclass(frozen=True)
class Policy:
    """One policy to train. With several criteria each prompt shows one of them; with one the policy never sees it."""

    name: str
    criteria: tuple[str, ...]
    judge: str
    seed: int
    steps: int
    measured: tuple[int, ...]
    rate: float = 1.5e-4

    @property
    def conditioned(self) -> bool:
        """Whether the prompt shows the criterion."""
        return len(self.criteria) > 1

    def asks(self, every: bool) -> list[Ask]:
        """What it is measured on: each query under ``every`` criterion, or under one of them in turn."""
        asked = list(held_out_queries().values())
        if every:
            return [Ask(query, criterion, self.conditioned) for criterion in self.criteria for query in asked]
        return [
            Ask(query, self.criteria[place % len(self.criteria)], self.conditioned) for place, query in enumerate(asked)
        ]


def tune(policy: Policy, start: Path, folder: Path) -> Path:
    """Train, measure, save; what is there from an earlier call with the same settings is not made again."""
    done = folder / DONE
    wanted = json.loads(json.dumps(asdict(policy))) | {"made_from": made_from(policy, start)}
    if done.is_file() and json.loads(done.read_text(encoding="utf-8"))["policy"] == wanted:
        return folder
    import torch
    from transformers import AutoTokenizer, Qwen3ForCausalLM

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(start, trust_remote_code=False)
    models: list[Any] = [Qwen3ForCausalLM.from_pretrained(start, attn_implementation="eager") for _ in range(2)]
    rewards = open_rewards(policy.judge)
    judged = grpo_reward(rewards.judge, prompt="query" if policy.conditioned else None)
    course = Course(policy, rewards, models[1], tokenizer)
    trainer = _trainer(policy, models[0], tokenizer, judged, folder, course)
    course.measure(models[0], 0)
    trainer.train()
    models[0].load_state_dict(course.selected)
    selected = course.point(models[0], course.selected_step, policy.asks(every=True))
    models[0].save_pretrained(folder / "policy")
    tokenizer.save_pretrained(folder / "policy")
    replace_file(done, json.dumps({"policy": wanted, "course": course.points, "selected": selected}) + "\n")
    return folder


def made_from(policy: Policy, start: Path) -> list[str]:
    """Digests of the weights that it starts from and of the reward model."""
    weights = hashlib.sha256((start / "model.safetensors").read_bytes()).hexdigest()
    return [weights, str(read_manifest(Path(policy.judge))["digest"])]


def _trainer(policy: Policy, model: Any, tokenizer: Any, judged: Any, folder: Path, course: Course) -> Any:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Measure(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step in policy.measured:
                control.should_training_stop = course.measure(model, state.global_step)

    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        per_device_train_batch_size=GROUP * PROMPTS,
        num_generations=GROUP,
        max_completion_length=LONGEST,
        max_steps=policy.steps,
        learning_rate=policy.rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=5,
        beta=0.0,
        seed=policy.seed,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        save_strategy="no",
        report_to=[],
        logging_steps=10,
        disable_tqdm=True,
    )
    rows = [_row(policy, number) for number in range(policy.steps * PROMPTS)]
    return GRPOTrainer(
        model,
        reward_funcs=judged,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[Measure()],
    )


def _row(policy: Policy, number: int) -> dict[str, Any]:
    query = generator(policy.seed, 0, str(number), "grpo").choice(all_queries()).text
    criterion = policy.criteria[number % len(policy.criteria)]
    return {
        "prompt": conversation(query, criterion if policy.conditioned else None),
        "criteria": criterion,
        "query": query,
    }


class Course:
    """Proxy, gold, KL and length of a policy at some steps, on the held-out queries."""

    def __init__(self, policy: Policy, rewards: Rewards, start: Any, tokenizer: Any) -> None:
        self.policy, self.rewards, self.start, self.tokenizer = policy, rewards, start, tokenizer
        self.points: list[dict[str, Any]] = []
        self.against: dict[Ask, int | None] = {}
        self.selected: dict[str, Any] = {}
        self.selected_step = 0

    def measure(self, model: Any, step: int) -> bool:
        """Add a point to the course; whether gold is lost, so that going on shows nothing more."""
        point = self.point(model, step, self.policy.asks(every=False))
        self.points.append(point)
        if max(earlier["kl"] for earlier in self.points) <= BUDGET:
            self.selected, self.selected_step = copy.deepcopy(model.state_dict()), step
        return bool(point["degenerate"] >= LOST)

    def point(self, model: Any, step: int, asks: Sequence[Ask]) -> dict[str, Any]:
        """Means over the asks; ``won`` is of each, against what the start wrote to the same ask."""
        written = write_all(model, self.start, self.tokenizer, asks, 1000 * self.policy.seed + step)
        scores = proxies(self.rewards, asks, written.texts)
        golds = [gold(ask.criterion, text) for ask, text in zip(asks, written.texts, strict=True)]
        others = self._start_golds(asks)
        return {
            "step": step,
            "proxy": fmean(score for score in scores if score is not None),
            "gold": fmean(known) if (known := [level for level in golds if level is not None]) else None,
            "degenerate": golds.count(None) / len(golds),
            "won": [won(own, other) for own, other in zip(golds, others, strict=True)],
            "kl": fmean(written.kl),
            "tokens": fmean(written.tokens),
            "texts": written.texts,
        }

    def _start_golds(self, asks: Sequence[Ask]) -> list[int | None]:
        """What the start wrote, drawn once with a seed of its own."""
        missing = [ask for ask in asks if ask not in self.against]
        if missing:
            texts = write_all(self.start, self.start, self.tokenizer, missing, 1000 * self.policy.seed + 999).texts
            self.against |= {ask: gold(ask.criterion, text) for ask, text in zip(missing, texts, strict=True)}
        return [self.against[ask] for ask in asks]
