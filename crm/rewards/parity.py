"""Does a server say what the folder says? In: a model's folder and the address of a server. Out: a verdict in words.

``python -m crm.rewards.parity <folder> <url>`` scores the same built-in conversations by the folder and over HTTP: by
``/v1/score`` of this project, or by ``/classify`` or ``/pooling`` as vLLM has them. It names a softmax or a sigmoid
that crept in. Exit code 0: the same numbers; 1: others; 2: a mistake.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crm.judges import CrmJudge, RewardClient, open_checkpoint
from crm.model.backbone import show_loading
from crm.model.encoding import pointwise_messages
from crm.rewards.scoring import Group, Rewards
from crm.schema import Message

Numbers = NDArray[np.float64]
TOLERANCE = 0.02
"""Nats: a model in bfloat16 is that far from itself in float32."""
CRITERIA = (("Prefers concise answers",), ("Prefers detailed answers", "Wants examples"), ("Préfère le français",))
QUERIES = ("How can I change the homework for my class?", "Why is the sky blue?", "東京で何を食べる？ 🍜")
RESPONSES = (
    "In brief, just the homework.",
    "Students rely on the homework. In detail: first the homework, then the tutor, then the quiz. For example, a quiz.",
    "Sorry.\n\n- one\n- two\n",
)


def groups() -> list[Group]:
    """What is scored: criteria, queries and responses of three kinds each, 27 conversations."""
    responses = tuple((Message("assistant", text),) for text in RESPONSES)
    return [Group(criteria, (Message("user", query),), responses) for criteria in CRITERIA for query in QUERIES]


def of_folder(judge: CrmJudge) -> Numbers:
    """The rewards that the folder gives."""
    return np.array([reward for group in Rewards(judge).of_groups(groups()) for reward in group], dtype=float)


def of_score(address: str, key: str | None, http: httpx.BaseTransport | None = None) -> Numbers:
    """The rewards of a server of this project."""
    asked = [
        {
            "criteria": group.criteria,
            "messages": [{"role": turn.role, "content": turn.content} for turn in group.prompt],
            "responses": [turns[0].content for turns in group.responses],
        }
        for group in groups()
    ]
    with RewardClient(address, key=key, deadline_s=60, transport=http) as client:
        return np.array([reward for group in client.score(asked) for reward in group.rewards], dtype=float)


def texts_of(judge: CrmJudge) -> list[str]:
    """The conversations as the folder's chat template writes them."""
    write = judge.encoder.tokenizer.apply_chat_template
    return [
        write(pointwise_messages(group.criteria, group.prompt, response), tokenize=False)
        for group in groups()
        for response in group.responses
    ]


def of_classify(
    judge: CrmJudge, address: str, route: str, model: str | None, http: httpx.BaseTransport | None = None
) -> Numbers:
    """What ``/classify`` or ``/pooling`` gives for the texts that the folder's chat template makes."""
    asked: dict[str, Any] = {"input": texts_of(judge), "use_activation": False, "add_special_tokens": False}
    asked |= {"model": model} if model else {}
    asked |= {"task": "classify"} if route == "pooling" else {}
    with httpx.Client(base_url=address, timeout=60, transport=http) as client:
        answer = client.post(f"/{route}", json=asked)
    if answer.status_code != 200:
        raise ValueError(f"{address}/{route}: status {answer.status_code}: {answer.text[:200]}")
    field = "probs" if route == "classify" else "data"
    try:
        rows = sorted(answer.json()["data"], key=lambda row: row["index"])
        return np.array([np.ravel(row[field])[-1] for row in rows], dtype=float)
    except (KeyError, TypeError, ValueError, IndexError):
        raise ValueError(f"{address}/{route}: no list of numbers in its answer: {answer.text[:200]}") from None


def verdict(ours: Numbers, theirs: Numbers, tolerance: float = TOLERANCE) -> tuple[bool, str]:
    """Whether the numbers (N,) agree, and what was done to them where they do not."""
    if ours.shape != theirs.shape:
        return False, f"{len(theirs)} numbers for {len(ours)} conversations"
    if not np.isfinite(theirs).all():
        return False, f"{np.count_nonzero(~np.isfinite(theirs))} of {len(theirs)} conversations have no number"
    apart = float(np.abs(ours - theirs).max())
    if apart <= tolerance:
        return True, f"the same rewards: at most {apart:.2g} apart in {len(ours)}, which spread over {np.ptp(ours):.2g}"
    if np.abs(theirs - 1).max() < 1e-6:
        return False, "a softmax over one label: every number is 1, whatever was sent; ask for the logit"
    if np.abs(expit(ours) - theirs).max() <= tolerance / 2:
        return False, "a sigmoid: the numbers are sigmoids of the rewards; send use_activation=false"
    slope, shift = np.polyfit(ours, theirs, 1)
    if np.abs(slope * ours + shift - theirs).max() <= tolerance * abs(slope):
        return False, f"scaled and shifted: {slope:.3g} x reward + {shift:.3g}; a mean and std, or a bias, crept in"
    return False, f"other numbers, up to {apart:.2g} apart: another model, template or length, or tokens added to texts"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the verdict is printed."""
    parser = argparse.ArgumentParser(prog="python -m crm.rewards.parity", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", help="the model's folder or hub id, of head=scalar for /classify and /pooling")
    parser.add_argument("url", help="such as http://127.0.0.1:8000")
    parser.add_argument("--route", choices=("score", "classify", "pooling"), default="score", help="score: serve.py's")
    parser.add_argument("--model", help="the name under which the server knows the model")
    parser.add_argument("--key-variable", default="CRM_SERVER_KEY", help="environment variable with serve.py's key")
    given = parser.parse_args(arguments)
    show_loading(False)
    try:
        judge, manifest = open_checkpoint(given.folder, batch_size=1, precision="32-true")
        if given.route != "score" and manifest["head"] != "scalar":
            raise ValueError(f"{given.folder}: head={manifest['head']} has no single label; --route=score compares it")
        ours = of_folder(judge)
        if given.route == "score":
            theirs = of_score(given.url, os.environ.get(given.key_variable))
        else:
            theirs = of_classify(judge, given.url, given.route, given.model)
    except (ValueError, OSError, httpx.HTTPError) as error:
        print(f"crm.rewards.parity: {error}", file=sys.stderr)
        return 2
    same, words = verdict(ours, theirs)
    print(words)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
