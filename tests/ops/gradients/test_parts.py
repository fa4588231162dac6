"""Gradients through nodes that contain a graph: the same numbers, lines and errors as without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable
from wyrm.graph.base import describe
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.scan import Scan
from wyrm.ops.elementwise.arithmetic import Multiply

RANDOM = np.random.default_rng(0)

# Invalid results of a `vjp`, for a vector of two float64 numbers.
FAULTS: dict[str, Callable[[Any], Any]] = {
    "None": lambda gradient: (None,),
    "an array": lambda gradient: (np.ones(2),),
    "no tuple": lambda gradient: 7,
    "one too many": lambda gradient: (gradient, gradient),
    "one too few": lambda gradient: (),
    "another type": lambda gradient: (gradient.astype(np.float32),),
    "another shape": lambda gradient: (wy.Constant(np.ones(3)),),
    "fewer axes": lambda gradient: (gradient.sum(),),
    "no gradient": lambda gradient: (wy.Undefined("it is rough"),),
    "an op that does not fit": lambda gradient: (gradient * wy.Constant(np.ones(3)),),
}


class Faulty(wy.Unary):
    """A square with a wrong gradient."""

    formula = "x * x"
    fault: ClassVar[str]

    def vjp(self, gradient: Any) -> Any:
        return FAULTS[self.fault](gradient)


class FaultyLater(wy.Unary):
    """A square whose gradient has a wrong gradient."""

    formula = "x * x"

    def vjp(self, gradient: Any) -> Any:
        return (gradient * Faulty(self.parents[0]),)


class HalfRough(wy.Binary):
    """A product without a gradient with respect to its second operand."""

    formula = "x * y"

    def vjp(self, gradient: Any) -> Any:
        return gradient * self.parents[1], wy.Undefined("it is rough")


Step = Callable[[Any], Any]


def rows_of(x: Any) -> Any:
    return wy.stack([x, x])


# The contexts in which a step on a vector runs.
PLACES: dict[str, Callable[[Step, Any], Any]] = {
    "checkpoint": lambda step, x: wy.checkpoint(step, x),
    "checkpoint that uses it": lambda step, x: wy.checkpoint(lambda y: step(x) * y, x * 2.0),
    "checkpoint in a checkpoint": lambda step, x: wy.checkpoint(lambda y: wy.checkpoint(step, y), x),
    "scan": lambda step, x: wy.scan(lambda carry, _: (step(carry), None), x, None, 2)[0],
    "scan backwards": lambda step, x: wy.scan(lambda carry, _: (step(carry), None), x, None, 2, reverse=True)[0],
    "scan that makes": lambda step, x: wy.scan(lambda carry, _: (carry, step(carry)), x, None, 2)[1],
    "scan of rows": lambda step, x: wy.scan(lambda y, x: (y + step(x), None), np.zeros(2), rows_of(x))[0],
    "scan in a scan": lambda step, x: wy.scan(lambda y, _: (PLACES["scan"](step, y), None), x, None, 2)[0],
    "while": lambda step, x: wy.while_loop(lambda carry: carry.sum() < 9.0, step, x, max_steps=3),
    "cond": lambda step, x: wy.cond(x.sum() > 0.0, step, lambda x: x * 2.0, x),
    "checkpoint in a scan": lambda step, x: wy.scan(lambda y, _: (wy.checkpoint(step, y), None), x, None, 2)[0],
    "scan in a checkpoint": lambda step, x: wy.checkpoint(lambda x: PLACES["scan"](step, x), x),
}
# Inside a loop, an operand is an input of the step.
OPERANDS = {"scan of rows": "x"}
LOOPS = [place for place in PLACES if "scan" in place or place in ("while", "cond")]


def error_of(place: Callable[[Step, Any], Any], op: Any, name: str) -> Exception:
    """Return the error of taking the gradient of the gradient of a faulty step."""
    x = wy.Parameter(np.array([0.5, 1.0]), name=name)

    def step(x: Any) -> Any:
        return op(x)

    with pytest.raises(Exception) as caught:  # the test compares the class
        wy.grad(wy.grad(place(step, x).sum(), x).sum(), x)
    return caught.value


@pytest.mark.parametrize("op", [Faulty, FaultyLater])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("place", PLACES)
def test_errors_are_those_of_outside(place: str, fault: str, op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "fault", fault, raising=False)
    name = OPERANDS.get(place, "carry")
    plain, found = (error_of(build, op, name) for build in (lambda step, x: step(x), PLACES[place]))
    assert isinstance(plain, wy.WyrmError) and type(found) is type(plain)
    lines, expected = str(found).splitlines(), str(plain).splitlines()
    assert lines[-1].endswith("return op(x)")
    assert (lines[0], lines[-1]) == (expected[0], expected[-1])
    if place not in LOOPS and fault != "an op that does not fit":
        assert lines == expected


@pytest.mark.parametrize("place", [place for place in PLACES if place not in LOOPS])
def test_operands_that_are_computed_have_the_same_names_in_messages(place: str) -> None:
    x = wy.Parameter(np.array([0.5, 1.0]), name="x")
    errors = []
    for build in (lambda step, x: step(x), PLACES[place]):
        doubled = x * 2.0
        with pytest.raises(NotDifferentiable) as caught:
            wy.grad(build(lambda x: HalfRough(1.0 * x, x), doubled).sum(), x)
        errors.append(str(caught.value))
    assert errors[1] == errors[0] and "no gradient with respect to multiply: it is rough" in errors[0]


@pytest.mark.parametrize("place", PLACES)
def test_what_is_not_asked_for_may_have_no_gradient(place: str) -> None:
    x, y = (wy.Parameter(RANDOM.standard_normal(2), name=name) for name in "xy")
    rough, smooth = (PLACES[place](step, x).sum() for step in (lambda x: HalfRough(x, y), lambda x: Multiply(x, y)))
    assert wy.grad(rough, x).forward().tobytes() == wy.grad(smooth, x).forward().tobytes()
    with pytest.raises(NotDifferentiable, match="no gradient with respect to y: it is rough") as caught:
        wy.grad(rough, [x, y])
    assert describe(y) in str(caught.value)


def test_an_input_that_is_not_asked_for_may_have_no_gradient() -> None:
    x, y = (wy.Parameter(RANDOM.standard_normal(2), name=name) for name in "xy")
    part = wy.checkpoint(lambda x, y: HalfRough(x, y), x, y).sum()
    assert wy.grad(part, x).forward().tolist() == y.value.tolist()
    with pytest.raises(NotDifferentiable, match="no gradient with respect to y: it is rough"):
        wy.grad(part, [x, y])


# --- lines ------------------------------------------------------------------------------------------------------------


def bend(x: Any) -> Any:
    bent = x.tanh()
    more = bent * x
    return more.exp() * bent


def made_in(outputs: Any, function: Any) -> set[tuple[str, int]]:
    """Return the ops of a graph, inner graphs included, by the lines of a function that they carry."""
    code = function.__code__
    lines = range(code.co_firstlineno, max(line for _, _, line in code.co_lines() if line is not None) + 1)
    found: set[tuple[str, int]] = set()
    for node in topological_order(outputs):
        if node.location.filename == code.co_filename and node.location.line in lines:
            found.add((node.op_name(), node.location.line))
        if isinstance(node, Scan):
            found |= made_in(node.steps.outputs, function)
    return found


@pytest.mark.parametrize("place", PLACES)
def test_what_a_gradient_is_made_of_carries_the_line_that_it_belongs_to(place: str) -> None:
    x = wy.Parameter(RANDOM.standard_normal(2))
    plain, found = (wy.grad(build(bend, x).sum(), x) for build in (lambda step, x: step(x), PLACES[place]))
    of_step, of_gradient = made_in([bend(x)], bend), made_in([plain], bend)
    assert of_gradient > of_step
    missing = of_gradient - made_in([found], bend)
    # A loop gets the residuals of its forward pass, and need not compute them again.
    assert missing <= of_step if place in LOOPS else not missing


# --- numbers ----------------------------------------------------------------------------------------------------------


def derivatives(build: Callable[[Any], Any], x: Any) -> list[Any]:
    """Return the value, the gradient and a gradient of the gradient."""
    value = build(x)
    first = wy.grad(value.square().sum(), x)
    return [value, first, wy.grad(first.square().sum(), x)]


def unrolled(place: str, x: Any) -> Any:
    if place == "checkpoint that uses it":
        return bend(x) * (x * 2.0)
    if "scan" not in place:
        return bend(x)
    if place == "scan of rows":
        return bend(x) + bend(x)
    if place == "scan that makes":
        return wy.stack([bend(x), bend(x)])
    return bend(bend(x))


@pytest.mark.parametrize("place", [place for place in PLACES if place not in ("while", "scan in a scan")])
def test_the_numbers_are_those_of_outside_to_second_order(place: str) -> None:
    x = wy.Parameter(np.array([0.25, 0.5]))
    for found, plain in zip(
        wy.run(derivatives(lambda x: PLACES[place](bend, x), x)),
        wy.run(derivatives(lambda x: unrolled(place, x), x)),
        strict=True,
    ):
        np.testing.assert_allclose(found, plain, rtol=1e-12)


def test_the_gradient_of_a_table_that_a_part_uses_twice_is_row_sparse_to_the_last_bit() -> None:
    table, rows, others = wy.Parameter(RANDOM.standard_normal((50, 3))), [0, 2, 2, 5], [2, 2, 1, 0]

    def part(table: Any) -> Any:
        return table.index(rows).tanh() * table.index(others)

    plain, found = (wy.grad(x.square().sum(), table) for x in (part(table), wy.checkpoint(part, table)))
    assert plain.gives_rows and found.gives_rows
    assert found.forward().tobytes() == plain.forward().tobytes()


def test_a_node_that_is_used_often_is_differentiated_once() -> None:
    x = wy.Parameter(RANDOM.standard_normal(2))

    def part(x: Any) -> Any:
        for _ in range(20):
            x = (x * 0.5).tanh() + x
        return x

    for build in (part, lambda x: wy.checkpoint(part, x), lambda x: PLACES["scan"](part, x)):
        assert len(topological_order([wy.grad(build(x).sum(), x)])) < 400
