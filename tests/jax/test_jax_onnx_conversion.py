"""While a file is written, functions of jax2onnx give way to others: large graphs take linear time, files are equal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.jax import onnx
from wyrm.jax.onnx import adapted

pytest.importorskip("jax2onnx")

SEARCHES = {name: each for name, each in onnx._OF_JAX2ONNX.items() if name[0] != "get_axis0_override"}


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


def layers(count: int) -> Any:
    """Return products, sums and functions one after the other, with the transpose of the input in each."""
    random = np.random.default_rng(count)
    x = wy.Input(dims=(Batch(), 4), name="x")
    y: Any = x
    for _ in range(count):
        y = (y @ random.normal(size=(4, 4)).astype(np.float32) + random.normal(size=4).astype(np.float32)).tanh()
        y = y + x.T.T.sin()
    return y


def transposes() -> Any:
    x = wy.Input(dims=(Batch(), 4), name="x")
    y: Any = x
    for scale in (0.5, 0.7, 0.9):
        y = (y.T.sin() * scale + x.T.cos()).T
        y = (y.T @ y).sum(1) + (y > 0) * y
    return y


def loop() -> Any:
    x = wy.Input(dims=(Batch(), Time(7), 4), name="x")
    return wy.scan(lambda h, row: ((h * 0.5 + row).tanh(), h @ h.T), x[:, 0], x.transpose(1, 0, 2))[1]


def calls(function: Callable[[], None]) -> int:
    """Return how many functions of jax2onnx and onnx_ir are called, and how many steps their generators make."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and str(frame.f_globals.get("__name__")).startswith(("jax2onnx", "onnx_ir"))

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def test_twice_the_layers_are_twice_the_work(tmp_path: Path) -> None:
    def export(count: int) -> Callable[[], None]:
        return lambda: wy.jax.to_onnx(layers(count), tmp_path / f"{count}.onnx", check=False)

    export(2)()  # modules are imported once
    few, more, most = (calls(export(count)) for count in (10, 20, 40))
    assert most - more < 2.1 * (more - few)


@pytest.mark.parametrize("build", [lambda: layers(3), transposes, loop], ids=["layers", "transposes", "loop"])
def test_searches_find_what_those_of_jax2onnx_find(
    build: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = build()
    wy.jax.to_onnx(output, tmp_path / "found.onnx", check=False)
    for name in SEARCHES:
        monkeypatch.delitem(onnx._OF_JAX2ONNX, name)
    wy.jax.to_onnx(output, tmp_path / "expected.onnx", check=False)
    assert (tmp_path / "found.onnx").read_bytes() == (tmp_path / "expected.onnx").read_bytes()


def test_functions_are_replaced_while_a_file_is_written_alone() -> None:
    from jax2onnx.converter import optimizer_graph_utils, output_binding

    modules: Sequence[Any] = (optimizer_graph_utils, output_binding)
    before = [(each, name, getattr(each, name)) for each in modules for name, *_ in SEARCHES if hasattr(each, name)]
    assert {name for _, name, _ in before} == {name for name, *_ in SEARCHES}
    with pytest.raises(RuntimeError), adapted():
        assert all(getattr(module, name) is not function for module, name, function in before)
        raise RuntimeError
    assert all(getattr(module, name) is function for module, name, function in before)


def test_a_function_with_other_parameters_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax2onnx.converter import output_binding

    def changed(ctx: Any, value: Any, more: bool = False) -> bool:
        return True

    monkeypatch.setattr(output_binding, "_value_is_graph_connected", changed)
    with adapted():
        assert output_binding._value_is_graph_connected is changed
