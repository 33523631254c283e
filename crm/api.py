"""The Python API: load a judge, score and compare responses, rank LLMs, train; text in, numbers and tables out.

from crm import load_bank, load_judge, train

judge = load_judge("runs/mine")  # a run folder, a model folder, or owner/name of a hub
judge.score("Explain DNS", ["Short.", "Long ..."], criteria="Prefers concise answers")
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from numbers import Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import torch
from scipy.special import expit

from crm.cli.mistakes import MISTAKES, explain
from crm.cli.words import rewrite_all, setting_words
from crm.config import compose, hydra_value
from crm.data.public.banks import FOLDERS
from crm.evaluation.run import run_evaluation
from crm.judges.config import AnyJudgeConfig, JudgeConfig
from crm.judges.open import OpenedJudge, check_judge, open_judge
from crm.judges.traits_judge import WHY, TraitsJudge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.config import BankConfig
from crm.leaderboard.matrix import open_matrix
from crm.leaderboard.own_words import OwnWords
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import rank_bank
from crm.model.folders import FILES, checkpoint_folder
from crm.model.model_card import CARD
from crm.rewards.rl import grpo_reward
from crm.rewards.scoring import NO_VERDICT, Group, Pair, Rewards, answer_turns, criteria_texts, prompt_turns
from crm.schema import GENERIC_CRITERION, short

Text = str | Sequence[Mapping[str, str]]
"""A text, or a conversation as ``[{"role": ..., "content": ...}, ...]``."""
Criteria = str | Sequence[str]
"""One criterion or several; none stand for what most people prefer, which a checkpoint knows and traits do not."""


def load_judge(checkpoint: str | Path, *, batch_size: int = 64, precision: str = "32-true") -> Judge:
    """A trained model as a judge, on a GPU where there is one.

    ``checkpoint`` is a run folder of `train`, the ``model`` folder in it, ``owner/name[@revision]`` of a hub, somebody
    else's reward model with one label, or ``traits``: own words, counted in the responses. ``precision`` is ``32-true``
    or ``bf16-mixed``.
    """
    kind = "traits" if str(checkpoint) == "traits" else "crm"
    settings: Any = {"batch_size": batch_size, "precision": precision, "progress": False}
    config = AnyJudgeConfig(JudgeConfig(name=kind), str(checkpoint), **settings)
    check_judge(config)
    folder = checkpoint_folder(checkpoint) if config.judge.name == "crm" else Path(config.judge.path or kind)
    return Judge(open_judge(config), config.judge.name, folder)


def load_bank(name: str | Path = "simulated", *, queries: int = 0, root: str | Path | None = None) -> Bank:
    """Responses of many LLMs to the same queries: ``alpacaeval``, ``justeval``, ``simulated``, or a folder.

    ``queries`` keeps at most that many (0: all), drawn evenly over topics. ``root`` is the folder of the public banks:
    the environment's ``CRM_DATA_ROOT``, else ``data``.
    """
    place = str(root or os.environ.get("CRM_DATA_ROOT", "data"))
    if str(name) in ("simulated", *FOLDERS) or not ("/" in str(name) or Path(name).expanduser().is_dir()):
        return open_bank(BankConfig(str(name), root=place, queries=queries))
    return open_bank(BankConfig("folder", path=str(Path(name).expanduser()), root=place, queries=queries))


def train(*words: str, folder: str | Path | None = None, **settings: Any) -> Run:
    """Train a model on one device: ``train(data="pairs.jsonl", model="tiny", schedule={"max_steps": 100})``.

    ``words`` are settings as on the command line of ``train.py`` (``"schedule.max_steps=100"``); ``settings`` are the
    same by name, those of a group as a mapping. ``folder`` defaults to ``outputs/train/<date>/<time>``; one with a
    finished run is refused without ``overwrite=True``.
    """
    from crm.training.resume import check_unfinished
    from crm.training.train import run_training

    place = Path(folder or f"outputs/train/{datetime.now():%Y-%m-%d/%H-%M-%S-%f}")
    given = ["trainer.devices=1", "trainer.progress=false", *words, *setting_words(settings)]
    config = _composed("train", given, place)
    check_unfinished(config)
    threads = torch.get_num_threads()
    try:
        outcome = run_training(config)
    finally:
        torch.set_num_threads(threads)
    return Run(place, outcome.validation_accuracy, outcome.validation_loss)


@dataclass(frozen=True)
class Run:
    """A finished training: its folder, and accuracy (None where all are ties) and loss (nats) in validation."""

    folder: Path
    accuracy: float | None
    loss: float

    @cached_property
    def judge(self) -> Judge:
        """The trained model."""
        return load_judge(self.folder)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The curves, a row a logged step: ``step``, ``train/loss``, ``validation/accuracy``, ..."""
        return pd.read_csv(self.folder / "metrics.csv")


class Judge:
    """A trained model that says which response a user with some criteria prefers; `load_judge` makes it.

    ``pointwise`` says whether it scores a response by itself; one that does not only compares.
    """

    def __init__(self, opened: OpenedJudge, kind: str, folder: Path) -> None:
        self._opened, self._rewards, self.folder = opened, Rewards(opened.judge), folder
        reader: Any = getattr(opened.judge, "encoder", opened.judge)
        self.head, self.max_length = getattr(reader, "head", kind), getattr(reader, "max_length", 0)
        self.pointwise = self._rewards.pointwise

    def __repr__(self) -> str:
        return f"Judge({str(self.folder)!r}, head={self.head!r})"

    def score(self, prompt: Text, responses: Sequence[Text] | str, criteria: Criteria = ()) -> list[float | None]:
        """A score (nats) for each response; the difference of two is the log-odds that the user prefers the first.

        A response that cannot be read has None, and a warning says why. Raises ``ValueError`` for a model that only
        compares: use `compare` or `best_of`.
        """
        if not self.pointwise:
            raise ValueError(
                f"head={self.head} compares two responses and gives none a score; use judge.compare(prompt, a, b, "
                "criteria), judge.best_of(prompt, responses, criteria), or train with head=scalar"
            )
        return self._scores(_group(prompt, responses, criteria))

    def compare(self, prompt: Text, first: Text, second: Text, criteria: Criteria = ()) -> float | None:
        """The probability in [0, 1] that the user prefers ``first``, from the mean log-odds of both orders.

        None, with a warning that says why, where there is no answer.
        """
        group = _group(prompt, [first, second], criteria)
        (logit,) = self._rewards.of_pairs([Pair(group, 0, 1)])
        if logit is None:
            warnings.warn(f"1 of 1 could not be judged: {self._why(group, (0, 1))}", stacklevel=2)
        return None if logit is None else float(expit(logit))

    def best_of(self, prompt: Text, responses: Sequence[Text], criteria: Criteria = ()) -> int:
        """The place of the response that the user prefers most: by score, or by the mean of all comparisons.

        What cannot be read is never chosen. Raises ``ValueError`` where none can be read.
        """
        group = _group(prompt, responses, criteria)
        scores = self._scores(group) if self.pointwise or len(group.responses) > 1 else [0.0]
        known = [place for place, score in enumerate(scores) if score is not None]
        if not known:
            raise ValueError(f"none of {len(scores)} responses can be judged: {self._why(group, range(len(scores)))}")
        return max(known, key=lambda place: scores[place] or 0.0)

    def rank(self, bank: Bank | str | Path, criteria: Criteria | Mapping[str, float] = ()) -> pd.DataFrame:
        """LLMs of ``bank``, best first: ``model``, ``win_rate``, ``low``, ``high``, ``rank``, ``n``, ``unread``.

        Win rates in [0, 1] are against the bank's baseline on ``n`` queries, with 95 % intervals; of a model ``unread``
        responses could not be read and count as lost. ``{criterion: weight}`` says how much each counts, below 0 where
        it is disliked; for head=late and traits. What was read is stored beside the model; of traits,
        ``.attrs["understood"]`` says how each clause was.
        """
        weights, wanted = _weights(criteria) if isinstance(criteria, Mapping) else [], _criteria(criteria)
        bank = bank if isinstance(bank, Bank) else load_bank(bank)
        judge = self._opened.judge
        if isinstance(judge, TraitsJudge):
            words = OwnWords(judge.reader, open_matrix(bank))
            understood = words.understood(wanted, weights)
            for unread in (each for each in understood if each.why):
                warnings.warn(str(unread), stacklevel=2)
            board = Leaderboard(words.outcomes(wanted, weights))
        else:
            understood = []
            board = rank_bank(self._opened, bank, wanted or (GENERIC_CRITERION,), weights, progress=False)
        if lost := board.explain_unread():
            warnings.warn(lost, stacklevel=2)
        table = board.frame()[["model", "win_rate", "low", "high", "rank", "n", "unread"]]
        table.attrs["understood"] = [str(each) for each in understood]
        return table

    def evaluate(self, data: str | Path | None = None, *words: str, **settings: Any) -> pd.DataFrame:
        """Accuracy in [0, 1] on held-out votes, a row a suite: ``suite``, ``accuracy``, ``low``, ``high``, ``n``.

        Suites end in + (the criteria of the user who voted) or - (of the other). ``data`` is a file, a folder or a
        public set; by default what the model was trained on. ``words`` and ``settings`` are those of ``evaluate.py``.
        """
        place = self._checkpoint("evaluate", "python evaluate.py judge=traits data=<votes> evaluates it")
        named = [] if data is None else [f"data={data}"]
        given = [f"checkpoint={hydra_value(str(place))}", "progress=false", *named, *words, *setting_words(settings)]
        given.append(f"predictions={hydra_value(str(self._opened.predictions))}")
        with TemporaryDirectory() as out:
            results = run_evaluation(_composed("evaluate", given, Path(out)), show=False)
        rows = [(row.suite, row.value, row.low, row.high, row.n) for row in results if row.metric == "accuracy"]
        return pd.DataFrame(rows, columns=["suite", "accuracy", "low", "high", "n"])

    def as_reward(self, **settings: Any) -> Any:
        """A reward function for TRL: ``GRPOTrainer(reward_funcs=judge.as_reward(), ...)``.

        ``settings`` are those of `crm.rewards.rl.grpo_reward`: ``criteria="likes"`` names another column of the data.
        """
        return grpo_reward(self._opened.judge, **settings)

    def push_to_hub(self, repo: str, *, private: bool = False) -> str:
        """Upload the model as ``owner/name`` and return its address; log in before with ``hf auth login``."""
        folder = self._checkpoint("upload", 'train(...).judge has one, and anybody can load_judge("traits")')
        from huggingface_hub import HfApi

        api = HfApi()
        address = api.create_repo(repo, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo, folder_path=folder, allow_patterns=[CARD, *FILES])
        return str(address)

    def _checkpoint(self, use: str, instead: str) -> Path:
        if isinstance(self._opened.judge, TraitsJudge):
            raise ValueError(f'load_judge("traits") has no checkpoint to {use}; {instead}')
        return self.folder

    def _scores(self, group: Group) -> list[float | None]:
        scores = self._rewards.of_groups([group])[0]
        if lost := [place for place, score in enumerate(scores) if score is None]:
            warnings.warn(f"{len(lost)} of {len(scores)} could not be judged: {self._why(group, lost)}", stacklevel=3)
        return scores

    def _why(self, group: Group, lost: Iterable[int]) -> str:
        """What keeps responses, by their places in ``group``, from being read."""
        if not isinstance(self._opened.judge, TraitsJudge):
            return f"prompt, response and criteria together are longer than the {self.max_length} tokens that it reads"
        words = dict.fromkeys(self._rewards.why_no_reward(group, place) for place in lost)
        return ", and ".join(WHY[word] for word in words if word != NO_VERDICT)


def _group(prompt: Text, responses: Sequence[Text] | str, criteria: Criteria) -> Group:
    """Checked texts. Raises ``ValueError`` naming what is blank or no text."""
    if isinstance(criteria, Mapping):
        raise ValueError("criteria: weights count in judge.rank alone; give a text or a list of texts")
    given = _listed(responses, "responses")
    if not given:
        raise ValueError("responses: expected one or more texts, got none")
    texts = tuple(answer_turns(text, f"responses[{place}]") for place, text in enumerate(given))
    return Group(_criteria(criteria), prompt_turns(prompt, "prompt"), texts)


def _criteria(given: Criteria | Mapping[str, float]) -> tuple[str, ...]:
    return criteria_texts(_listed(given, "criteria"), "criteria")


def _weights(criteria: Mapping[str, float]) -> list[float]:
    weights = list(criteria.values())
    if not all(isinstance(by, Real) and math.isfinite(by) for by in weights):
        raise ValueError(f"criteria={short(dict(criteria))}: expected finite numbers as weights")
    if weights and not any(weights):
        raise ValueError(f"criteria={short(dict(criteria))}: expected one weight at least that is not 0")
    return weights


def _listed(given: Any, name: str) -> list[Any]:
    """A text or several. Raises ``ValueError`` for what is neither."""
    if not isinstance(given, Iterable | None):
        raise ValueError(f"{name}={given!r}: expected a text, or a list of texts")
    return [given] if isinstance(given, str) else list(() if given is None else given)


def _composed(command: str, words: Sequence[str], run_dir: Path) -> Any:
    """The checked configuration of a command, its words read as on the command line."""
    try:
        return compose(command, rewrite_all(words, command, f"crm.{command}"), run_dir)
    except MISTAKES as error:
        raise ValueError(explain(error, command)) from None
