"""`check_op` on ops of a user: each wrong rule is found, and named with its engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from scipy import special

import wyrm as wy
from wyrm.engines import register, registry
from wyrm.testing import OpError, check_op

# Other tests register engines of their own.
OWN_ENGINES = ["native"] if find_spec("jax") is None else ["native", "jax"]


class Doubled(wy.Unary, abstract=True):
    """Twice the operand."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * 2.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 2.0,)


class KernelOf3(Doubled): ...


@wy.LOOPS.register(KernelOf3)
class Tripling(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * 3.0

    def kernel_arguments(self, node: Any, operands: Any, out: Any) -> tuple[Any, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


class EvaluateOf2(KernelOf3):
    """Its kernel and its gradient agree on 3."""

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0,)


class GradientOf5(KernelOf3):
    """Nothing agrees with anything."""

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 5.0,)


class Lowered(Doubled): ...


@wy.JAX.register(Lowered)
class LoweredForm(wy.JaxForm):
    def lower(self, node: Any, operands: Any, shape: Any, lowering: Any) -> Any:
        return operands[0] * 3.0


class Decomposed(Doubled): ...


@wy.LOOPS.register(Decomposed)
class DecomposedLoops(wy.LoopForm):
    def decompose(self, node: Any) -> Any:
        return node.parents[0] * 2.5


class AddingKernel(Doubled): ...


@wy.LOOPS.register(AddingKernel)
class AddingLoops(Tripling):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] * 2.0

    @staticmethod
    def adding_kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] += x[i]


class WrongGradient(Doubled):
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0,)


class TooManyGradients(Doubled):
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return gradient * 2.0, gradient


class Cubed(Doubled):
    """Its gradient is right, and the gradient of that is not."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] ** 3

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0 * Squared(self.parents[0]),)


class Squared(Doubled):
    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] ** 2

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * self.parents[0],)


class Stopped(Cubed):
    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0 * self.parents[0].stop_gradient() ** 2,)


class Coarse(Doubled):
    """Its numbers in float32 are those of a narrower type."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        (x,) = operands
        return x * 2.0 if x.dtype == np.float64 else (x * 2.0).astype(np.float16).astype(x.dtype)


class InPlace(Doubled):
    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        x = np.asarray(operands[0])
        x *= 2.0
        return x


class OfAnotherShape(Doubled):
    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return (operands[0] * 2.0)[..., None]


class Both(Doubled):
    formula = "x + x"

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * 3.0


class Batched(Doubled):
    def batched(self, operands: Any, mapped: Any) -> Any:
        return operands[0] * 2.0 + 1.0


class Centered(wy.Unary):
    """The mean of all rows is taken away, but the op says that rows do not depend on each other."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        (x,) = operands
        return x - xp.mean(x, axis=0, keepdims=True)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient - gradient.mean(axis=0, keepdims=True),)

    def batched(self, operands: Any, mapped: Any) -> Any:
        return None


@wy.REACH.register(Centered)
class Apart(wy.reach.Reach):
    def ways(self, node: Any) -> Any:
        return wy.reach.ways_by(node, [(0, range(node.ndim))])

    def reached(self, node: Any, operands: Any, analysis: Any) -> Any:
        return analysis.everything(node, operands)


class Forgetful(wy.Unary):
    """Its factor is not an attribute, so copies forget it."""

    __slots__ = ("_factor",)
    _factor: float

    def __init__(self, x: Any, factor: float) -> None:
        super().__init__(x)
        object.__setattr__(self, "_factor", factor)

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] * self._factor

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * self._factor,)


def leaf(*shape: int) -> Any:
    return wy.Parameter(np.random.default_rng(0).uniform(0.5, 1.5, shape), name="x")


def wrong(node: Any, *, engines: Sequence[str] = OWN_ENGINES, **options: Any) -> list[tuple[str, str]]:
    with pytest.raises(OpError) as error:
        check_op(node, engines=engines, **options)
    assert isinstance(error.value, AssertionError | wy.WyrmError)
    for finding in error.value.findings:
        assert str(finding) in str(error.value)
    return [(finding.rule, finding.engine) for finding in error.value.findings]


CASES: dict[Any, list[tuple[str, str]]] = {
    KernelOf3: [("Tripling.kernel", "native")],
    EvaluateOf2: [("EvaluateOf2.evaluate", "reference")],
    Lowered: [("LoweredForm.lower", "jax")],
    Decomposed: [("DecomposedLoops.decompose", "native")],
    AddingKernel: [("AddingLoops.adding_kernel", "native")],
    WrongGradient: [("WrongGradient.vjp", "reference")],
    TooManyGradients: [("TooManyGradients.vjp", "reference")],
    Cubed: [("Squared.vjp", "reference")],
    Stopped: [("Stopped.vjp", "reference")],
    Coarse: [("Coarse.evaluate", "reference")],
    InPlace: [("InPlace.evaluate", "reference")],
    OfAnotherShape: [("OfAnotherShape.evaluate", "reference")],
    Both: [("Both.evaluate", "reference")],
    Batched: [("Batched.batched", "vmap")],
    Centered: [("Apart.ways", "rows")],
}


@pytest.mark.parametrize("op", CASES, ids=lambda op: op.__name__)
def test_the_wrong_rule_is_named_and_no_other(op: Any) -> None:
    assert wrong(op(leaf(4, 3))) == CASES[op]


def test_an_engine_that_is_registered_adds_no_second_finding_of_a_rule() -> None:
    name = "written_for_checks"
    register(name, "tests.engines.written:WrittenEngine")
    try:
        assert wrong(Decomposed(leaf(4, 3)), engines=[name]) == CASES[Decomposed]
    finally:
        del registry._known[name]


def test_a_vote_without_a_majority_names_both() -> None:
    found = wrong(GradientOf5(leaf(3)))
    assert found == [("GradientOf5.vjp", "reference"), ("Tripling.kernel or GradientOf5.evaluate", "native")]


def test_the_expected_value_decides() -> None:
    x = leaf(3)
    assert ("GradientOf5.evaluate", "reference") in wrong(GradientOf5(x), expected=x.value * 3.0)
    assert ("Tripling.kernel", "native") in wrong(GradientOf5(x), expected=x.value * 2.0)
    assert wrong(Honest(x), expected=x.value * 4.0) == [("Honest.evaluate", "reference")]


class Honest(Doubled): ...


@pytest.mark.parametrize("array", [0.0, np.zeros(3), np.full((2, 2), 1e-20), np.float32(0.0), np.zeros(2, np.float32)])
def test_rules_that_agree_at_zero(array: Any) -> None:
    assert wrong(KernelOf3(wy.Constant(array))) == [("Tripling.kernel", "native")]
    check_op(Honest(wy.Constant(array)))


def test_leaves_of_every_kind() -> None:
    class Batch(wy.Dim): ...

    for node in (KernelOf3(wy.Constant([1.0, 2.0])), KernelOf3(leaf(2).tanh()), KernelOf3(KernelOf3(leaf(2)))):
        assert wrong(node) == [("Tripling.kernel", "native")]
    x: Any = wy.Input(dims=(Batch(), 2), name="x")
    with pytest.raises(wy.errors.NotSet):
        check_op(KernelOf3(x))
    x.set(np.ones((3, 2)))
    assert wrong(KernelOf3(x)) == [("Tripling.kernel", "native")]
    check_op(Honest(x))


class Product(wy.Binary):
    formula = "x * y"


@wy.JAX.register(Product)
class ProductForm(wy.JaxForm):
    def lower(self, node: Any, operands: Any, shape: Any, lowering: Any) -> Any:
        return operands[0] * operands[0]


def test_two_operands_that_are_the_same_node() -> None:
    x = leaf(3)
    assert wrong(Product(x, x)) == [("ProductForm.lower", "jax")]
    check_op(Product(x, x), engines=["native"])


def test_copies() -> None:
    assert wrong(Forgetful(leaf(2), 3.0)) == [("Forgetful.__slots__", "copies")]


def test_an_op_whose_gradient_is_not_that_of_its_value() -> None:
    check_op(WrongGradient(leaf(3)), order=0)
    check_op(Cubed(leaf(3)), order=1)
    assert wrong(WrongGradient(leaf(3)), order=1) == [("WrongGradient.vjp", "reference")]


def test_engines_may_be_chosen_and_nodes_given_together() -> None:
    check_op(KernelOf3(leaf(3)), engines=["jax"])
    check_op(KernelOf3(leaf(3)), engines=())
    found = wrong([Honest(leaf(3)), KernelOf3(leaf(3)), Lowered(leaf(2))])
    assert found == [("Tripling.kernel", "native"), ("LoweredForm.lower", "jax")]
    x = leaf(3)
    assert wrong([Honest(x), Honest(x)], expected=[x.value * 2.0, x.value]) == [("Honest.evaluate", "reference")]


def test_an_op_that_jax_cannot_trace() -> None:
    class ByScipy(Doubled):
        def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
            return special.xlog1py(operands[0], np.expm1(2.0))

    check_op(ByScipy(leaf(3)))


def test_what_is_no_op() -> None:
    wrong_thing: Any = 3
    with pytest.raises(TypeError, match=r"check_op takes a node, not int: build it first, as in MyOp\(x\)"):
        check_op([wrong_thing])
    with pytest.raises(TypeError, match="is a leaf"):
        check_op(leaf(2))
