"""The index of a bank: the judge's own scores, files that no kill, flipped byte or second process can spoil."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from crm.judges.crm_judge import CrmJudge
from crm.leaderboard import index as indexing
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.index import BankIndex, open_index
from crm.leaderboard.indexed_bank import IndexedBank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.schema import Message
from tests.conftest import rounding

WISHES = (("Prefers concise answers",), ("Wants sources", "No jargon"), ())


def make_bank(queries: int = 30, models: int = 3, huge: bool = False) -> Bank:
    """Two queries have one text; with ``huge`` a response is longer than the tests' models read."""
    texts = [f"Why is number {n % (queries - 1)} odd?" for n in range(queries)]
    rows = tuple(BankQuery(f"q{n}", (Message("user", text),), "TS"[n % 2]) for n, text in enumerate(texts))
    words = random.Random(1)
    draw = lambda: " ".join(words.choice(("yes", "no", "rain", "see [1]")) for _ in range(words.randint(1, 9)))  # noqa: E731
    answers = {f"m{place}": {row.id: draw() for row in rows} for place in range(models)}
    if huge:
        answers["m1"]["q3"] = "word " * 400
    return Bank("small", "m0", rows, answers)


@pytest.fixture
def judge(make_model: Any, make_encoder: Any) -> CrmJudge:
    return CrmJudge(make_model("late"), make_encoder("late", max_length=200), batch_size=8, model_digest="m")


def build(judge: CrmJudge, bank: Bank, folder: Path, **given: Any) -> BankIndex:
    assert judge.late_reader is not None
    return open_index(judge.late_reader, bank, folder, model_digest="m", progress=False, **given)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.suffix in (".npy", ".json")}


def scores(judge: CrmJudge, index: BankIndex) -> np.ndarray:
    assert judge.late_reader is not None
    return index.scores(torch.stack([judge.late_reader.user_vector(wish) for wish in WISHES]))


@pytest.mark.parametrize("huge", [False, True], ids=["all are read", "one is too long"])
def test_its_scores_and_rankings_are_the_judges_own(judge: CrmJudge, tmp_path: Path, huge: bool) -> None:
    """Up to half a unit in the last place of float16, for each of the D numbers of a vector."""
    bank = make_bank(huge=huge)
    indexed = IndexedBank(judge.late_reader, bank, tmp_path, model_digest="m", progress=False)
    found = scores(judge, indexed.index)
    for place, wish in enumerate(WISHES):
        matches, _ = score_bank(judge, bank, wish, baseline="m0", folder=tmp_path / "kept", progress=False)
        vector = judge.late_reader.user_vector(wish)
        both = [judge.late_reader.responses([(row.prompt, (Message("assistant", bank.responses[name][row.id]),))])[0]
                for row in bank.queries[:6] for name in bank.authors]  # fmt: skip
        products = torch.stack([row for row in both if not row.isnan().any()]) * vector
        allowed = 2**-11 * float(products.abs().sum(dim=1).max()) * 2 + rounding(products)
        for match in matches:
            row = next(number for number, query in enumerate(bank.queries) if query.id == match.query_id)
            own = found[place, row, bank.authors.index(match.candidate)]
            if match.score_candidate is None:
                assert np.isnan(own) and (match.query_id, match.candidate) == ("q3", "m1") and huge
            else:
                assert own == pytest.approx(match.score_candidate, abs=allowed)
        board, expected = Leaderboard(indexed.outcomes(wish)), Leaderboard(matches)
        assert board.unread == expected.unread == ({"m1": 1} if huge else {})
        assert board.win_rates() == pytest.approx(expected.win_rates(), abs=allowed)
        assert board.outcomes.words.tolist() == expected.outcomes.words.tolist()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_build_that_was_stopped_ends_in_the_same_files(
    judge: CrmJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    bank = make_bank()
    whole = scores(judge, build(judge, bank, tmp_path / "whole"))
    make, made = indexing._make_shard, []

    def stop(*given: Any) -> Any:
        made.append(1)
        if len(made) > after:
            raise KeyboardInterrupt
        return make(*given)

    monkeypatch.setattr(indexing, "_make_shard", stop)
    with pytest.raises(KeyboardInterrupt):
        build(judge, bank, tmp_path / "part")
    assert len(contents(tmp_path / "part")) == 2 * after
    monkeypatch.setattr(indexing, "_make_shard", make)
    again = scores(judge, build(judge, bank, tmp_path / "part"))
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    assert (again == whole).all()


@pytest.mark.parametrize("part", ["start", "middle", "end"])
@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_a_flipped_byte_is_found_and_only_its_shard_made_again(
    judge: CrmJudge, tmp_path: Path, caplog: pytest.LogCaptureFixture, suffix: str, part: str
) -> None:
    bank = make_bank()
    build(judge, bank, tmp_path)
    before = contents(tmp_path)
    victim = sorted(tmp_path.rglob(f"*{suffix}"))[1]
    data = bytearray(victim.read_bytes())
    data[{"start": 0, "middle": len(data) // 2, "end": len(data) - 1}[part]] ^= 1
    victim.write_bytes(bytes(data))
    times = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    with caplog.at_level(logging.WARNING):
        build(judge, bank, tmp_path)
    assert f"{victim.with_suffix('.npy')} is damaged and is made again" in caplog.text
    assert contents(tmp_path) == before
    changed = {path.name for path in tmp_path.rglob("*.npy") if path.stat().st_mtime_ns != times[path.name]}
    assert changed == {victim.with_suffix(".npy").name}


def test_a_new_model_adds_its_own_responses_only(judge: CrmJudge, tmp_path: Path) -> None:
    bank = make_bank()
    first = scores(judge, build(judge, bank, tmp_path))
    before = contents(tmp_path)
    new = {**bank.responses, "m9": {query.id: f"new {query.id}" for query in bank.queries}}
    read: list[Any] = []
    reader = judge.late_reader
    assert reader is not None
    responses = reader.responses
    reader.responses = lambda texts: (read.extend(texts), responses(texts))[1]  # type: ignore[method-assign]
    found = scores(judge, build(judge, replace(bank, responses=new), tmp_path))
    assert {turns[0].content for _, turns in read} == {f"new {query.id}" for query in bank.queries}
    assert before.items() <= contents(tmp_path).items() and (found[:, :, :3] == first).all()
    read.clear()
    part = scores(judge, build(judge, bank.select(["T"]), tmp_path))
    assert not read and (part == first[:, ::2]).all()


def test_other_models_templates_and_precisions_have_other_folders(judge: CrmJudge, make_encoder: Any) -> None:
    reader = judge.late_reader
    assert reader is not None
    first = indexing.index_digest(reader, "m")
    assert indexing.index_digest(reader, "other") != first
    reader.encoder = make_encoder("late", max_length=201)
    assert indexing.index_digest(reader, "m") != first


def test_scores_are_numpys_on_the_stored_numbers(judge: CrmJudge, tmp_path: Path) -> None:
    bank = make_bank(queries=9)
    index = build(judge, bank, tmp_path)
    wishes = torch.randn(4, index.size, generator=torch.Generator().manual_seed(1))
    files = {path.stem: np.load(path) for path in tmp_path.rglob("*.npy")}
    vectors = {}
    for path in tmp_path.rglob("*.json"):
        keys = __import__("json").loads(path.read_text())["keys"]
        vectors |= dict(zip(keys, files[path.stem].astype(np.float64), strict=True))
    expected = [
        [vectors[indexing.text_key(query.prompt, bank.responses[name][query.id])] for name in bank.authors]
        for query in bank.queries
    ]
    products = np.einsum("qmd,ud->uqm", np.array(expected), wishes.double().numpy())
    assert index.scores(wishes) == pytest.approx(products, abs=1e-4 * np.abs(products).max())
    assert index.bytes == sum(file.nbytes for file in files.values())


def test_weights_add_up_and_what_is_too_long_is_named(judge: CrmJudge, tmp_path: Path) -> None:
    indexed = IndexedBank(judge.late_reader, make_bank(), tmp_path, model_digest="m", progress=False)
    one, two = (indexed.outcomes((text,)).scores for text in ("Wants sources", "No jargon"))
    both = indexed.outcomes(("Wants sources", "No jargon"), (2.0, -0.5))
    assert both.scores == pytest.approx(2 * one - 0.5 * two, abs=1e-5 * np.abs(one).max())
    turned, plain = (
        Leaderboard(indexed.outcomes(("No jargon",), (-1.0,))),
        Leaderboard(indexed.outcomes(("No jargon",))),
    )
    for name, rate in plain.win_rates().items():
        assert turned.win_rates()[name] == pytest.approx(1 - rate, abs=1e-6)
    with pytest.raises(ValueError, match=r"criteria: 'long long .* is longer than the 200 tokens that are read"):
        indexed.outcomes(("fine", "long " * 300))
    with pytest.raises(ValueError, match="weights: 1 for 2 criteria"):
        indexed.outcomes(("a", "b"), (1.0,))


def test_words_of_many_who_ask_at_once_are_read_together(judge: CrmJudge, tmp_path: Path) -> None:
    """Each once; and one whose words cannot be read fails alone."""
    read: list[list[str]] = []

    class Slow:
        encoder, precision, size = judge.late_reader.encoder, "32-true", judge.late_reader.size
        shared = judge.late_reader.shared

        def responses(self, texts: Any) -> Any:
            return judge.late_reader.responses(texts)

        def criterion_vectors(self, texts: list[str]) -> Any:
            read.append(list(texts))
            time.sleep(0.05)
            if "fail" in texts:
                raise RuntimeError("the reader broke")
            return judge.late_reader.criterion_vectors(texts)

    reader: Any = Slow()
    indexed = IndexedBank(reader, make_bank(), tmp_path, model_digest="m", progress=False)
    lines = [f"Wants {number} sources" for number in range(12)]
    with ThreadPoolExecutor(24) as pool:
        failing = pool.submit(indexed.scores, ["fail"])
        found = list(pool.map(lambda text: indexed.scores([text])[0], lines * 2))
    with pytest.raises(RuntimeError, match="the reader broke"):
        failing.result()
    assert len(read) < len(lines) and len(found) == 24
    for text, scores in zip(lines * 2, found, strict=True):
        alone = indexed.index.scores(judge.late_reader.criterion_vectors([text]))[0]
        assert scores == pytest.approx(alone, abs=1e-4 * float(np.nanmax(np.abs(alone))), nan_ok=True)


def in_process(judge: CrmJudge, bank: Bank, folder: Path, pause: float = 0.0) -> Any:
    """A forked process that builds, and waits before every shard's file and before its marker."""

    def work() -> None:
        torch.set_num_threads(1)
        replace_file = indexing.replace_file
        indexing.replace_file = lambda *given: (time.sleep(pause), replace_file(*given))[1]  # type: ignore[attr-defined]
        build(judge, bank, folder)
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    return process


@pytest.mark.slow
def test_twenty_kills_at_random_moments_change_nothing(judge: CrmJudge, tmp_path: Path) -> None:
    bank = make_bank(queries=80)
    started = time.monotonic()
    in_process(judge, bank, tmp_path / "whole", pause=0.02).join()
    takes = time.monotonic() - started
    moments = random.Random(5)
    for _ in range(20):
        process = in_process(judge, bank, tmp_path / "part", pause=0.02)
        time.sleep(moments.uniform(0.0, takes / 5))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    markers = len(list((tmp_path / "part").rglob("*.json")))
    print(f"{markers} of 10 shards were there after 20 kills; a whole build takes {takes:.2f} s")
    build(judge, bank, tmp_path / "part")
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_at_once_end_with_the_same_files(judge: CrmJudge, tmp_path: Path) -> None:
    bank = make_bank(queries=80)
    build(judge, bank, tmp_path / "whole")
    both: list[Callable[[], Any]] = [lambda: in_process(judge, bank, tmp_path / "both", pause=0.01)] * 2
    processes = [start() for start in both]
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    assert contents(tmp_path / "both") == contents(tmp_path / "whole")


def test_processes_of_one_job_share_the_work(judge: CrmJudge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins in the middle; what it made is not made again by the first."""
    bank = make_bank(queries=32)
    build(judge, bank, tmp_path / "whole")
    made: list[tuple[str, ...]] = []
    make = indexing._make_shard

    def noted(*given: Any) -> Any:
        made.append(given[1])
        if len(made) == 2:  # the other process is as far as that: it has done the second half
            build(judge, bank, tmp_path / "both", processes=type("Second", (), {"rank": 1, "size": 2})())
        return make(*given)

    monkeypatch.setattr(indexing, "_make_shard", noted)
    build(judge, bank, tmp_path / "both", processes=type("First", (), {"rank": 0, "size": 2})())
    assert contents(tmp_path / "both") == contents(tmp_path / "whole")
    assert len(made) == 5 and len(set(made)) == 4
