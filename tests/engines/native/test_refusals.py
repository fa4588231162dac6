"""Errors where native code cannot be compiled, and what still works without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.llvm import library, optimize
from wyrm.errors import CompileError, RegistrationError

WITHOUT_LLVM = """
import sys, warnings
sys.modules["llvmlite"] = None
import wyrm as wy
from wyrm.errors import CompileError

@wy.function(engine="auto")
def doubled(x):
    return x * 2.0

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(doubled(3.0), doubled(4.0), len(caught))
print(caught[0].message)
x = wy.Input(name="x")
try:
    wy.compile(x * 2.0)({x: 1.0})
except CompileError as error:
    print(error)
"""


def test_without_llvmlite_the_reference_engine_goes_on_where_it_may(tmp_path: Path) -> None:
    environment = {**os.environ, "WYRM_CACHE_DIR": str(tmp_path)}  # empty: a second process would compile too
    command = [sys.executable, "-c", WITHOUT_LLVM]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    values, warning, error = found.stdout.splitlines()
    assert values == "6.0 8.0 1"
    assert "llvmlite" in warning and "falling back to the reference engine" in warning
    assert error.startswith("a program for multiply cannot be compiled: llvmlite") and "wy.run" in error


def test_what_llvm_refuses_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(text: str, level: int) -> bytes:
        raise RuntimeError("no such target")

    monkeypatch.setenv("WYRM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "machine_code", refuse)
    x = wy.Input(name="x")
    program = wy.compile((x * 0.123).tanh() + 1.5)
    with pytest.raises(CompileError, match=r"a program for add cannot be compiled: LLVM rejects it: no such target"):
        program({x: 1.0})
    monkeypatch.setattr(library, "machine_code", optimize.machine_code)
    assert program({x: 0.0}) == 1.5


def test_an_engine_that_there_is_not() -> None:
    with pytest.raises(ValueError, match=r"engine must be 'reference', 'auto', 'native'.* or .*, not 'cuda'"):
        wy.function(lambda x: x, engine="cuda")


class Doubled(wy.Node[Any, Any]):
    """Twice its operand, with a kernel that the test supplies."""

    __slots__ = ()

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> np.dtype[Any]:
        return np.dtype(np.float32)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] * 2

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 2.0,)


HUGE = float("inf")


def listing(x: Any, out: Any) -> None:
    values = [each * 2.0 for each in x]
    out[0] = values[0]


def norm(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = np.linalg.norm(x)


def bounded(x: Any, out: Any) -> None:
    for i in range(x.size):
        out[i] = min(max(x[i], -HUGE), HUGE) * 2.0


def closing_over(factor: float) -> Any:
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * factor

    return kernel


def run(kernel: Any) -> Any:
    op: Any = type("Doubled", (Doubled,), {"__slots__": ()})
    wy.LOOPS.register(op)(type("DoubledLoops", (wy.LoopForm,), {"kernel": staticmethod(kernel)}))
    x = wy.Input(dims=(3,), name="x")
    return wy.compile(op(x))({x: [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("kernel", "line"), [(listing, "values = [each * 2.0 for each in x]"), (norm, "out[i] = np.linalg.norm(x)")]
)
def test_a_kernel_outside_of_the_language_is_named_with_its_line(kernel: Any, line: str) -> None:
    with pytest.raises(RegistrationError, match=r"a program for doubled .*doubled_kernel") as caught:
        run(kernel)
    number = next(i for i, each in enumerate(Path(__file__).read_text().splitlines(), 1) if line in each)
    assert f"{Path(__file__).name}:{number}" in str(caught.value)


def test_a_kernel_that_closes_over_something_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"doubled_kernel uses factor of the function that encloses kernel"):
        run(closing_over(2.0))


def scaled(x: Any, out: Any, factor: float) -> None:
    for i in range(x.size):
        out[i] = x[i] * factor


def short(x: Any) -> None:
    x[0] = 0.0


@pytest.mark.parametrize(("kernel", "takes"), [(scaled, "scaled takes 3: x, out, factor"), (short, "short takes 1: x")])
def test_a_kernel_that_takes_another_number_of_arguments(kernel: Any, takes: str) -> None:
    message = rf"op Doubled: kernel_arguments returns 2 arguments, but the kernel {takes} \(.*test_refusals\.py:\d+\)"
    with pytest.raises(RegistrationError, match=message):
        run(kernel)


class Pair(Doubled):
    """`2 * x`, by a kernel that has a scratch array, and whose arguments tests give in any order."""

    order = "x", "out", "scratch"


@wy.LOOPS.register(Pair)
class PairLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any, scratch: Any) -> None:
        for i in range(x.size):
            scratch[i] = x[i]
            filled(out[i:], scratch[i] * 2.0)

    def kernel_arguments(self, node: Any, operands: Any, out: Any) -> tuple[Any, ...]:
        named = {"x": operands[0].reshape(-1), "out": out.reshape(-1), "scratch": np.empty(out.size, out.dtype)}
        return tuple(named[name] for name in node.order)


def filled(place: Any, value: float) -> None:
    place[0] = value


def in_a_program(node: Any, x: wy.Input) -> Any:
    return wy.compile(node)({x: [1.0, 2.0, 3.0]})


def in_a_function(node: Any, x: wy.Input) -> Any:
    return wy.function(lambda x: type(node)(x).sum(), engine="native")(np.arange(3.0))


def beside_python(node: Any, x: wy.Input) -> Any:
    return wy.compile([node, Doubled(x)])({x: [1.0, 2.0, 3.0]})


def in_a_loop(node: Any, x: wy.Input) -> Any:
    return wy.compile(wy.scan(lambda carry, row: (type(node)(carry + row), None), x, x.reshape(1, 3))[0])(
        {x: [1.0, 2.0, 3.0]}
    )


@pytest.mark.parametrize("use", [in_a_program, in_a_function, beside_python, in_a_loop])
def test_a_kernel_that_writes_to_an_operand_is_refused_also_where_its_code_is_cached(
    use: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = wy.Input(dims=(3,), name="x")
    use(Pair(x), x)
    monkeypatch.setattr(Pair, "order", ("out", "x", "scratch"))
    message = (
        r"op Pair: the kernel kernel writes to out, for which kernel_arguments returns an operand: .*, in their order, "
        r"x, out, scratch, .*test_refusals\.py:\d+"
    )
    with pytest.raises(RegistrationError, match=message):
        use(Pair(x), x)
    monkeypatch.setattr(Pair, "order", ("scratch", "out", "x"))
    with pytest.raises(RegistrationError, match="the kernel kernel writes to scratch"):
        use(Pair(x), x)


def test_a_kernel_may_use_infinite_constants() -> None:
    np.testing.assert_array_equal(run(bounded), [2.0, 4.0, 6.0])
