"""No file runs data as code: its syntax tree holds nothing that could, and whoever waives a rule says why."""

from __future__ import annotations

import ast
import builtins
import re
import tokenize
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from tests.test_front_doors import parsed, sources

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("crm", "bench", "experiments")
BUILTINS = {"eval", "exec", "compile", "__import__"}
NEVER = re.compile(
    r"builtins\.(eval|exec|compile|__import__)|(marshal|shelve|dill|cloudpickle|runpy|code)(\..*)?"
    r"|_?c?[pP]ickle\.(?!\w*Error$).*|(joblib|sklearn\.externals\.joblib)\.load|pandas\.read_pickle|torch\.hub\.load"
    r"|os\.(system|popen)|subprocess\.get(status)?output|asyncio\.create_subprocess_shell"
    r"|yaml\.(unsafe_load|full_load|load)(_all)?|hydra\.utils\.(instantiate|call|get_\w+)"
)
"""Names that may not even be mentioned, so that none of them is handed on under another."""
SAFE_VALUES = {"weights_only": True, "trust_remote_code": False, "shell": False, "allow_pickle": False}
"""Whoever names one of these arguments gives it this value, spelled out."""
IMPORTERS = {"importlib.import_module"}
FROM_A_TABLE = {
    "crm/config.py": "the modules of a table that stands in the file",
}
"""Files that import a module by a name that is no literal, and whose name that is."""
WAIVER = re.compile(r"#\s*(noqa|nosec|pragma|type:\s*ignore)\b(?P<rest>.*)")
REASON = re.compile(r"- \w+\W+\w+")


def imported(tree: ast.Module) -> dict[str, str]:
    """What each name that a file imports stands for."""
    names = {name: f"builtins.{name}" for name in BUILTINS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                first = each.name.split(".")[0]
                names[each.asname or first] = each.name if each.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def in_full(node: ast.AST, names: dict[str, str]) -> str:
    """The dotted name of what was imported or is built in; it begins with a dot for an attribute of anything else."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    return f"{in_full(node.value, names)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def arguments(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """What is given by name: in a call, a mapping, an assignment to a key."""
    if isinstance(node, ast.Call):
        yield from ((each.arg, each.value) for each in node.keywords if each.arg)
    elif isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        yield from ((key.value, value) for key, value in pairs if isinstance(key, ast.Constant))
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                yield target.slice.value, node.value


def spelled(value: ast.expr) -> object:
    return value.value if isinstance(value, ast.Constant) else "computed"


def mentions(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Names that run code, where they are used or imported."""
    used = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
    if used and NEVER.fullmatch(in_full(node, names)):
        yield in_full(node, names)
    if isinstance(node, ast.Import | ast.ImportFrom):
        for each in node.names:
            whole = f"{node.module}.{each.name}" if isinstance(node, ast.ImportFrom) else each.name
            if NEVER.fullmatch(whole):
                yield whole


def calls(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """Calls that would be safe with other arguments."""
    for name, value in arguments(node):
        if name in SAFE_VALUES and spelled(value) is not SAFE_VALUES[name]:
            yield f"{name}={ast.unparse(value)}"
    if not isinstance(node, ast.Call):
        return
    name, given = in_full(node.func, names), dict(arguments(node))
    if name == "torch.load" and spelled(given.get("weights_only", ast.Constant(None))) is not True:
        yield "torch.load"
    if name in IMPORTERS and not (node.args and isinstance(node.args[0], ast.Constant)):
        yield f"{name.rpartition('.')[2]} of data"
    if isinstance(node.func, ast.Attribute) and node.func.attr == "eval" and (node.args or node.keywords):
        yield "an expression for .eval"


def bare_torch_load(node: ast.AST, names: dict[str, str]) -> Iterator[str]:
    """`torch.load` handed on, so that nobody sees its arguments."""
    for child in ast.iter_child_nodes(node):
        called = isinstance(node, ast.Call) and child is node.func
        if isinstance(child, ast.Attribute | ast.Name) and in_full(child, names) == "torch.load" and not called:
            yield "torch.load handed on"


LOOKS: tuple[Callable[[ast.AST, dict[str, str]], Iterator[str]], ...] = (mentions, calls, bare_torch_load)


def found(code: str) -> list[str]:
    """Whatever could run data as code, in order."""
    tree = parsed(code)
    names = imported(tree)
    return [what for node in ast.walk(tree) for look in LOOKS for what in look(node, names)]


def waivers(code: str) -> Iterator[tuple[str, str]]:
    """Every comment that tells a checker to look away, and what is wrong with it: empty where nothing is."""
    lines = iter(code.splitlines(keepends=True))
    for token in tokenize.generate_tokens(lambda: next(lines, "")):
        waiver = WAIVER.search(token.string) if token.type == tokenize.COMMENT else None
        if waiver is None:
            continue
        rest = waiver["rest"]
        codes, reason = re.match(r"(?:: ?[A-Z]+\d+(?:, ?[A-Z]+\d+)*|\[[\w, -]+\])", rest), REASON.search(rest)
        needs_reason = codes and not codes[0].startswith("[") and re.search(r"[BS]\d", codes[0])
        yield token.string, "no rule" if not codes else "no reason in words" if needs_reason and not reason else ""


def own_sources() -> list[tuple[str, str]]:
    """Name and code of modules, studies, benchmarks, commands, notebooks, examples of the docs."""
    scripts = [(path.name, path.read_text(encoding="utf-8")) for path in sorted(ROOT.glob("*.py"))]
    return [*sources(), *scripts]


def test_nothing_runs_data_as_code() -> None:
    files = own_sources()
    assert len({name.split("/")[0] for name, _ in files} & set(FOLDERS)) == 3
    dangers = [(name, what) for name, code in files for what in found(code)]
    assert [each for each in dangers if each not in {(name, "import_module of data") for name in FROM_A_TABLE}] == []


def test_classes_that_settings_name_are_our_own() -> None:
    """Hydra makes an object of any class that a `_target_` names; YAML files hold plain values only."""
    files = [path for folder in ("conf", *FOLDERS) for path in sorted((ROOT / folder).rglob("*.yaml"))]
    targets = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        yaml.safe_load(text)
        assert not re.search(r"!!?python|trust_remote_code|weights_only", text), path
        targets |= set(re.findall(r"_target_:\s*(\S+)", text))
    assert targets
    for target in targets:
        module, _, name = target.rpartition(".")
        assert module.startswith("crm.") and isinstance(getattr(import_module(module), name), type), target


def test_every_waiver_names_its_rule_and_one_of_security_its_reason() -> None:
    tests = [(str(path), path.read_text(encoding="utf-8")) for path in sorted((ROOT / "tests").rglob("*.py"))]
    files = tests + [(name, code) for name, code in own_sources() if name.endswith(".py")]
    said = [(name, *waiver) for name, code in files for waiver in waivers(code)]
    assert [each for each in said if each[2]] == []
    assert sum("noqa: S" in comment for _, comment, _ in said) > 10, "there are some, and this test sees them"


BAD = {
    "eval(text)": "builtins.eval",
    "import builtins\nbuiltins.exec(text)": "builtins.exec",
    "rows = map(eval, texts)": "builtins.eval",
    "code = compile(text, 'x', 'exec')": "builtins.compile",
    "module = __import__(text)": "builtins.__import__",
    "import pickle\npickle.loads(data)": "pickle.loads",
    "import pickle as p\nread = p.Unpickler": "pickle.Unpickler",
    "from pickle import load as read": "pickle.load",
    "import marshal": "marshal",
    "from shelve import open": "shelve.open",
    "import dill": "dill",
    "import joblib\njoblib.load(path)": "joblib.load",
    "import pandas as pd\npd.read_pickle(path)": "pandas.read_pickle",
    "import torch\ntorch.load(path)": "torch.load",
    "import torch\ntorch.load(path, weights_only=None)": "weights_only=None",
    "from torch import load\nload(path, weights_only=bool(1))": "weights_only=bool(1)",
    "import torch\nread = torch.load": "torch.load handed on",
    "model = Model.load(path, weights_only=False)": "weights_only=False",
    "import numpy as np\nnp.load(path, allow_pickle=True)": "allow_pickle=True",
    "import yaml\nyaml.load(text)": "yaml.load",
    "import yaml\nyaml.load(text, Loader=yaml.Loader)": "yaml.load",
    "from yaml import unsafe_load": "yaml.unsafe_load",
    "model = AutoModel.from_pretrained(name, trust_remote_code=True)": "trust_remote_code=True",
    "model = AutoModel.from_pretrained(name, trust_remote_code=given)": "trust_remote_code=given",
    "settings = {'trust_remote_code': True}": "trust_remote_code=True",
    "settings['trust_remote_code'] = True": "trust_remote_code=True",
    "import subprocess\nsubprocess.run(words, shell=True)": "shell=True",
    "import subprocess as s\ns.getoutput(words)": "subprocess.getoutput",
    "import os\nos.system(words)": "os.system",
    "from os import popen as run\nrun(words)": "os.popen",
    "import importlib\nimportlib.import_module(name)": "import_module of data",
    "from hydra.utils import instantiate": "hydra.utils.instantiate",
    "frame.eval(text)": "an expression for .eval",
}


@pytest.mark.parametrize("code", BAD)
def test_each_rule_finds_what_it_is_for(code: str) -> None:
    assert BAD[code] in found(code)


def test_what_only_looks_alike_is_left_alone() -> None:
    for code in (
        "import re\nre.compile('x')",
        "model.eval()",
        "import pickle\ntry: pass\nexcept pickle.UnpicklingError: pass",
        "import torch\ntorch.load(path, weights_only=True, mmap=True)",
        "import yaml\nyaml.safe_load(text)",
        "import subprocess\nsubprocess.run(words, check=True)",
        "import importlib\nimportlib.import_module('torch')",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
    ):
        assert found(code) == []
    assert set(dir(builtins)) >= BUILTINS


@pytest.mark.parametrize(
    ("comment", "wrong"),
    [
        ("# noqa", "no rule"),
        ("# nosec", "no rule"),
        ("# type: ignore", "no rule"),
        ("# pragma: no cover", "no rule"),
        ("# noqa: S603", "no reason in words"),
        ("# nosec: B602 - why", "no reason in words"),
        ("# noqa: S603 - fixed words, no shell", ""),
        ("# noqa: S603, S607 - our own script", ""),
        ("# type: ignore[arg-type]", ""),
        ("# noqa: E731", ""),
    ],
)
def test_a_waiver_without_a_rule_or_a_reason_is_found(comment: str, wrong: str) -> None:
    assert list(waivers(f"run()  {comment}\ntext = '# noqa'\n")) == [(comment, wrong)]
