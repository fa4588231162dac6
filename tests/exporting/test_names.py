"""Names in exports: what C, C++ or JavaScript cannot have is renamed or refused, before anything is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import OptionError
from wyrm.exporting import names

COMPILERS = [["gcc", "-std=gnu11"], ["g++", "-std=gnu++20", "-x", "c++"], ["gcc", "-std=c99", "-pedantic"]]
# Words of the languages, macros, types, and names of generated code, of the example and of objects in JavaScript.
WORDS = [
    "private", "template", "bool", "NULL", "linux", "entry", "class", "restrict", "int64_t", "uint8_t", "size_t",
    "FILE", "EOF", "stderr", "errno", "INT64_MAX", "memory", "rows", "results", "order", "v1", "body3",
    "printf", "check", "main", "path", "room", "exit", "malloc", "constructor", "then", "prototype", "hasOwnProperty",
    "arguments", "static_assert", "and", "xor_eq", "complex", "I", "M_PI", "__proto__", "_",
    "é", "a b", "7", "x.y", "%x", '"', "*/", "\n",
]  # fmt: skip


def sum_of(words: list[str], target: str, folder: Path) -> Any:
    inputs: list[Any] = [wy.Input(dims=(1,), name=word) for word in words]
    total = inputs[0]
    for each in inputs[1:]:
        total = total + each
    return wy.compile(total).export(folder, target=target)


def test_inputs_of_any_name_are_compiled_as_c_and_as_cplusplus(tmp_path: Path) -> None:
    sum_of(WORDS, "c", tmp_path)
    for command in COMPILERS:
        if shutil.which(command[0]) is not None:
            words = [*command, "-Wall", "-Wextra", "-Werror", "-c", "-o", "example.o", "example.c"]
            done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_inputs_of_any_name_are_given_in_javascript(tmp_path: Path) -> None:
    sum_of(WORDS, "wasm32", tmp_path)
    code = f"""import {{ load, description }} from '{(tmp_path / "model.mjs").as_uri()}';
        const {{ data, parameters: every }} = description.functions[0], model = await load();
        const found = model.predict(Object.fromEntries(data.map((name, i) => [name, [i]])));
        console.log(found[every.at(-1).name][0]);"""
    done = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=False)
    assert done.stdout == f"{sum(range(len(WORDS)))}\n", done.stderr


@pytest.mark.parametrize(
    "name",
    ["step", "epoch", "init", "load", "save", "read", "message", "tensors", "take_text", "begin", "next",
     "read_tokens", "then", "constructor", "a b", "é", "7", "", "_x", "x" * 201, 5],
)  # fmt: skip
@pytest.mark.parametrize("target", ["c", "wasm32"])
def test_a_name_of_a_prediction_that_cannot_be_is_refused(tmp_path: Path, name: Any, target: str) -> None:
    program = wy.compile(wy.Input(dims=(3,), name="x") * 2.0)
    with pytest.raises(OptionError, match=r"the name of a prediction (must|has at most 200)") as raised:
        wy.export(tmp_path / "folder", predict={name: program}, target=target)
    assert repr(name)[1:20] in str(raised.value)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("__metadata__", "no safetensors file can hold"), ("a\0b", "no safetensors file can hold"),
        ("optimizer/steps", "names of the state of a training"), ("program/epochs", "names of the state of a training"),
        ("w" * 1025, r"has at most 200 characters, and 'w+\.\.\.' has 1,025"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", ["c", "wasm32"])
def test_a_name_of_a_parameter_that_no_file_holds_is_refused(
    tmp_path: Path, name: str, reason: str, target: str
) -> None:
    weight = wy.Parameter(np.ones(3, np.float32), name=name)
    with pytest.raises(OptionError, match=reason):
        wy.compile(wy.Input(dims=(3,), name="x") * weight).export(tmp_path / "folder", target=target)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("x" * 1025, "has at most 200 characters"), ("model_predict", "of something in model.h"),
     ("MODEL_VERSION", "of something in model.h"), ("model.file message", "of something in model.h")],
)  # fmt: skip
def test_a_name_of_an_input_that_the_header_has_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        wy.compile(wy.Input(dims=(3,), name=name) * 2.0).export(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_name_of_a_model_is_checked_and_stays_in_every_file(tmp_path: Path) -> None:
    program = wy.compile(wy.Input(dims=(3,), name="x") * 2.0)
    for name in ("my model", "7", "é", "n" * 201):
        with pytest.raises(OptionError, match=r"name (must be a name of C|has at most)"):
            program.export(tmp_path / "folder", name=name)
    assert not (tmp_path / "folder").exists()
    rate, x = wy.Parameter(1.0, name="rate"), wy.Input(name="x")
    train = wy.compile((rate * x).square(), wy.optim.SGD([rate], 0.1))
    wy.export(tmp_path, train=train, target="wasm32", name="BATCH")  # a word that the page's text has
    assert "<h1>BATCH</h1>" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "from './BATCH.mjs'" in (tmp_path / "BATCH_page.mjs").read_text(encoding="utf-8")


def test_results_of_one_name_are_told_apart() -> None:
    x, weight = wy.Input(dims=(wy.Dim(),), name="x"), wy.Parameter(1.0, name="weight")
    losses = [(x * weight).square().mean(), (x - weight).square().mean()]
    train = wy.compile(losses[0], wy.optim.SGD([weight], 0.1), metrics={"a b": losses[1], "a.b": losses[0]})
    from tests.exporting.loaded import loaded

    export = loaded(train)
    assert export.functions["model_epoch"].results == ["loss", "a_b", "a_b_2"]


def test_words_of_c_are_names_of_predictions(tmp_path: Path) -> None:
    program = wy.compile(wy.Input(dims=(3,), name="x") * 2.0)
    wy.export(tmp_path, predict={"class": program, "order": program}, name="int")
    if shutil.which("gcc") is not None:
        done = subprocess.run(["gcc", "-c", "example.c"], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_word_that_is_reserved_is_renamed() -> None:
    for word in names._RESERVED:
        assert names.identifier(word) != word
