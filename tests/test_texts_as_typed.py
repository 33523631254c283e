"""Criteria are texts of users: what is typed is what a judge reads, whatever it looks like to Hydra and OmegaConf."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from crm.cli.mistakes import explain
from crm.config import as_typed, compose, schemas, typed_again
from crm.quoting import escaped, hydra_text, unescaped
from crm.training.sweeps import single_run

TEXTS = [
    "Counts to ${seed}",
    "Explains ${HOME:-x} and ${b ${c}} in a shell",
    "Never writes ${",
    r"Keeps \${PRICE} and \\${PRICE} apart",
    "Reads $${x} as dollars",
    "${oc.env:HOME}",
    "???",
    "1.50",
    "true",
    "null",
    'Quotes "${a}", says it\'s fine, and [so on] {k: v}',
    "Ends in a backslash\\",
    "Ünï ${東}\nzwei Zeilen",
]


@pytest.mark.parametrize(("command", "names"), [("leaderboard", ("criteria", "topics")), ("best_of_n", ("criteria",))])
def test_a_text_is_taken_as_it_is_typed(command: str, names: Sequence[str], tmp_path: Path) -> None:
    words = [f"{name}=[{','.join(map(hydra_text, TEXTS))},other]" for name in names]
    config = compose(command, ["judge=length", *words], tmp_path)
    for name in names:
        assert getattr(config, name) == [*TEXTS, "other"]


def test_a_topic_that_is_held_out_is_too(tmp_path: Path) -> None:
    assert compose("train", ['data.held_out_topics=["${x}",1.50]'], tmp_path).data.held_out_topics == ["${x}", "1.50"]


@pytest.mark.parametrize(
    ("word", "texts"),
    [
        ("criteria=[1.50,true]", ["1.50", "true"]),
        (
            "criteria=[ 1_000 , null,False , nan, it is so, a\\, b]",
            ["1_000", "null", "False", "nan", "it is so", "a, b"],
        ),
        ("criteria=[${seed}, '${a b}']", ["${seed}", "${a b}"]),
        ("criteria=[]", []),
    ],
)
def test_without_quotes_too(word: str, texts: list[str], tmp_path: Path) -> None:
    assert compose("leaderboard", ["judge=length", word], tmp_path).criteria == texts


def test_blank_and_nested_ones_are_still_refused(tmp_path: Path) -> None:
    for word, said in (('criteria=[" "]', "no blank ones"), ("criteria=[[1.5]]", "expected a list of texts")):
        with pytest.raises(ValueError, match=said):
            compose("leaderboard", ["judge=length", word], tmp_path)


def test_a_job_of_a_sweep_reads_them_the_same(tmp_path: Path) -> None:
    """Through the sweeper, and once more through the command of a job in a process of its own."""
    word = as_typed(f"criteria=[{hydra_text(TEXTS[3])},1.50],[{hydra_text(TEXTS[1])}]", ["criteria"])
    (jobs,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides([word]), None)
    expected = [[TEXTS[3], "1.50"], [TEXTS[1]]]
    for job, texts in zip(jobs, expected, strict=True):
        (again, *_) = single_run(list(job), str(tmp_path), "job")
        assert compose("leaderboard", ["judge=length", again], tmp_path).criteria == texts
    assert typed_again(r"checkpoint=\${x}") == r"checkpoint=\${x}"


@pytest.mark.parametrize("text", TEXTS)
def test_escapes_are_turned_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert unescaped("${left} as it is") == "${left} as it is"


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        ("evaluate", "checkpoint", "a${PRICE}b"),
        ("train", "data.path", "a${nope:1}b"),
        ("leaderboard", "bank.path", "'a${b c}d'"),
    ],
)
def test_a_path_that_is_read_as_an_interpolation_says_how_to_write_it(
    command: str, name: str, value: str, tmp_path: Path
) -> None:
    more = {"train": ["data=table"], "leaderboard": ["bank=folder", "judge=length"]}.get(command, [])
    with pytest.raises((HydraException, OmegaConfBaseException, ValueError)) as raised:
        compose(command, [*more, f"{name}={value}"], tmp_path)
    sentence = explain(raised.value, schemas()[command])
    assert f"""where the text itself holds ${{, write \\${{ and quote it: '{name}="a\\${{b}}\"'""" in sentence
    shown = sentence.rpartition("'" + name)[2].strip("'")
    config = compose(command, [*more, name + shown], tmp_path) if command != "evaluate" else None
    assert config is None or "a${b}" in (str(getattr(config, name.partition(".")[0]).path))
