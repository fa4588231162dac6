"""User-defined ops: what registration rejects, and errors that name the op and the line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, NotDifferentiable, RegistrationError, ShapeError
from wyrm.graph import REGISTRY
from wyrm.graph.registration import METHODS
from wyrm.testing import check_grads


class Cube(wy.Unary):
    """By a formula."""

    formula = "x * x * x"

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * 3.0 * self.parents[0].square(),)


class Mix(wy.Elementwise):
    """By a formula of three operands and an attribute."""

    __slots__ = ("share",)
    formula = "where(x > share, y, z * share)"
    share: float

    def __init__(self, x: Any, y: Any, z: Any, share: float) -> None:
        super().__init__(x, y, z, share=share)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        chosen = self.parents[0] > self.share
        return wy.ZERO, wy.where(chosen, gradient, 0.0), wy.where(chosen, 0.0, gradient * self.share)


class Weighted(wy.Unary):
    """By `evaluate`, with an array as its attribute."""

    __slots__ = ("weights",)
    weights: Any

    def __init__(self, x: Any, weights: Any) -> None:
        super().__init__(x, weights=weights)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return operands[0] * self.weights

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (Weighted(gradient, self.weights),)


class Ramp(wy.Node):
    """Without parents."""

    __slots__ = ("count",)
    count: int

    def __init__(self, count: int) -> None:
        super().__init__(count=count)

    def shape_rule(self) -> tuple[int, ...]:
        return (self.count,)

    def dtype_rule(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.arange(self.count, dtype=self.dtype)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return ()


def parameter(*values: float, name: str | None = None) -> Any:
    return wy.Parameter(np.array(values), name=name)


def test_an_op_by_a_formula() -> None:
    x = parameter(1.0, -2.0)
    assert Cube(x).forward().tolist() == [1.0, -8.0]
    check_grads(Cube(Cube(x)))
    assert REGISTRY[f"{__name__}.Cube"] is Cube


def test_an_op_of_three_operands_and_an_attribute() -> None:
    x, y, z = parameter(0.2, 0.9), parameter(1.0, 2.0), parameter(3.0, 4.0)
    node = Mix(x, y, z, 0.5)
    assert node.forward().tolist() == [1.5, 2.0]
    check_grads(node, [y, z])
    assert wy.grad(node.sum(), x).forward().tolist() == [0.0, 0.0]


def test_ops_that_differ_in_an_attribute_are_not_merged() -> None:
    x = parameter(1.0, 2.0)
    both = Weighted(x, np.array([1.0, 2.0])) + Weighted(x, np.array([10.0, 20.0]))
    assert both.forward().tolist() == [11.0, 44.0]
    check_grads(both)


def test_an_op_without_parents() -> None:
    p = parameter(1.0, 2.0, 3.0)
    first = (Ramp(3) * p).sum()
    second = (Ramp(3) * p).square().sum()
    assert (first.forward(), second.forward()) == (8.0, 40.0)
    p.set([1.0, 1.0, 1.0])
    assert (second.forward(), first.forward()) == (5.0, 3.0)
    first.backward()
    assert p.gradient.tolist() == [0.0, 1.0, 2.0]


def test_a_class_that_lacks_its_parts_is_refused_and_not_registered() -> None:
    with pytest.raises(RegistrationError, match="op Nothing lacks shape_rule and dtype_rule and formula or evaluate"):

        class Nothing(wy.Node):
            def vjp(self, gradient: Any) -> tuple[Any, ...]:
                return ()

    with pytest.raises(RegistrationError, match=r"op NoGradient lacks vjp.* class NoGradient\(\.\.\., abstract=True\)"):

        class NoGradient(wy.Unary):
            def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
                return operands[0]

    with pytest.raises(RegistrationError, match="op NoMeaning lacks formula or evaluate"):

        class NoMeaning(wy.Unary):
            def vjp(self, gradient: Any) -> tuple[Any, ...]:
                return (gradient,)

    assert not [name for name in REGISTRY if "Nothing" in name or "NoGradient" in name or "NoMeaning" in name]


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("x * y", r"names y, which is neither an operand \(x\) nor in its __slots__"),
        ("x * factor", "names factor"),
        ("x", "computes nothing"),
        ("x +", "is not an expression"),
        ("relu6(x)", r"contains 'relu6\(x\)'; allowed are the operands"),
        ("relu(x)", r"contains 'relu\(x\)'; write maximum\(x, 0.0\)$"),
        ("round(x)", r"contains 'round\(x\)'; write rint\(x\)$"),
        ("np.exp(x)", r"contains 'np.exp\(x\)'; write exp alone, without its module$"),
        ("x * (x > 0 and x < 1)", "join masks by & and"),
        ("exp(x, x)", "allowed are the operands"),
        ("x if x > 0 else 1", r"write where\(condition, x, y\)"),
        ("0 < x < 1", "allowed are the operands"),
        ("x // 2", "allowed are the operands"),
        ("x.real", "allowed are the operands"),
        ("'word' * x", "allowed are the operands"),
    ],
)
def test_a_formula_that_says_more_than_formulas_can_is_refused(formula: str, reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason):
        type("Wrong", (wy.Unary,), {"formula": formula, "vjp": lambda self, gradient: (gradient,)})
    assert f"{__name__}.Wrong" not in REGISTRY


@pytest.mark.parametrize("name", ["tanh", "sum", "forward", "parameters", "__add__"])
def test_an_op_cannot_take_the_name_of_a_method_that_nodes_have(name: str) -> None:
    before = getattr(wy.Node, name)
    with pytest.raises(RegistrationError, match=f"op Thief declares the method {name}, which nodes already have"):
        type("Thief", (wy.Unary,), {"formula": "x * 2.0", "method": name, "vjp": lambda self, gradient: (gradient,)})
    assert getattr(wy.Node, name) is before
    with pytest.raises(RegistrationError, match="__sub__"):
        type("Thief", (wy.Binary,), {"formula": "x * y", "operator": "sub", "vjp": lambda self, gradient: (gradient,)})


def test_an_op_may_be_a_new_method_and_be_defined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.graph.registration.METHODS", METHODS.copy())
    monkeypatch.setattr(wy.Node, "_tests_times", None, raising=False)  # what is bound ends with the test
    del wy.Node._tests_times  # type: ignore[attr-defined]  # set above
    for factor in ("2.0", "3.0"):
        body = {"formula": f"x * {factor}", "method": "_tests_times", "__module__": __name__}
        type("Times", (wy.Unary,), {**body, "vjp": lambda self, gradient: (gradient,)})
        node: Any = parameter(1.0)
        assert node._tests_times().forward().tolist() == [float(factor)]


def test_attributes_are_named_in_slots_and_passed() -> None:
    class Hidden(wy.Unary):
        def __init__(self, x: Any, factor: float) -> None:
            super().__init__(x, factor=factor)

        def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
            return operands[0]

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient,)

    with pytest.raises(RegistrationError, match=r"attributes \(factor\), its public __slots__ are \(\)"):
        Hidden(parameter(1.0), 2.0)

    class Forgetful(Hidden):
        __slots__ = ("factor",)

        def __init__(self, x: Any) -> None:
            wy.Unary.__init__(self, x)

    with pytest.raises(RegistrationError, match=r"attributes \(\), its public __slots__ are \(factor\)"):
        Forgetful(parameter(1.0))

    class Assigning(Forgetful):
        def __init__(self, x: Any) -> None:
            self.factor = 2.0

    with pytest.raises(
        AttributeError, match=r"passes its attributes to super\(\).__init__\(\*parents, factor=factor\)"
    ):
        Assigning(parameter(1.0))


@pytest.mark.parametrize(
    ("base", "meaning", "more"),
    [
        (wy.Unary, {"formula": "x * factor"}, ()),
        (wy.Binary, {"formula": "x * y * factor"}, (2.0,)),
        (wy.Composed, {"compose": lambda self, x: x * self.factor}, ()),
    ],
)
def test_a_method_takes_the_attributes_of_its_op(
    base: Any, meaning: dict[str, Any], more: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wyrm.graph.registration.METHODS", METHODS.copy())
    monkeypatch.setattr(wy.Node, "_tests_scaled", None, raising=False)  # what is bound ends with the test
    del wy.Node._tests_scaled  # type: ignore[attr-defined]  # set above
    body = {"__slots__": ("factor",), **meaning, "method": "_tests_scaled", "__module__": __name__}
    scaled: Any = type("Scaled", (base,), body)
    node: Any = parameter(3.0)
    again = node._tests_scaled(*more, factor=5.0)
    assert type(again) is scaled and again.forward().tolist() == [15.0 * math.prod(more)]
    with pytest.raises(RegistrationError, match=r"the attributes \(\), its public __slots__ are \(factor\)"):
        node._tests_scaled(*more)


def test_one_slot_may_be_a_string() -> None:
    class Scaled(wy.Unary):
        __slots__ = "factor"
        formula = "x * factor"
        factor: float

        def __init__(self, x: Any, factor: float) -> None:
            super().__init__(x, factor=factor)

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient * self.factor,)

    assert Scaled.attributes == ("factor",)
    assert Scaled(parameter(2.0), 3.0).forward().tolist() == [6.0]


def test_a_number_given_to_an_op_says_how_to_make_it_a_node() -> None:
    with pytest.raises(TypeError, match=r"cube takes nodes, not float: .*wy\.Constant"):
        Cube(2.0)  # type: ignore[arg-type]  # not a node


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"formula": np.tanh}, "formula must be a string"),
        ({"evaluate": lambda self, x: x}, r"evaluate takes \(self, x\); .* def evaluate\(self, xp, x, \*, shape\)"),
        ({"vjp": wy.Elementwise.vjp, "derivatives": "g * 2.0"}, r"write a tuple .* \('g \* 2.0',\)"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(parts: dict[str, Any], reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason):
        unary(**parts)


@pytest.mark.parametrize(
    ("rule", "answer", "reason"),
    [
        ("dtype_rule", np.float32, r"must return a np\.dtype, .*; it returned <class 'numpy\.float32'>"),
        ("dtype_rule", None, r"must return a np\.dtype, .*; it returned nothing: a return is missing"),
        ("shape_rule", None, r"must return the axes .*; it returned nothing: a return is missing"),
        ("shape_rule", [2], r"must return the axes of the result as a tuple, .*; it returned \[2\]"),
    ],
)
def test_rules_that_return_something_else_are_refused_with_their_line(rule: str, answer: Any, reason: str) -> None:
    op = unary(**{rule: lambda self: answer})
    with pytest.raises(RegistrationError, match=rf"^op Unsound: {rule} {reason} \(.*test_registration\.py:\d+\)$"):
        op(parameter(1.0, 2.0))


def unary(**parts: Any) -> Any:
    """Return an op class of one operand with these parts."""
    return type("Unsound", (wy.Unary,), {"vjp": lambda self, gradient: (gradient,), "formula": "x * 2.0", **parts})


def test_too_few_operands_for_a_formula() -> None:
    class Lonely(wy.Elementwise):
        formula = "x * y"

        def __init__(self, x: Any) -> None:
            super().__init__(x)

        def vjp(self, gradient: Any) -> tuple[Any, ...]:
            return (gradient,)

    with pytest.raises(ShapeError, match=r"the formula 'x \* y' takes 2 operands, not 1"):
        Lonely(parameter(1.0))


@pytest.mark.parametrize(
    ("answer", "error", "reason"),
    [
        (lambda g: (g.sum(),), ShapeError, r"gradient of axes \(\) for p, which has \(2,\)"),
        (lambda g: (wy.concatenate([g, g]),), ShapeError, r"gradient of axes \(4,\) for p, which has \(2,\)"),
        (lambda g: (g.astype(np.float32),), DTypeError, "gradient of float32 for p, which is float64"),
        (lambda g: (g, g), NotDifferentiable, "returned 2 gradients for 1 parents"),
        (lambda g: (), NotDifferentiable, "returned 0 gradients for 1 parents"),
        (lambda g: g, NotDifferentiable, "return a tuple, one for each parent"),
        (lambda g: (None,), NotDifferentiable, "returned None for p"),
        (lambda g: (2.0,), NotDifferentiable, "returned 2.0 for p"),
        (lambda g: (wy.Undefined("it jumps"),), NotDifferentiable, "no gradient with respect to p: it jumps"),
    ],
)
def test_a_wrong_answer_of_vjp_names_the_op_and_the_line(answer: Any, error: type[Exception], reason: str) -> None:
    loss = unary(vjp=lambda self, gradient: answer(gradient))(parameter(1.0, 2.0, name="p")).sum()
    with pytest.raises(error, match=reason) as raised:
        loss.backward()
    assert str(raised.value).startswith("unsound: ")
    assert "loss = unary(vjp=" in str(raised.value)


def test_an_undefined_gradient_that_nobody_asks_for_is_no_error() -> None:
    p, q = parameter(1.0, 2.0), parameter(3.0, 4.0)
    undefined = unary(vjp=lambda self, gradient: (wy.Undefined("it jumps"),))(p)
    assert wy.grad((undefined * q).sum(), q).forward().tolist() == [2.0, 4.0]


def test_evaluate_that_breaks_its_shape_rule() -> None:
    op = unary(formula="", evaluate=lambda self, xp, x, *, shape: xp.sum(x))
    with pytest.raises(ShapeError, match=r"unsound: evaluate returned shape \(\), but shape_rule gives \(2,\)"):
        op(parameter(1.0, 2.0)).forward()


def test_evaluate_that_fails_is_noted_with_the_line() -> None:
    def fail(self: Any, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        raise KeyError("missing")

    node = unary(formula="", evaluate=fail)(parameter(1.0, name="p"))
    with pytest.raises(KeyError, match="missing") as raised:
        node.forward()
    (note,) = raised.value.__notes__
    assert note.startswith("unsound: failed with KeyError") and 'node = unary(formula=""' in note


def test_evaluate_cannot_change_its_operands() -> None:
    def careless(self: Any, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        operands[0][...] += 1.0
        return operands[0]

    p = parameter(1.0)
    with pytest.raises(ValueError, match="read-only"):
        unary(formula="", evaluate=careless)(p).forward()
    assert p.value.tolist() == [1.0]


def test_a_class_variable_may_hide_the_slot_of_a_base_class() -> None:
    class Scaled(wy.Unary):
        __slots__ = ("factor",)
        formula = "x * factor"

    class Doubled(Scaled):
        factor = 2.0

    assert Doubled(parameter(3.0), factor=5.0).forward().tolist() == [15.0]


def test_rebuild_keeps_the_name_and_the_attributes_that_do_not_change() -> None:
    class Line(wy.Unary):
        __slots__ = ("factor", "term")
        formula = "x * factor + term"

    line = Line(parameter(1.0), factor=2.0, term=3.0, name="line")
    again = line.rebuild([parameter(10.0)], term=5.0)
    assert (type(again), again.name, again.attribute_values()) == (Line, "line", {"factor": 2.0, "term": 5.0})
    assert again.forward().tolist() == [25.0]
    with pytest.raises(RegistrationError, match=r"attributes \(factor, term, trem\), its public __slots__ are"):
        line.rebuild([parameter(10.0)], trem=5.0)
