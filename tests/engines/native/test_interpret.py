"""Array functions of a program, run in Python statement by statement, give the numbers of the machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    Break,
    CountedLoop,
    Let,
    Literal,
    Name,
    ReturnValue,
    When,
    WhileLoop,
)
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm.library import CompiledFunction
from wyrm.engines.native.run.in_python import Interpreter


class Batch(wy.Dim): ...


class Feature(wy.Dim): ...


X = np.linspace(-2.0, 2.0, 40).reshape(10, 4).astype(np.float32)
ROWS = np.array([3, 0, 3, 5, 1, 1, 0, 3, 2, 5])


def elementwise(x: Any, rows: Any) -> Any:
    return [wy.where(x > 0.5, x.exp(), x.tanh() * 2.0) + x.abs(), (x * x).sum(), x.sum(axis=0), x.max(axis=1)]


def shapes(x: Any, rows: Any) -> Any:
    return [x.T.exp(), x[:, 1:3] + 1.0, wy.concatenate([x, x * 2.0], axis=1), (x - x.mean(axis=1, keepdims=True))]


def tables(x: Any, rows: Any) -> Any:
    table = wy.Parameter(np.arange(24.0, dtype=np.float32).reshape(6, 4), name="table")
    return [table.index(rows) * x, (table.index(rows) * x).sum(axis=0)]


def run_by_python(program: wy.Program, feed: dict[Any, Any]) -> list[Any]:
    """Return the outputs of a program, or its parameters after a step, computed by the interpreter."""
    engine: Any = program._engine
    runner = engine.runner
    values = [np.asarray(value, leaf.dtype) for leaf, value in feed.items()]
    binding = runner.binding({leaf: value.shape for leaf, value in zip(feed, values, strict=True)})
    columns = {leaf: value.reshape(len(value), -1) for leaf, value in zip(feed, values, strict=True)}
    optimizer = program.optimizer
    numbers = [] if optimizer is None else list(optimizer.numbers(1, optimizer.parameters).values())
    hyperparameters = np.array(numbers, np.float64).reshape(1, len(numbers))
    count = len(values[0])
    own = (0, 1, count, 0, np.arange(count), np.zeros(2), hyperparameters)

    def call(function: Any, arguments: list[Any], variables: dict[str, Any]) -> Any:
        if isinstance(function, ArrayRoutine):
            return Interpreter(call).run(function.code, arguments)
        assert isinstance(function, KernelFunction)
        return function(*arguments)

    with np.errstate(all="ignore"):
        done = Interpreter(call).run(runner.graph.source.run.code, [*own, *runner._values(binding, columns)])
    assert done == 1
    return [np.array(binding.array(slot)) for slot in runner.graph.tree.outputs]


@pytest.mark.parametrize("build", [elementwise, shapes, tables])
def test_outputs(build: Callable[[Any, Any], list[Any]]) -> None:
    x, rows = wy.Input(dims=(Batch(), 4), name="x"), wy.IndexInput(dims=(Batch(),), name="rows")
    outputs = build(x, rows)
    feed = {x: X, rows: ROWS} if build is tables else {x: X}
    expected = wy.compile(outputs)(feed)
    for found, wanted in zip(run_by_python(wy.compile(outputs), feed), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rule", [wy.optim.Adam, wy.optim.Adagrad, wy.optim.SGD])
def test_a_step(rule: Any) -> None:
    """With dense parameters, and one of which a step touches rows."""

    def trained(by_python: bool) -> list[Any]:
        x, rows = wy.Input(dims=(Batch(), 4), name="x"), wy.IndexInput(dims=(Batch(),), name="rows")
        weight = wy.Parameter(np.linspace(0.0, 1.0, 4), name="weight", dtype=np.float32)
        table = wy.Parameter(np.linspace(-1.0, 1.0, 24).reshape(6, 4), name="table", dtype=np.float32)
        loss = ((table.index(rows) * weight - x).tanh().square()).mean()
        program = wy.compile(loss, rule([weight, table], 0.1))
        run = run_by_python if by_python else wy.Program.__call__
        run(program, {x: X, rows: ROWS})
        return [weight.value, table.value]

    for found, wanted in zip(trained(by_python=True), trained(by_python=False), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


def test_break_ends_the_innermost_loop_alone() -> None:
    """For both kinds of loop; the outer loop continues."""
    more = Let("n", Apply("add", (Name("n"), Literal(1))))
    enough = When(Apply("greater_equal", (Name("n"), Literal(5))), (Break(),))
    inner = WhileLoop(Apply("less", (Name("n"), Literal(100))), (more, enough))
    after = Let("turns", Apply("add", (Name("turns"), Literal(1))))
    both = CountedLoop("k", Literal(3), (Let("n", Literal(0)), inner, after))
    body = (Let("turns", Literal(0)), both, ReturnValue(Apply("add", (Name("n"), Name("turns")))))
    function = ArrayFunction("counting", (), body)
    assert Interpreter(lambda *_: None).run(function, []) == 8
    assert CompiledFunction(ArrayRoutine(function))() == 8
