"""Users' names never become code and never clash with names in generated code."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import Any

import numpy as np
import pytest

import wyrm as wy

NAMES = [
    "x; import os", "lambda", "first\nimport os\n", "quoted'''", '"""', "back\\", "# no", "\u2028line", "größe", "",
    "_", "None", "run", "np", "math", "range", "order", "totals", "hyperparameters", "k", "i0", "j1", "t1_", "load",
    "claim", "1st", "matmul_kernel", "float32_exp", "float32_tanh", "learning_rate_float32", "update_all_float32",
    "loop_over_3", "scalars", "n_batch", "column_of_x", "sums_of_table", "x" * 200, "multiply_into", "release",
    "step", "batch", "check_all", "fill_with_nan",
]  # fmt: skip
copied = 3.0


def load(x: float, order: float) -> float:
    """A helper of a kernel, named like a function that generated code calls."""
    return x * copied + order


class Loaded(wy.Unary):
    """`3 x + 1` by a kernel whose helpers have names of generated code."""

    __slots__ = ()

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] * 3.0 + 1.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0,)


@wy.LOOPS.register(Loaded)
class LoadedLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = load(x[i], 1.0)


class Batch(wy.Dim): ...


def build(name: str) -> tuple[list[Any], list[Any], Any]:
    """Return a graph whose inputs and parameters share one name: kernels, tables, exponentials, dense parameters."""
    batch = Batch()
    rows = wy.IndexInput(dims=(batch,), name=name)
    x = wy.Input(dims=(batch, 2), name=name)
    table = wy.Parameter(np.full((3, 2), 0.25, np.float32), name=name)
    weight = wy.Parameter(np.array([[0.5, 1.0], [0.25, -1.0]], np.float32), name=name)
    scale = wy.Parameter(np.float32(2.0), name=name)
    near: Any = table.index(rows).exp() @ weight
    loss: Any = ((near - x).tanh() * scale).square().sum()
    return [rows, x], [table, weight, scale], loss


def test_any_name_will_do() -> None:
    built = [build(name) for name in NAMES]
    parameters = [parameter for _, own, _ in built for parameter in own]
    total: Any = sum(loss for _, _, loss in built)
    inputs = [leaf for leaves, _, _ in built for leaf in leaves]
    data = [np.array([0, 2, 2]), np.arange(6, dtype=np.float32).reshape(3, 2)]
    program = wy.compile(total, wy.optim.SGD(parameters, learning_rate=0.01), loop="python")
    found = program({leaf: data[i % 2] for i, leaf in enumerate(inputs)})

    leaves, own, loss = build("plain")
    for leaf, value in zip(leaves, data, strict=True):
        leaf.set(value)
    optimizer = wy.optim.SGD(own, learning_rate=0.01)
    assert float(found) == pytest.approx(len(NAMES) * float(loss.forward()), rel=1e-5)
    loss.backward()
    optimizer.step()
    for parameter, want in zip(parameters, own * len(NAMES), strict=True):
        np.testing.assert_allclose(parameter.value, want.value, rtol=1e-5, err_msg=repr(parameter.name))


def test_a_number_read_third_and_the_second_product_of_the_loop() -> None:
    scale, x, y = wy.Parameter(np.float64(2.0)), wy.Parameter(np.arange(4.0)), wy.Parameter(np.arange(4.0) + 1.0)
    square = scale * scale
    product = x * y
    total = (square * product * product).sum()
    assert float(wy.compile(total)({})) == float(total.forward())


@pytest.mark.parametrize("name", ["learning_rate_float32", "lambda", "float32_exp", "matmul_kernel", "scalars"])
def test_a_name_of_the_engine_alone(name: str) -> None:
    slope = wy.Parameter(np.float32(5.0), name=name)
    train = wy.compile(slope.square() + 0.0 * slope.exp(), wy.optim.SGD([slope], 0.125), loop="python")
    assert train({}) == 25.0
    assert float(slope) == 3.75


@pytest.mark.parametrize("loop", ["compiled", "python"])
@pytest.mark.parametrize("name", NAMES)
def test_the_source_holds_names_only_as_identifiers(name: str, loop: Any) -> None:
    _, parameters, loss = build(name)
    source = wy.compile(loss, wy.optim.Adam(parameters), loop=loop).source
    plain = wy.compile(build("plain")[2], loop=loop).source
    assert source.isascii() and source.isprintable() is False  # newlines are the only characters that are not printable
    assert all(line.isprintable() for line in source.split("\n"))
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert [ast.unparse(node) for node in imports] == [
        ast.unparse(node) for node in ast.walk(ast.parse(plain)) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    texts = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.STRING]
    assert not any(name and name in text for text in texts if len(name) > 3 and not name.isidentifier())


def test_helpers_of_a_kernel_may_have_any_name() -> None:
    x = wy.Input(dims=(3,), name="x")
    found = wy.compile(Loaded(x * 2.0).exp())({x: [0.0, 0.5, -0.5]})
    np.testing.assert_allclose(found, np.exp([1.0, 4.0, -2.0]), rtol=1e-5)
