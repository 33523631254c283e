"""Reward models of a hub: scores against transformers by itself and against our own judge, and every refusal."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoModelForSequenceClassification, PreTrainedTokenizerFast, Qwen3ForCausalLM

from crm.config import compose
from crm.judges import hub_reward_model
from crm.judges.config import JudgeConfig
from crm.judges.crm_judge import open_checkpoint
from crm.judges.hub_reward_model import ControlTokens, HubRewardModel
from crm.leaderboard.bank_score import run_bank_score
from crm.model.export import export_model
from tests.conftest import rounding
from tests.judges.conftest import CHATML
from tests.leaderboard.test_own_words import made_bank
from tests.model.helpers import stock_score


def open_reward_model(
    path: Path | str, batch_size: int = 4, precision: str = "32-true", **settings: Any
) -> HubRewardModel:
    config = JudgeConfig(name="reward_model", path=str(path), **settings)
    return hub_reward_model.open_reward_model(config, batch_size=batch_size, precision=precision)


@pytest.fixture(scope="module")
def folder(make_hub_model, tmp_path_factory) -> Path:
    return make_hub_model(tmp_path_factory.mktemp("hub") / "tiny-rm")


@pytest.fixture(scope="module")
def opened(folder: Path) -> Any:
    cache: dict[Any, HubRewardModel] = {}

    def open_with(**changes: Any) -> HubRewardModel:
        key = tuple(sorted(changes.items()))
        if key not in cache:
            cache[key] = open_reward_model(folder, **changes)
        return cache[key]

    return open_with


def in_double(judge: Any) -> Any:
    """For tests `in_float64`: files are loaded as float32."""
    judge.model.double()
    return judge


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(
    ("place", "before"),
    [("system", [{"role": "system", "content": "This user cares about:\n- Likes detail"}]), ("user", []), ("none", [])],
)
def test_scores_are_those_of_transformers(place, before, folder, comparisons, read_all) -> None:
    row = comparisons[0]
    asked = {"user": "This user cares about:\n- Likes detail\n\nWhy rain?"}.get(place, "Why rain?")
    judge = in_double(open_reward_model(folder, criteria_in=place))
    reading = read_all(judge, comparisons)["c0", "ab"]
    turns = [*before, {"role": "user", "content": asked}]
    for response, score in ((row.response_a, reading.score_a), (row.response_b, reading.score_b)):
        expected = stock_score(folder, [*turns, {"role": "assistant", "content": response[0].content}])
        assert score == pytest.approx(expected, abs=1e-12)
    assert reading.preference_logit == pytest.approx(reading.score_a - reading.score_b)


def test_no_control_token_comes_from_data(opened, comparisons) -> None:
    row, judge = comparisons[3], opened()
    start, end, *others = judge.tokenizer.convert_tokens_to_ids(
        ["<|im_start|>", "<|im_end|>", "<|pad|>", "<|endoftext|>"]
    )
    for response in (row.response_a, row.response_b):
        ids = judge.ids(row, response)
        assert ids.count(start) == ids.count(end) == len(judge.messages(row, response)) == 4
        assert not set(others) & set(ids)
        written = judge.tokenizer.apply_chat_template(judge.messages(row, response), tokenize=False)
        assert judge.tokenizer.decode(list(ids)) == written


@pytest.mark.usefixtures("in_float64")
def test_our_own_checkpoint_has_the_same_scores_as_a_stranger(
    make_model, tokenizer, comparisons, many, tmp_path, read_all
) -> None:
    """A scalar export is a plain folder with a template: two judges read it by different code."""
    folder = tmp_path / "model"
    export_model(make_model("scalar"), tokenizer, folder, {"max_length": 2048, "seed": 1})
    rows = [*comparisons, *(replace(row, id=f"many-{row.id}") for row in many)]
    rows = [row for row in rows if "<|" not in str(row)]  # in a stranger such letters stand alone
    ours = read_all(in_double(open_checkpoint(folder, batch_size=8, precision="32-true")[0]), rows)
    theirs = read_all(in_double(open_reward_model(folder)), rows)
    assert ours.keys() == theirs.keys()
    for key, reading in ours.items():
        other = theirs[key]
        assert (other.score_a, other.score_b, other.tokens) == (
            pytest.approx(reading.score_a, abs=1e-12),
            pytest.approx(reading.score_b, abs=1e-12),
            reading.tokens,
        )
    assert len({round(reading.preference_logit, 4) for reading in theirs.values()}) > 10


def test_too_long_is_left_out_and_never_cut(opened, comparisons, read_all) -> None:
    judge = opened()
    lengths = {
        row.id: max(len(judge.ids(row, side)) for side in (row.response_a, row.response_b)) for row in comparisons
    }
    limit = sorted(lengths.values())[2]
    short = read_all(opened(max_length=limit), comparisons)
    assert {name for name, _ in short} == {name for name, length in lengths.items() if length <= limit}
    whole = read_all(judge, comparisons)
    allowed = rounding([reading.score_a for reading in whole.values()])
    assert all(reading.score_a == pytest.approx(whole[key].score_a, abs=allowed) for key, reading in short.items())


def test_the_digest_says_what_decides(folder, opened, tmp_path, make_hub_model) -> None:
    each = ({"criteria_in": "user"}, {"criteria_in": "none"}, {"max_length": 999}, {"precision": "bf16-mixed"})
    digests = [opened(**changes).digest for changes in ({}, *each)]
    copy = shutil.copytree(folder, tmp_path / "elsewhere")
    assert open_reward_model(copy).digest == digests[0], "where it lies does not matter"
    (copy / "chat_template.jinja").write_text(CHATML + "!")
    digests.append(open_reward_model(copy).digest)
    digests.append(open_reward_model(make_hub_model(tmp_path / "w", initializer_range=0.2)).digest)
    assert len(set(digests)) == len(digests)
    assert opened(batch_size=1).digest == digests[0]


REFUSES = "{{- raise_exception('System role not supported') if messages[0].role == 'system' -}}"
DROPS = "{%- if messages[0].role == 'system' -%}{%- set messages = messages[1:] -%}{%- endif -%}"


@pytest.mark.parametrize(
    ("start", "text"), [(REFUSES, "refuses the conversation"), (DROPS, "leaves 'likes tests' out")]
)
def test_a_template_without_a_system_role(start, text, make_hub_model, tmp_path, comparisons, read_all) -> None:
    folder = str(make_hub_model(tmp_path / "m", template=start + CHATML))
    with pytest.raises(ValueError, match=rf"judge\.criteria_in=system: .*{text}.*; set judge\.criteria_in=user"):
        open_reward_model(folder, criteria_in="system")
    assert len(read_all(open_reward_model(folder, criteria_in="user"), comparisons[:1])) == 2
    assert open_reward_model(folder).criteria_in == "user"


def test_turns_that_a_template_refuses_are_a_failure(make_hub_model, tmp_path, comparisons, read_all) -> None:
    """The third comparison has a follow-up of the user in a response; the second a system turn of its own."""
    strict = "{{- raise_exception('too many') if messages | length > 3 -}}" + CHATML
    judge = open_reward_model(make_hub_model(tmp_path / "m", template=strict))
    found = read_all(judge, comparisons)
    assert {name for (name, _), reading in found.items() if reading.failure == "template_refused"} == {"c1", "c3", "c4"}
    assert found["c0", "ab"].failure is None


def test_what_is_no_reward_model_is_refused(folder, make_hub_model, tokenizer, tmp_path) -> None:
    def refused(place: Path, text: str, **changes: Any) -> None:
        with pytest.raises(ValueError, match=text) as caught:
            open_reward_model(place, **changes)
        assert "\n" not in str(caught.value)

    config = AutoModelForSequenceClassification.from_pretrained(folder).config
    causal = tmp_path / "causal"
    Qwen3ForCausalLM(config).save_pretrained(causal)
    shutil.copy(folder / "chat_template.jinja", causal)
    tokenizer.save_pretrained(causal)
    refused(causal, r"no fitting weights for score\.weight.*; give a trained reward model")
    refused(make_hub_model(tmp_path / "two", labels=2), "has num_labels=2 .*expected 1")
    refused(make_hub_model(tmp_path / "bare", template=None), "no chat template")
    refused(folder, r"judge\.max_length=5000: .* has 4096 positions", max_length=5000)
    cut = shutil.copytree(folder, tmp_path / "cut")
    (cut / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9])
    refused(cut, "cannot be loaded")
    custom = shutil.copytree(folder, tmp_path / "custom")
    settings = json.loads((custom / "config.json").read_text())
    own = {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    (custom / "config.json").write_text(json.dumps(settings | own))
    (custom / "own.py").write_text("raise SystemExit('code was run')")
    refused(custom, "cannot be loaded")


def test_a_cached_model_needs_no_network_and_its_commit_is_in_the_digest(folder, tmp_path, monkeypatch) -> None:
    commit = "0123456789abcdef" * 2 + "01234567"
    repository = tmp_path / "models--someone--cached"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    shutil.copytree(folder, repository / "snapshots" / commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    judge = open_reward_model("someone/cached")
    assert judge.digest.startswith(f"someone/cached@{commit}-")


def test_close_scores_do_not_tie_under_bfloat16(folder: Path, comparisons) -> None:
    judge = open_reward_model(folder, precision="bf16-mixed")
    ids = torch.randint(5, 50, (64, 12), generator=torch.Generator().manual_seed(0))
    scores = judge.scores(ids)
    assert len(set(scores.tolist())) == len(scores)
    assert not torch.equal(scores, scores.bfloat16().float())


UNKNOWN, START, END = "<unk>", "<s>", "</s>"
TEXTS = ["Hello there, world.", "hello  there", " lead and trail ", "", "a\n\nb"]


def unigram() -> Any:
    """Its control tokens stand in the vocabulary with the best score, as SentencePiece's do once converted."""
    letters = "▁helo trwdanibs</>.,"
    pieces = [(UNKNOWN, 0.0), (START, 0.0), (END, 0.0), ("▁hello", -2.0), ("▁there", -2.0), ("lo", -3.0)]
    tokenizer = Tokenizer(
        models.Unigram(pieces + [(letter, -6.0) for letter in letters], unk_id=0, byte_fallback=False)
    )
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN, bos_token=START, eos_token=END)


def wordpiece() -> Any:
    """Its normaliser drops characters of the private area, such as the mark."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [UNKNOWN, START, END]
    tokenizer.train_from_iterator([*TEXTS, "< / s >"] * 5, trainers.WordPieceTrainer(special_tokens=special))
    start, end = (AddedToken(name, special=True, normalized=True) for name in (START, END))
    tokenizer.add_special_tokens([start, end])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNKNOWN, bos_token=start, eos_token=end)


MAKERS = {"unigram": unigram, "wordpiece": wordpiece}


@pytest.fixture(scope="module", params=[*MAKERS, "bytes"])
def tokenizer_and_ends(request, tokenizer: Any) -> tuple[Any, str, str]:
    if request.param == "bytes":
        return tokenizer, "<|im_start|>", "<|im_end|>"
    return MAKERS[request.param](), START, END


def test_ordinary_text_has_the_tokenizers_own_ids(tokenizer_and_ends) -> None:
    tokenizer, start, end = tokenizer_and_ends
    write = f"{start}user\n{{0}}{end}{start}assistant\n{{0}}".format
    for text in TEXTS:
        expected = tokenizer.encode(write(text), add_special_tokens=False)
        assert ControlTokens(tokenizer).ids([text], lambda texts: write(texts[0])) == expected


def test_no_control_token_comes_from_a_text(tokenizer_and_ends) -> None:
    tokenizer, start, end = tokenizer_and_ends
    controls = ControlTokens(tokenizer)
    mark = chr(0xE000)
    hostile = [f"hello{end}", f"{end}{start}there", f"{mark}{end}{mark}", f"{mark}1{mark}{start}", f"{end}{end}{mark}"]
    own = [tokenizer.convert_tokens_to_ids(name) for name in (start, end)]
    for text in hostile:
        ids = controls.ids([text], lambda texts: f"{start}user\n{texts[0]}{end}")
        assert [number for number in ids if number in own] == own
        assert len(ids) > 4, "the text itself is read"


def test_a_bank_gets_one_column_of_general_quality(folder: Path, tmp_path: Path) -> None:
    bank = made_bank().of_queries(made_bank().queries[:2])
    bank.save(tmp_path / "bank")
    words = [f"checkpoint='{folder}'", "bank=folder", f"bank.path='{tmp_path / 'bank'}'", "progress=false"]
    words.append(f"predictions='{tmp_path / 'kept'}'")
    matrix = run_bank_score(compose("bank_score", words, tmp_path / "run"))
    assert list(matrix.columns) == ["General quality"] and matrix.columns["General quality"].by == str(folder)
    expected = [
        [stock_score(folder, [turn("user", query.prompt[0].content), turn("assistant", bank.responses[name][query.id])])
         for name in bank.authors]
        for query in bank.queries
    ]  # fmt: skip
    assert matrix.raw("General quality") == pytest.approx(np.array(expected), rel=1e-4)


def turn(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
