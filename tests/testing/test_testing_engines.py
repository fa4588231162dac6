"""Ops of a user whose `evaluate`, loop form and JAX form disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special

import wyrm as wy
from wyrm.testing import EngineError, GradientError, check_grads
from wyrm.testing.engines import compare_engines

RANDOM = np.random.default_rng(0)


class Doubled(wy.Unary, abstract=True):
    """Twice the operand; subclasses have rules of their own, some of which lie."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * 2.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 2.0,)


class Honest(Doubled): ...


@wy.LOOPS.register(Honest)
class HonestLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * 2.0

    def kernel_arguments(self, node: Any, operands: Sequence[Any], out: Any) -> tuple[Any, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


@wy.JAX.register(Honest)
class HonestForm(wy.JaxForm):
    def lower(self, node: Any, operands: Sequence[Any], shape: Any, lowering: Any) -> Any:
        return operands[0] + operands[0]


class ByKernel(Doubled): ...


@wy.LOOPS.register(ByKernel)
class ByKernelLoops(HonestLoops):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * 2.0 if i < 3 else 0.0


class ByForm(Honest): ...


@wy.JAX.register(ByForm)
class ByFormForm(wy.JaxForm):
    def lower(self, node: Any, operands: Sequence[Any], shape: Any, lowering: Any) -> Any:
        return operands[0] * 2.0 + 1e-6


class ByDecomposition(Doubled): ...


@wy.LOOPS.register(ByDecomposition)
class ByDecompositionLoops(wy.LoopForm):
    def decompose(self, node: Any) -> Any:
        return node.parents[0] * 2.5


class ByGather(Doubled): ...


@wy.LOOPS.register(ByGather)
class ByGatherLoops(wy.LoopForm):
    def gather_index(self, node: Any, index: Any) -> Any:
        return index


class Product(wy.Binary):
    """An op of two operands by a formula, whose JAX form forgets the second one."""

    formula = "x * y"

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return gradient * self.parents[1], gradient * self.parents[0]


@wy.JAX.register(Product)
class ProductForm(wy.JaxForm):
    def lower(self, node: Any, operands: Sequence[Any], shape: Any, lowering: Any) -> Any:
        return operands[0] * operands[0]


class Cubed(wy.Node[Any, Any]):
    """x**3 by a node of its own, whose gradient is a node with a kernel that lies."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return self.parents[0].dims

    def dtype_rule(self) -> Any:
        return self.parents[0].dtype

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] ** 3

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (CubedGradient(gradient, self.parents[0]),)


class CubedGradient(Cubed):
    def __init__(self, gradient: Any, x: Any) -> None:
        wy.Node.__init__(self, gradient, x)

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * 3.0 * operands[1] ** 2

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        given, x = self.parents
        return gradient * 3.0 * x * x, gradient * given * 6.0 * x


@wy.LOOPS.register(CubedGradient)
class CubedGradientLoops(wy.LoopForm):
    @staticmethod
    def kernel(gradient: Any, x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = gradient[i] * 2.0 * x[i] * x[i]


class Largest(wy.IndexNode[Any]):
    """The position of the largest element, whose kernel finds the smallest."""

    def __init__(self, x: Any) -> None:
        super().__init__(x)

    def shape_rule(self) -> Any:
        return ()

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return xp.argmax(operands[0])

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (wy.ZERO,)


@wy.LOOPS.register(Largest)
class LargestLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        best = 0
        for i in range(x.size):
            if x[i] < x[best]:
                best = i
        out[0] = best

    def kernel_arguments(self, node: Any, operands: Sequence[Any], out: Any) -> tuple[Any, ...]:
        return operands[0], out.reshape(-1)


class ByScipy(Doubled):
    """An op that JAX cannot trace, and that has no JAX form."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return special.xlog1py(operands[0], np.expm1(2.0))


def leaf(*shape: int) -> Any:
    return wy.Parameter(RANDOM.uniform(0.5, 1.5, shape), name="x")


def failure(node: Any, **options: Any) -> str:
    with pytest.raises(EngineError) as error:
        check_grads(node, **options)
    assert isinstance(error.value, AssertionError | wy.WyrmError)
    return str(error.value)


@pytest.mark.parametrize(
    ("op", "engine", "rule"),
    [
        (ByKernel, "native", "ByKernelLoops.kernel"),
        (ByDecomposition, "native", "ByDecompositionLoops.decompose"),
        (ByGather, "native", "ByGatherLoops.gather_index"),
        (ByForm, "jax", "ByFormForm.lower"),
    ],
)
def test_the_engine_and_the_rule_that_differ_are_named(op: Any, engine: str, rule: str) -> None:
    message = failure(op(leaf(4)))
    assert f"the engine {engine!r} computes" in message and f"by {rule}, the reference engine" in message
    assert f"by {op.__name__}.evaluate" in message and "test_testing_engines.py" in message


def test_an_op_inside_a_graph_is_compared() -> None:
    x = leaf(4)
    message = failure((ByKernel(x.tanh()) * x).sum() * 0.0)  # also where it does not change the output
    assert "at (3,)" in message and "by ByKernelLoops.kernel" in message


def test_an_op_with_a_formula_and_a_form() -> None:
    message = failure(Product(leaf(3), leaf(3)))
    assert "by ProductForm.lower, the reference engine" in message and "the formula of Product, 'x * y'" in message
    check_grads(Product(leaf(3), leaf(3)), engines=["native"])


def test_the_ops_of_gradients_are_compared() -> None:
    message = failure(Cubed(leaf(4)))
    assert "CubedGradientLoops.kernel" in message


def test_a_node_of_integers() -> None:
    table = leaf(4, 2)
    message = failure(table[Largest(wy.Constant(np.array([0.0, 3.0, -1.0, 2.0])))].sum())
    assert "computes 2 by LargestLoops.kernel, the reference engine 1" in message


def test_engines_may_be_chosen() -> None:
    check_grads(ByKernel(leaf(4)), engines=["jax"])
    check_grads(ByKernel(leaf(4)), engines=())
    check_grads(ByForm(leaf(4)), engines=["native"])
    assert "ByFormForm" in failure(ByForm(leaf(4)), engines=["jax"])


def test_honest_ops_pass() -> None:
    check_grads((Honest(leaf(3, 4)) * Honest(leaf(4).tanh())).sum())
    check_grads(Honest(wy.Parameter(np.array(2.0))))


def test_open_axes_and_inputs() -> None:
    class Batch(wy.Dim): ...

    x: Any = wy.Input(dims=(Batch(), 2), name="x", dtype=np.float64)
    x.set(RANDOM.normal(size=(5, 2)))
    check_grads(Honest(x * 2.0).sum(), [x])
    assert "ByKernelLoops.kernel" in failure(ByKernel(x[:, 0] * 2.0), wrt=[x])


def test_an_op_that_jax_cannot_trace_is_called_without_a_warning() -> None:
    check_grads(ByScipy(leaf(3)))
    check_grads(ByScipy(leaf(3)), engines=["jax"])


def test_a_wrong_gradient_is_still_found_first() -> None:
    class Wrong(ByKernel):
        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * 3.0,)

    with pytest.raises(GradientError, match="finite differences"):
        check_grads(Wrong(leaf(4)))


def test_ops_of_wyrm_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their own tests compare them, with every engine."""
    monkeypatch.setattr("wyrm.testing.engines.computed", lambda *_: pytest.fail("compiles"))
    check_grads((leaf(3) * leaf(3).tanh()).sum())
    compare_engines([leaf(3).tanh()])
