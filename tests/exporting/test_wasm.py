"""Exports for WebAssembly: ops, training, the functions of JavaScript in Node, and the page in Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special

import wyrm as wy
from bench.browser import served
from tests.browser import OpenPage
from tests.engines.native.test_ops import _outputs
from tests.exporting.in_wasm import InWasm, in_wasm
from tests.exporting.loaded import check_predictions
from tests.exporting.models import classifier, recommender
from tests.exporting.test_ops import ALL, is_determined
from tests.samples import SAMPLES
from wyrm.engines.native.llvm.optimize import codegen_level, optimized
from wyrm.errors import OptionError
from wyrm.exporting import wasm
from wyrm.exporting.building import build
from wyrm.exporting.targets import target_named

# An op of each family; with WYRM_TEST_EXPORT=all one sample of every op.
OPS = list({sample.op: sample for sample in SAMPLES if is_determined(sample)}.values())[:: 1 if ALL else 24]


@pytest.mark.parametrize("first", range(0, len(OPS), 40))
def test_ops_compute_what_native_ones_do(first: int) -> None:
    random, samples = np.random.default_rng(0), OPS[first : first + 40]
    made = [(str(sample), output) for sample in samples for output in _outputs(sample, np.float32, random)]
    program: Any = wy.compile([output for _, output in made])
    check_predictions(in_wasm(predict=program), program, [name for name, _ in made], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("model", [classifier, recommender])
def test_training_is_that_of_python(model: Any) -> None:
    train, _, data = model()
    export = in_wasm(train)
    assert export.start() == 0
    columns = {each.name: data[each.leaf] for each in export.built.training.given}
    for epoch, batch in enumerate((8, 32, 8)):
        wanted = train.epoch(data, batch_size=batch, shuffle=True, seed=3)
        rows = len(next(iter(columns.values())))
        code, found = export.call("epoch", rows, **columns, batch=batch, shuffle=1, seed=3)
        assert code == 0
        loss = wanted["loss"] if isinstance(wanted, dict) else wanted
        np.testing.assert_allclose(found["results"][0], loss, rtol=1e-5, err_msg=f"epoch {epoch}")


def test_products_are_of_vectors_and_a_module_needs_nothing() -> None:
    x = wy.Input(dims=(8, 64), name="x")
    export = in_wasm(predict=wy.compile(x @ wy.Parameter(np.ones((64, 32), np.float32), name="weight")))
    assert export.externals == []
    assert export.module.count(b"\xfd\xe6\x01") > 20  # f32x4.mul
    assert len(export.module) < 60_000


def test_features_are_added_to_those_of_the_target() -> None:
    x, weight = wy.Input(dims=(8, 64), name="x"), wy.Parameter(np.ones((64, 32), np.float32), name="weight")
    program = wy.compile(x @ weight)
    target = target_named("wasm32", None, "+relaxed-simd")
    export = InWasm(build("model", target, None, {"predict": program}, 1, {}))
    assert "+simd128" in target.features
    assert export.module.count(b"\xfd\x85\x02") > 20  # f32x4.relaxed_madd
    data = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    assert export.start() == 0
    code, found = export.call("predict", x=data)
    assert code == 0
    (have,) = found.values()
    np.testing.assert_allclose(have, program({x: data}), rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wasm")
    train, predict, data = classifier()
    wy.export(place, train=train, predict=predict, target="wasm32", columns=data)
    return place


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_node_trains_and_the_weights_come_home(folder: Path) -> None:
    script = str(Path(__file__).with_name("node.mjs"))
    done = subprocess.run(["node", script, str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    train, predict, data = classifier()
    losses = [train.epoch(data, batch_size=8, shuffle=True, seed=1)["loss"] for _ in range(3)]
    np.testing.assert_allclose(found["losses"], losses, rtol=1e-5)
    x = next(leaf for leaf in data if leaf.name == "x")
    assert found["answer"] == predict["answer"]({x: data[x]}).tolist()
    codes = ["ARGUMENT"] * 4 + ["INDEX", "NOT_FINITE", "BATCH", "FILE_SHORT", "FILE_SHORT"]
    assert found["mistakes"] == codes
    again, _, same = classifier()
    home = wy.export(folder / "home", train=again)
    home.load(folder / "home.safetensors")
    np.testing.assert_allclose(
        again.epoch(same, batch_size=8, shuffle=True, seed=1)["loss"],
        train.epoch(data, batch_size=8, shuffle=True, seed=1)["loss"],
        rtol=1e-5,
    )


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_language_model_continues_a_text(tmp_path: Path) -> None:
    wy.nn.seed(0)
    gpt2 = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=31, n_positions=12, n_embd=16, n_layer=2, n_head=2))
    wy.export(tmp_path, generate=gpt2, target="wasm32")
    script = str(Path(__file__).with_name("generate.mjs"))
    done = subprocess.run(["node", script, str(tmp_path), "[3, 4, 5]", "6"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["tokens"] == [3, 4, 5, *wy.nn.generate(gpt2, [3, 4, 5], 6, temperature=0.0)]
    assert found["again"] == found["tokens"]
    messages = ["next needs the number temperature", "read_tokens needs the input tokens", "must be a whole number"]
    assert all(message in refused for message, refused in zip(messages, found["refused"], strict=False))
    keys = [*["ARGUMENT"] * 3, "INDEX", "INDEX", "FULL", *["ARGUMENT"] * 3, "INDEX", "ARGUMENT"]
    assert [each.split(":")[0] for each in found["refused"]] == keys
    options: Any = {"top_k": 20, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.3, "seed": 5, "temperature": 1.5}
    drawn = list(wy.nn.generate(gpt2, [3, 4, 5], 6, **options))
    assert found["drawn"] == [3, 4, 5, *drawn]
    wanted = list(wy.nn.generate(gpt2, [3, 4, 5], 6, stop=drawn[-1], **options))
    assert found["ended"] == [3, 4, 5, *wanted, -1]
    types = (tmp_path / "model.d.ts").read_text(encoding="utf-8")
    assert "read_tokens(data: { tokens: ArrayLike<number> | ArrayLike<bigint> }): object;" in types
    assert "next(data: { token: number, temperature: number }" in types and "{ next: number }" in types
    assert "min_p?: number; repetition_penalty?: number; seed?: number | bigint; stop?: ArrayLike<number>" in types


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_functions_that_javascript_does_not_have(folder: Path) -> None:
    points = [-7.0, -2.5, -0.3, 0.0, 1e-9, 0.7, 2.9, 5.5, 30.5]
    code = (
        f"import {{ mathFunction }} from '{(folder / 'model.mjs').as_uri()}'; const points = {points};"
        "console.log(JSON.stringify(['erf', 'tgamma', 'lgamma'].map(name => points.map(mathFunction(name)))));"
    )
    done = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True)
    erf, gamma, log_gamma = (np.array(each, np.float64) for each in json.loads(done.stdout))
    good = np.array(points) % 1.0 != 0.0
    np.testing.assert_allclose(erf, scipy.special.erf(points), rtol=1e-14)
    np.testing.assert_allclose(gamma[good], scipy.special.gamma(points)[good], rtol=1e-13)
    np.testing.assert_allclose(log_gamma[good], scipy.special.gammaln(points)[good], rtol=1e-13, atol=1e-13)


def test_types_name_inputs_and_outputs(folder: Path) -> None:
    text = (folder / "model.d.ts").read_text(encoding="utf-8")
    assert "epoch(data: { " in text and "y: ArrayLike<number> | ArrayLike<bigint>" in text
    assert "answer: BigInt64Array" in text and 'readonly "weight": Float32Array;' in text


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    with served(folder) as address:
        yield f"{address}index.html"


def test_the_page_trains_in_the_browser(server: str, open_page: OpenPage) -> None:
    page = open_page(server)
    page.wait_for_selector("#train:not([disabled])")
    assert page.get_by_label("batch").input_value() == "32"
    assert not page.get_by_label("data").is_visible()
    page.get_by_label("epochs").fill("5")
    page.get_by_role("button", name="Train").click()
    page.wait_for_selector("body[data-done]")
    assert page.inner_text("#numbers").startswith("epoch 5: loss ")
    assert page.inner_text("#problem") == ""
    assert page.get_attribute("#curve path", "d").count("L") == 4  # type: ignore[union-attr]  # it is there
    page.get_by_label("batch").fill("4000")  # above the limit of the export
    page.get_by_role("button", name="Train").click()
    page.get_by_text("the model does not take batches of this size").wait_for()
    assert page.inner_text("#state") == "Ready" and page.locator("#train").is_enabled()


def test_what_is_missing_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Input(dims=(3,), name="x")
    with pytest.raises(OptionError, match="those of the training"):
        wy.compile(x * 2.0).export(tmp_path / "model", target="wasm32", columns={x: np.zeros((2, 3))})
    monkeypatch.setattr(wasm, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OptionError, match="needs a linker: pip install"):
        wy.compile(x * 2.0).export(tmp_path / "model", target="wasm32")
    assert not (tmp_path / "model").exists()


def test_the_gates_of_an_lstm_are_computed_in_vectors() -> None:
    batch = wy.Dim()
    x = wy.Input(dims=(batch, 5, 8), name="x")
    states, _ = wy.nn.LSTM(8, 16)(x)
    loss: Any = states.square().mean()
    train: Any = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    target, scalar = target_named("wasm32", None, None), list[str]()
    for unit in build("model", target, train, {}, 4, {}).units:
        module, _ = optimized(unit.text, 3, target.machine(codegen_level(3)))  # tests compile at a lower level
        for function in target.machine(2).emit_assembly(module).split("end_function"):
            of_vectors, of_scalars = (len(re.findall(rf"{kind}\.(?:mul|add)", function)) for kind in ("f32x4", "f32"))
            # A loop over vectors has one over the rest beside it.
            if of_scalars > 40 and 2 * of_vectors < of_scalars:
                scalar.append(unit.symbol)
    assert scalar == []
