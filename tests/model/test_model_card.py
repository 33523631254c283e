"""The card of an exported folder: what it says is true, its lines run, and it decides nothing."""

from __future__ import annotations

import re
import runpy
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

from crm.judges import open_checkpoint
from crm.model.encoding import Encoder
from crm.model.export import export_as_single_label, export_model, load_checkpoint
from crm.model.heads import LINEAR_HEADS, PROMPT_ORDERS
from crm.model.late_reading import LateReader
from crm.model.manifest import read_manifest
from crm.model.model_card import READS
from crm.schema import Comparison, Message
from tests.conftest import rounding

FACTS = {
    "max_length": 2048,
    "seed": 3,
    "commit": "abc1234",
    "validation_accuracy": 0.87654,
    "config": {"model": {"path": "someone/base"}, "data": {"name": "records"}, "loss": {"name": "cls"}},
}
CRITERIA, QUERY, FIRST, SECOND = ["Likes detail", "No jargon"], "Why rain?", "Clouds cool.", "It just does."
ROW = Comparison(
    "c",
    "p",
    tuple(CRITERIA),
    (Message("user", QUERY),),
    (Message("assistant", FIRST),),
    (Message("assistant", SECOND),),
    "a",
)


def said(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def run_snippet(folder: Path, script: Path) -> dict[str, Any]:
    """The names that the card's Python lines, written to ``script``, leave when they run on the folder."""
    (code,) = re.findall(r"```python\n(.*?)```", said(folder), re.DOTALL)
    code, replaced = re.subn(r'folder = "\."', f"folder = {str(folder)!r}", code)
    assert replaced == 1
    script.write_text(code, encoding="utf-8")
    return runpy.run_path(str(script))


@pytest.fixture(
    scope="module", params=[*product(LINEAR_HEADS, PROMPT_ORDERS), ("late", PROMPT_ORDERS[0])], ids="-".join
)
def exported(request, make_model, tokenizer, tmp_path_factory) -> tuple[Any, Path]:
    head, order = request.param
    model = make_model(head, seed=4)
    if head != "late":
        torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("model")
    export_model(model, tokenizer, folder, FACTS, order)
    return model, folder


def test_its_lines_give_our_numbers(exported, tmp_path) -> None:
    model, folder = exported
    names = run_snippet(folder, tmp_path / "snippet.py")
    judge, _ = open_checkpoint(folder, batch_size=2, precision="32-true")
    (reading,) = [one for portion in judge.read([(ROW, "ab")]) for one in portion]
    if model.head in ("scalar", "late"):
        scores = [names["score"](CRITERIA, QUERY, text) for text in (FIRST, SECOND)]
        assert scores == pytest.approx([reading.score_a, reading.score_b], abs=1e-4)
    else:
        logit = names["preference_logit"](CRITERIA, QUERY, FIRST, SECOND)
        assert logit == pytest.approx(reading.preference_logit, abs=1e-4) and abs(logit) > 1e-3


@pytest.mark.parametrize("architecture", ["llama", "llama-1", "llama-1-gated"])
def test_weighted_criteria_and_kept_vectors_of_the_card_are_ours(
    architecture: str, make_model, tokenizer, tmp_path
) -> None:
    folder = tmp_path / "model"
    export_model(make_model("late", architecture, seed=4), tokenizer, folder, FACTS)
    names = run_snippet(folder, tmp_path / "snippet.py")
    model, loaded, _ = load_checkpoint(folder)
    encoder = Encoder(loaded, "late", 2048)
    reader = LateReader(model, encoder, autocast=torch.autocast("cpu", enabled=False), precision="32-true")
    (ours,) = reader.responses([(ROW.prompt, ROW.response_a)])
    theirs = names["response_vector"](QUERY, FIRST)
    torch.testing.assert_close(theirs, ours, rtol=0, atol=rounding(ours))
    wished = reader.user_vector(CRITERIA, [2.0, -0.5])
    torch.testing.assert_close(
        names["wish"](dict(zip(CRITERIA, [2.0, -0.5], strict=True))), wished, rtol=0, atol=rounding(wished)
    )
    assert theirs @ wished == pytest.approx(float(ours @ wished), abs=1e-4)


def test_the_lines_of_a_late_head_need_little() -> None:
    code = READS["late"][1]
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)) == {"torch", "safetensors", "transformers"}
    assert len(code.splitlines()) <= 50


def test_it_says_what_the_model_is(exported) -> None:
    model, folder = exported
    text, order = said(folder), read_manifest(folder)["prompt_order"]
    digest = read_manifest(folder)["digest"]
    told = (model.head, order, "someone/base", "2048 tokens", "records", "0.877", "abc1234", digest, "| seed | 3 |")
    assert [word for word in told if word not in text] == []
    data = ModelCard.load(folder / "README.md").data
    assert data.base_model == "someone/base" and data.library_name == "transformers" and data.license is None
    spans = model.head == "pairwise_span"
    pipelines = {"pairwise_span": "token-classification", "late": "feature-extraction"}
    assert data.pipeline_tag == pipelines.get(model.head, "text-classification")
    assert ("use_activation=false" in text) == (model.head != "late") and "license: <identifier>" in text
    assert ("ends the first response" in text, "ends the turn before the last" in text) == (
        spans and order == "criteria_first",
        spans and order == "criteria_last",
    )


def test_the_one_label_copy_has_lines_of_its_own(make_model, tokenizer, tmp_path) -> None:
    model = make_model("pairwise", seed=7)
    export_as_single_label(model, tokenizer, tmp_path / "one", FACTS)
    export_model(model, tokenizer, tmp_path / "two", FACTS)
    one, two = (run_snippet(tmp_path / name, tmp_path / f"{name}.py")["preference_logit"] for name in ("one", "two"))
    assert one(CRITERIA, QUERY, FIRST, SECOND) == pytest.approx(two(CRITERIA, QUERY, FIRST, SECOND), abs=1e-5)


def test_what_is_not_known_is_left_out_and_a_folder_of_this_machine_is_not_told(
    make_model, tokenizer, tmp_path
) -> None:
    export_model(make_model("scalar"), tokenizer, tmp_path / "bare", {})
    assert not re.search(r"None|\| (base model|seed|validation accuracy) \|", said(tmp_path / "bare"))
    facts = {"config": {"model": {"path": str(tmp_path / "secret" / "base")}}}
    export_model(make_model("scalar"), tokenizer, tmp_path / "local", facts)
    assert str(tmp_path) not in said(tmp_path / "local") and "| base model | `base` |" in said(tmp_path / "local")


def test_it_decides_nothing_and_may_be_edited_removed_or_missing(exported, tokenizer, tmp_path) -> None:
    model, folder = exported
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    order = read_manifest(folder)["prompt_order"]
    (copy / "README.md").write_text("---\nlicense: mit\n---\nMine.")
    loaded = load_checkpoint(copy)[0]
    for name, weight in model.score.state_dict().items():
        assert (name.endswith("bias") and model.head != "late") or torch.equal(loaded.score.state_dict()[name], weight)
    assert export_model(model, tokenizer, copy, FACTS | {"seed": 9}, order) == read_manifest(folder)["digest"]
    (copy / "README.md").unlink()
    load_checkpoint(copy)
    assert "README.md" not in read_manifest(folder)["files"]


def test_settings_of_generation_beside_a_model_do_no_harm(exported, tmp_path) -> None:
    copy = Path(shutil.copytree(exported[1], tmp_path / "copy"))
    (copy / "generation_config.json").write_text('{"do_sample": true}')
    load_checkpoint(copy)
    (copy / "adapter_config.json").write_text("{}")
    with pytest.raises(ValueError, match=r"adapter_config\.json is not in crm\.json"):
        load_checkpoint(copy)
