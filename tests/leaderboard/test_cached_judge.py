"""A bank read once for all users, against the same bank read whole for each."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Reading
from crm.leaderboard import conversations, kv_cache_files
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.cached_judge import ORDERS, CachedJudge
from crm.leaderboard.conversations import Conversations, KeepingError
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import bank_comparisons, race_bank, score_bank
from crm.model.attention.prefill import prefill
from crm.model.heads import LINEAR_HEADS
from crm.schema import GENERIC_CRITERION, Comparison, Message
from tests.conftest import rounding

USERS = [("Likes it short", "東京"), ("a",), (), ("\u0301 begins with an accent",), (GENERIC_CRITERION,), ("x " * 40,)]


@pytest.fixture()
def several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "PASS_TOKENS", 700)


@pytest.fixture()
def rows(many, comparisons) -> list[Comparison]:
    """Texts of many lengths and shapes."""
    return [*many, *(replace(row, id=f"other {row.id}") for row in comparisons)]


@pytest.fixture()
def keep(make_model, make_encoder, rows, several_passes) -> Any:
    """A kept judge of all rows, and a plain one of the same model."""

    def make(
        head: str = "scalar", architecture: str = "qwen3", max_length: int = 2048, **settings: Any
    ) -> tuple[CachedJudge, CrmJudge]:
        model, encoder = make_model(head, architecture), make_encoder(head, max_length, "criteria_last")
        given = {"batch_size": 8, "precision": settings.pop("precision", "32-true")}
        settings.setdefault("memory_gb", 1.0)
        return CachedJudge(model, encoder, rows, **given, **settings), CrmJudge(model, encoder, **given)

    return make


def asked(rows: list[Comparison], criteria: tuple[str, ...]) -> list[tuple[Comparison, Any]]:
    return [(replace(row, criteria=criteria), order) for row in rows for order in ORDERS]


def table(readings: list[Reading]) -> dict[tuple[str, str], torch.Tensor]:
    numbers = {
        (row.comparison.id, row.order): [
            row.preference_logit,
            *([] if row.score_a is None or row.score_b is None else [row.score_a, row.score_b]),
        ]
        for row in readings
    }
    assert len(numbers) == len(readings)
    return {key: torch.tensor(row) for key, row in numbers.items()}


def whole(judge: CrmJudge, rows: list[Comparison], criteria: tuple[str, ...]) -> dict[tuple[str, str], torch.Tensor]:
    return table([reading for portion in judge.read(asked(rows, criteria)) for reading in portion])


def assert_same(found: list[Reading], expected: dict[tuple[str, str], torch.Tensor], atol: float | None = None) -> None:
    """But for ``atol``, or for rounding in the dtype of the test."""
    numbers = table(found)
    assert numbers.keys() == expected.keys() and expected
    atol = rounding(torch.cat(list(expected.values()))) if atol is None else atol
    for key, row in expected.items():
        torch.testing.assert_close(numbers[key], row, rtol=0, atol=atol, msg=str(key))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_every_user_gets_the_numbers_of_a_whole_reading(head, architecture, keep, rows) -> None:
    kept, judge = keep(head, architecture)
    assert len(kept.states.places) > 3 and set(kept.states.places) == {"memory"}
    tables = []
    for criteria in USERS:
        expected = whole(judge, rows, criteria)
        assert len(expected) == 2 * (len(rows))
        assert_same(kept.score(criteria), expected)
        tables.append(torch.stack([expected[key][0] for key in sorted(expected)]))
    assert tables[0].std() > 0.01 and (tables[0] - tables[1]).abs().max() > 1e-3, "criteria matter to this model"


def test_kept_states_stay_as_they_were(keep) -> None:
    kept, _ = keep("pairwise_span")
    first = table(kept.score(("a",)))
    kept.score(("something else", "and more"))
    again = table(kept.score(("a",)))
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_conversations_are_read_once(keep, monkeypatch) -> None:
    kept, _ = keep("scalar")
    kept.score(("a",))
    monkeypatch.setattr("crm.leaderboard.cached_judge.prefill", lambda *_: pytest.fail("read a conversation again"))
    kept.score(("b",))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_by_query_one_query_is_read_without_the_others(head, keep, rows, monkeypatch) -> None:
    kept, judge = keep(head, by_query=True)
    assert_same(kept.score(("a",)), whole(judge, rows, ("a",)))
    fresh, _ = keep(head, by_query=True)
    read: list[tuple[int, ...]] = []

    def reading(model, texts, *rest):
        read.extend(texts)
        return prefill(model, texts, *rest)

    monkeypatch.setattr("crm.leaderboard.cached_judge.prefill", reading)
    mine = [row for row in rows if row.prompt == rows[-1].prompt]
    expected = whole(judge, mine, ("a",))
    assert_same([one for part in fresh.read(asked(mine, ("a",))) for one in part], expected)
    alone = Conversations(judge.encoder, mine)
    assert sorted(read) == sorted(alone.texts) and len(read) < len(fresh._conversations.texts)


def test_a_criterion_that_begins_unlike_all_others_sees_less_of_the_lead(make_encoder, comparisons) -> None:
    laid_out = Conversations(make_encoder("scalar", order="criteria_last"), comparisons)
    usual = laid_out.continuation(("Prefers",))
    assert usual.shared == len(laid_out.lead) > 8
    whole_part = laid_out.encoder.criteria_segments(("Prefers",))[0].ids
    assert usual.ids == whole_part[usual.shared :] and usual.length == len(whole_part)
    laid_out.lead = (*laid_out.lead, 5, 5)
    assert laid_out.continuation(("Prefers",)).shared == usual.shared


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_a_lead_that_a_user_does_not_share_is_out_of_sight(head, keep, rows, monkeypatch) -> None:
    """As if the instruction of all probes went on with the words of one criterion."""
    monkeypatch.setattr(conversations, "_PROBES", ("Likes verbose answers",))
    kept, judge = keep(head)
    for criteria in [("Likes terse answers",), ("Likes verbose answers",), ("Likes",)]:
        assert_same(kept.score(criteria), whole(judge, rows, criteria))


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_what_is_too_long_is_so_either_way(head, keep, rows) -> None:
    _, judge = keep(head)
    criteria = ("Likes it short",)
    lengths = {max(judge.encoder.encode(*pair).lengths) for pair in asked(rows, criteria)}
    for max_length in (sorted(lengths)[3], sorted(lengths)[-2]):
        kept, judge = keep(head, max_length=max_length)
        for user in (criteria, ("a",), ("x " * 40,)):
            expected = whole(judge, rows, user)
            assert table(kept.score(user)).keys() == expected.keys()
            if expected:
                assert_same(kept.score(user), expected)


def test_users_are_read_in_one_go_and_comparisons_of_others_the_usual_way(keep, many, monkeypatch) -> None:
    kept, judge = keep("scalar", memory_gb=0.0)
    assert set(kept.states.places) == {"nowhere"}
    passes = []
    monkeypatch.setattr(
        "crm.leaderboard.cached_judge.prefill",
        lambda model, texts, *rest: passes.append(1) or prefill(model, texts, *rest),
    )
    users = [("a",), ("Likes it short", "b"), ("a",)]
    found = kept.score_many(users)
    assert len(passes) == len(kept.states.places)
    one_by_one = [table(kept.score(user)) for user in users]
    for readings, expected in zip(found, one_by_one, strict=True):
        assert_same(readings, expected)
    stranger = replace(many[0], id="new", response_a=many[1].response_b, criteria=("a",))
    pairs = [(many[2], "ab"), (stranger, "ba")]
    expected = table([reading for portion in judge.read(pairs) for reading in portion])
    assert_same([reading for portion in kept.read(pairs) for reading in portion], expected)


def test_bfloat16_states_are_near(keep, rows) -> None:
    kept, judge = keep("pairwise_span", dtype=torch.bfloat16)
    full, _ = keep("pairwise_span")
    expected = whole(judge, rows, ("a",))
    assert_same(kept.score(("a",)), expected, atol=0.05)
    assert 2 * kept.states.bytes("memory") == full.states.bytes("memory")
    mixed, judge = keep("pairwise_span", precision="bf16-mixed")
    assert mixed.states.bytes("memory") == kept.states.bytes("memory")
    assert_same(mixed.score(("a",)), whole(judge, rows, ("a",)), atol=0.05)


def test_a_dtype_of_ones_own_shows_in_the_digest(keep) -> None:
    kept, judge = keep()
    assert kept.digest == judge.digest
    half, _ = keep(dtype=torch.bfloat16)
    mixed, judge = keep(precision="bf16-mixed")
    assert mixed.digest == judge.digest and len({kept.digest, half.digest, mixed.digest}) == 3


@pytest.mark.parametrize("given", [{"folder": Path("x")}, {"model_digest": "m"}])
def test_files_need_a_place_and_a_model(given, keep) -> None:
    with pytest.raises(ValueError, match="disk_gb=1: files of states need a folder and the model_digest"):
        keep(disk_gb=1.0, **given)


def test_the_criteria_first_cannot_be_kept(make_model, make_encoder, many) -> None:
    with pytest.raises(KeepingError, match=r"prompt_order=criteria_first: .* train with prompt=criteria_last"):
        CachedJudge(make_model("scalar"), make_encoder("scalar"), many, batch_size=4)
    model = make_model("scalar")
    model.reads_forests = False
    with pytest.raises(KeepingError, match="Qwen3Model is not known to go on from kept states"):
        CachedJudge(model, make_encoder("scalar", order="criteria_last"), many, batch_size=4)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_predictions_of_a_bank_are_the_same_file(head, make_model, make_encoder, bank_of_words, tmp_path) -> None:
    model, encoder = make_model(head), make_encoder(head, order="criteria_last")
    rows = bank_comparisons(bank_of_words, ("x",), "base")
    kept = CachedJudge(model, encoder, rows, batch_size=4, memory_gb=1.0)
    given: dict[str, Any] = {"baseline": "base", "progress": False}
    for criteria in (("Likes it short",), ("b", "c")):
        ours, counts = score_bank(kept, bank_of_words, criteria, folder=tmp_path / "kept", **given)
        assert counts["made"] == 2 * len(rows)
        plain = CrmJudge(model, encoder, batch_size=4)
        expected, _ = score_bank(plain, bank_of_words, criteria, folder=tmp_path / "plain", **given)
        ours, expected = (
            sorted(found, key=lambda match: (match.query_id, match.candidate)) for found in (ours, expected)
        )
        for one, other in zip(ours, expected, strict=True):
            assert (one.query_id, one.candidate) == (other.query_id, other.candidate)
            assert one.preference_logit == pytest.approx(other.preference_logit, abs=1e-12)
        assert Leaderboard(ours).frame()["model"].tolist() == Leaderboard(expected).frame()["model"].tolist()
        _, counts = score_bank(plain, bank_of_words, criteria, folder=tmp_path / "kept", **given)
        assert counts["made"] == 0, "one fingerprint"


def test_a_race_runs_on_kept_states(make_model, make_encoder, bank_of_words, tmp_path, monkeypatch) -> None:
    model, encoder = make_model("scalar"), make_encoder("scalar", order="criteria_last")
    rows = bank_comparisons(bank_of_words, ("x",), "base")
    given: dict[str, Any] = {"baseline": "base", "progress": False, "top": 1, "confidence": 0.9, "seed": 0}
    kept = CachedJudge(model, encoder, rows, batch_size=4, memory_gb=1.0)
    _, _, ours = race_bank(kept, bank_of_words, ("a",), folder=tmp_path / "kept", **given)
    _, _, plain = race_bank(
        CrmJudge(model, encoder, batch_size=4), bank_of_words, ("a",), folder=tmp_path / "plain", **given
    )
    assert ours == plain


@pytest.fixture(scope="module")
def bank_of_words() -> Bank:
    queries = [BankQuery(f"q{index}", (Message("user", f"Tell me {index}"),), "topic") for index in range(20)]
    texts = {"base": "plain words", "v": "!!!!", "w": "the the the the", "x": "??? 7 7 7", "y": ""}
    responses = {author: {q.id: f"{text} {q.id}" for q in queries} for author, text in texts.items()}
    return Bank("words", "base", tuple(queries), responses)


def test_states_go_to_memory_then_to_files_and_come_back(keep, tmp_path, caplog, monkeypatch) -> None:
    with caplog.at_level(logging.INFO):
        everything, _ = keep("pairwise")
    total = everything.states.bytes("memory")
    expected = table(everything.score(("a",)))
    share = total / 3 / 1e9
    settings: dict[str, Any] = {"memory_gb": share, "disk_gb": share, "folder": tmp_path, "model_digest": "m"}
    caplog.clear()
    with caplog.at_level(logging.INFO):
        kept, _ = keep("pairwise", **settings)
    assert set(kept.states.places) == {"memory", "disk", "nowhere"}
    assert "kept in memory" in caplog.text and "kept on disk" in caplog.text and "read anew for every" in caplog.text
    for _ in range(2):
        assert_same(kept.score(("a",)), expected)
    files = sorted(tmp_path.iterdir())
    assert len(files) == kept.states.places.count("disk") and not list(tmp_path.glob(".*"))
    assert sum(path.stat().st_size for path in files) <= 1.1 * share * 1e9

    made = []
    monkeypatch.setattr(
        "crm.leaderboard.cached_judge.prefill",
        lambda model, texts, *rest: made.append(1) or prefill(model, texts, *rest),
    )
    again, _ = keep("pairwise", **settings)
    assert_same(again.score(("a",)), expected)
    assert len(made) == len(kept.states.places) - len(files), "those on disk are not made again"


@pytest.mark.parametrize("damage", ["byte", "cut", "other"])
def test_a_damaged_file_is_left_aside_and_made_anew(damage, keep, tmp_path) -> None:
    settings: dict[str, Any] = {"memory_gb": 0.0, "disk_gb": 1.0, "folder": tmp_path, "model_digest": "m"}
    kept, _ = keep("scalar", **settings)
    expected = table(kept.score(("a",)))
    path, other = sorted(tmp_path.iterdir())[:2]
    sound = path.read_bytes()
    if damage == "byte":
        content = bytearray(sound)
        content[-4000] ^= 1
        replace_by(path, bytes(content))
    else:
        replace_by(path, sound[:-100] if damage == "cut" else other.read_bytes())
    again, _ = keep("scalar", **settings)
    with pytest.warns(UserWarning, match=rf"{path.name}: not used and made anew"):
        assert_same(again.score(("a",)), expected)
    assert path.read_bytes() == sound


def replace_by(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


def test_files_of_other_models_give_way(keep, tmp_path) -> None:
    first, _ = keep("scalar", memory_gb=0.0, disk_gb=1.0, folder=tmp_path, model_digest="one")
    first.score(("a",))
    olds = set(tmp_path.iterdir())
    (tmp_path / "model.safetensors").write_bytes(b"x" * 10**6)  # not ours to delete, nor to count
    size = sum(path.stat().st_size for path in olds) / 1e9
    second, _ = keep("scalar", memory_gb=0.0, disk_gb=1.5 * size, folder=tmp_path, model_digest="two")
    second.score(("a",))
    left = set(tmp_path.iterdir()) - {tmp_path / "model.safetensors"}
    assert (tmp_path / "model.safetensors").exists()
    assert 0 < len(left & olds) < len(olds) and len(left - olds) == len(second.states.places)
    assert sum(path.stat().st_size for path in left) / 1e9 <= 1.5 * size


def test_another_process_may_delete_a_file_at_any_time(keep, tmp_path, monkeypatch) -> None:
    settings: dict[str, Any] = {"memory_gb": 0.0, "disk_gb": 1.0, "folder": tmp_path, "model_digest": "m"}
    kept, _ = keep("scalar", **settings)
    expected = table(kept.score(("a",)))
    (tmp_path / "states-gone.safetensors").symlink_to(tmp_path / "nowhere")  # listed, but not there when looked at
    plain = kv_cache_files.content

    def gone_after_reading(cache: Any, name: str) -> str:
        (tmp_path / f"{name}.safetensors").unlink()
        return plain(cache, name)

    again, _ = keep("scalar", **settings)
    monkeypatch.setattr(kv_cache_files, "content", gone_after_reading)
    assert_same(again.score(("a",)), expected)
    assert not list(tmp_path.glob("states-[0-9a-f]*[0-9a-f].safetensors")), "no empty file in the place of one"


def test_a_disk_that_refuses_costs_time_only(keep, tmp_path, caplog) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    kept, _ = keep("scalar", memory_gb=0.0, disk_gb=1.0, folder=blocked / "states", model_digest="m")
    assert table(kept.score(("a",))).keys() and "not kept" in caplog.text
    assert set(kept.states.places) == {"nowhere"}
    assert_same(kept.score(("a",)), table(kept.score(("a",))))
