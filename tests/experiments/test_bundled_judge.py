"""The bundled judge, at the size of a test: taken apart and put together it scores as it did, up to float16."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from crm.evaluation.robustness import ATTACKS
from crm.model.backbone import keep_lowest_layers
from crm.model.batching.batches import collate
from crm.model.export import export_model, load_checkpoint
from crm.model.late_head import LateHead
from crm.model.reward_model import RewardModel
from experiments.real_judge.bundled import BUNDLED, assemble, main, pack

CONFIG = {"model": {"path": "models/base"}, "data": {"name": "tastes", "root": "/home/me/data"}, "run_dir": "/home/me"}
FACTS = {"max_length": 512, "seed": 3, "commit": "abc", "config": CONFIG}


@pytest.fixture
def parts(make_model: Any, tokenizer: Any, tmp_path: Path) -> tuple[Path, Path]:
    """A backbone as it was before training, and a checkpoint of its lowest layer with a late head."""
    backbone = make_model("scalar", seed=5).backbone
    backbone.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    keep_lowest_layers(backbone, 1)
    head = LateHead.seeded(backbone.config.hidden_size, seed=2, kept=2, width=4)
    head.user_vectors = torch.nn.Parameter(torch.randn(3, 8))
    export_model(RewardModel(backbone, head, "late"), tokenizer, tmp_path / "trained", FACTS)
    return tmp_path / "base", tmp_path / "trained"


def test_it_is_put_together_as_it_was(
    parts: tuple[Path, Path], tmp_path: Path, make_encoder: Any, comparisons: Any
) -> None:
    base, trained = parts
    packed = pack(trained, tmp_path / "judge.safetensors")
    digest = assemble(str(base), tmp_path / "again", packed)
    assert assemble(str(base), tmp_path / "again", packed) == digest
    (before, _, trained_facts), (after, _, facts) = load_checkpoint(trained), load_checkpoint(tmp_path / "again")
    for name, weight in before.score.state_dict().items():
        assert torch.equal(after.score.state_dict()[name], weight.half().float()), name
    batch = collate([make_encoder("late").encode(row) for row in comparisons], pad_id=0)
    before.score.load_state_dict(after.score.state_dict())
    with torch.inference_mode():
        assert torch.equal(before(batch).preference_logit, after(batch).preference_logit)
    assert {name: facts[name] for name in ("max_length", "seed", "commit")} == {
        name: trained_facts[name] for name in ("max_length", "seed", "commit")
    }
    assert facts["config"] == {"model": {"path": "models/base"}, "data": {"name": "tastes"}}
    assert b"/home/me" not in packed.read_bytes()


def test_other_weights_and_other_files_are_refused(parts: tuple[Path, Path], tmp_path: Path, capsys: Any) -> None:
    base, trained = parts
    packed = pack(trained, tmp_path / "judge.safetensors")
    with pytest.raises(ValueError, match=r"other weights than judge was trained on; `make smollm2` makes"):
        assemble(str(trained), tmp_path / "again", _with_layers(packed, 1, "00"))
    (tmp_path / "not.safetensors").write_bytes(b"not a file of weights")
    with pytest.raises(ValueError, match=r"not.safetensors: is no packed judge"):
        assemble(str(base), tmp_path / "again", tmp_path / "not.safetensors")
    assert not (tmp_path / "again").exists()
    capsys.readouterr()
    assert main([str(tmp_path / "nowhere"), "--out", str(tmp_path / "again")]) == 2
    assert capsys.readouterr().err.startswith("experiments.real_judge.bundled: model.path=")


def test_the_shipped_one_is_small_and_names_no_folder_of_whoever_trained_it() -> None:
    assert BUNDLED.stat().st_size < 5_000_000
    with safe_open(BUNDLED, "pt") as file:
        record = json.loads(file.metadata()["judge"])
        assert {str(file.get_slice(name).get_dtype()) for name in file.keys()} == {"F16"}  # noqa: SIM118
    assert (record["layers"], record["response_layers"], record["prompt_order"]) == (15, 3, "criteria_first")
    assert record["robustness"].count("| yes") == len(ATTACKS), "it withstands every attack"
    assert "root" not in record["facts"]["config"]["data"] and not {"logger", "run_dir"} & set(
        record["facts"]["config"]
    )


def _with_layers(packed: Path, layers: int, backbone: str) -> Path:
    from safetensors.torch import save_file

    with safe_open(packed, "pt") as file:
        record = json.loads(file.metadata()["judge"]) | {"layers": layers, "backbone": backbone}
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    other = packed.with_name("other") / packed.name
    other.parent.mkdir()
    save_file(weights, other, metadata={"judge": json.dumps(record)})
    return other
