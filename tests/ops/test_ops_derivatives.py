"""Gradients that follow from formulas: the rules of all functions, and ops of a user's own."""

from __future__ import annotations

import ast
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special

import wyrm as wy
from wyrm.errors import RegistrationError
from wyrm.graph import REGISTRY
from wyrm.ops import elementwise
from wyrm.ops.elementwise.derivation import _op
from wyrm.ops.elementwise.derivatives import DERIVATIVES, WRITTEN
from wyrm.ops.elementwise.formula import _BINARY, _COMPARE, _UNARY, COMPOSED, FUNCTIONS, Operand, parse

_SYMBOLS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**"}
_ABOVE_ONE = {"arccosh"}
# Those whose first argument has no derivative.
_OF_A_PARAMETER = {"gammainc", "gammaincc"}


def op_of(formula: str, arity: int = 1, **members: Any) -> Any:
    """Return a new op with this formula."""
    base = wy.Unary if arity == 1 else wy.Binary
    return type("Formula", (base,), {"__slots__": (), "formula": formula, **members})


def text_of(function: str) -> tuple[str, int]:
    """Return a formula that calls the function, and the number of operands."""
    if function in _SYMBOLS:
        return f"x {_SYMBOLS[function]} y", 2
    if function == "negative":
        return "-x", 1
    if function == "square":
        return "x * x", 1
    if function in _OF_A_PARAMETER:
        return f"{function}(1.7, x)", 1
    arity = FUNCTIONS.get(function, 1)
    return (f"{function}(x)", 1) if arity == 1 else (f"{function}(x, y)", 2)


def smooth() -> list[str]:
    return [f for f, rules in DERIVATIVES.items() if all(isinstance(rule, str) for rule in rules)] + sorted(WRITTEN)


def test_every_function_has_a_rule_and_an_op() -> None:
    functions = {*FUNCTIONS, *COMPOSED, *_BINARY.values(), *_COMPARE.values(), *_UNARY.values()}
    assert functions - DERIVATIVES.keys() - WRITTEN == {"where"}
    for function in functions - {"zeta"}:
        _op(function)


def test_formulas_of_wyrm_are_valid() -> None:
    """Only the formulas of other packages are checked when their classes are defined."""
    _op("zeta")  # imports every module of elementwise ops
    ops = [op for op in REGISTRY.values() if issubclass(op, wy.Elementwise) and op.__module__.startswith("wyrm.")]
    assert len(ops) > 80
    for op in ops:
        op.check_formulas()
        for call in parse(op.formula) if op.formula else ():
            assert all(x.position < op.needs for x in call.arguments if isinstance(x, Operand))


@pytest.mark.parametrize("function", smooth())
def test_rules_are_the_derivatives_to_second_order(function: str) -> None:
    formula, arity = text_of(function)
    random = np.random.default_rng(3)
    low = 1.1 if function in _ABOVE_ONE else 0.15
    leaves = [wy.Parameter(random.uniform(low, low + 0.7, 5)) for _ in range(arity)]
    inner = op_of(formula, arity)(*leaves)
    wy.testing.check_grads(inner)
    # Inside a formula, the value of the function is not that of the op.
    nested = op_of(f"0.3 * ({formula}) + x * 0.1", arity)(*leaves)
    wy.testing.check_grads(nested)


def test_an_op_with_a_formula_needs_no_gradient_in_any_engine() -> None:
    op = op_of("x * sigmoid(beta * x)", __slots__=("beta",))
    x = wy.Parameter(np.array([-1e4, -1.0, 0.5, 1e4]))
    node = op(x, beta=1.5)
    gate = special.expit(1.5 * x.value)
    expected = gate + 1.5 * x.value * gate * (1.0 - gate)
    np.testing.assert_allclose(wy.grad(node.sum(), x).forward(), expected, rtol=1e-6, atol=1e-12)
    for engine in ("native", "jax"):
        program = wy.compile(wy.grad(node.sum(), x), engine=engine)
        np.testing.assert_allclose(program(), expected, rtol=1e-5, atol=1e-6)


def test_composed_functions_are_their_formulas() -> None:
    assert parse("sigmoid(2.0 * x)") == parse(COMPOSED["sigmoid"].replace("x)", "2.0 * x)").replace("x >", "2.0 * x >"))
    assert [call.function for call in parse("tanh(x) * tanh(x) + softplus(y)", composed=True)] == [
        "tanh", "square", "softplus", "add",
    ]  # fmt: skip


def test_the_gradient_of_where_is_that_of_the_chosen_branch() -> None:
    x = wy.Parameter(np.array([0.0, 4.0, -1.0]))
    root = op_of("where(x > 0.0, sqrt(x), 2.0 * x)")(x)
    with np.errstate(all="ignore"):
        assert wy.grad(root.sum(), x).forward().tolist() == [2.0, 0.25, 2.0]


def test_what_is_discrete_has_a_declared_zero() -> None:
    x, y = wy.Parameter([0.5]), wy.Parameter([0.5])
    node = op_of("floor(x) * 2.0")(x)
    assert node.vjp(node) == (wy.ZERO,)
    node = op_of("where(x > y, 1.0, 0.0)", 2)(x, y)
    assert node.vjp(node) == (wy.ZERO, wy.ZERO)
    node = op_of("x * floor(y)", 2)(x, y)
    assert node.vjp(node)[1] is wy.ZERO


def test_broadcast_operands_get_gradients_of_their_shapes() -> None:
    x, y = wy.Parameter(np.ones((3, 1))), wy.Parameter(np.arange(4.0))
    node = op_of("tanh(x) * y + x * x * y", 2)(x, y)
    assert [g.shape for g in wy.grad(node.sum(), (x, y))] == [(3, 1), (4,)]
    wy.testing.check_grads(node)


def test_derivatives_of_an_op_replace_those_of_its_formula() -> None:
    x = wy.Parameter([0.0, 2.0])
    op = op_of("maximum(x, slope * x)", __slots__=("slope",), derivatives=("where(x > 0.0, g, slope * g)",))
    assert wy.grad(op(x, slope=0.5).sum(), x).forward().tolist() == [0.5, 1.0]
    zero = op_of("x * y", 2, derivatives=("g * y", wy.ZERO))(x, x)
    assert zero.vjp(zero)[1] is wy.ZERO


def test_a_function_without_a_rule_is_an_error_that_names_it() -> None:
    with pytest.raises(RegistrationError, match=r"argument 0 of zeta.* write derivatives") as error:
        op_of("zeta(x, y)", 2)
    assert "op Formula: the gradient of the formula 'zeta(x, y)'" in str(error.value)
    op_of("zeta(x, y)", 2, vjp=lambda self, gradient: (wy.Undefined("no rule"), gradient))
    op_of("zeta(3.0, x)")


def test_derivatives_must_be_formulas_one_for_each_operand() -> None:
    with pytest.raises(RegistrationError, match="allowed are the operands"):
        op_of("x * x", derivatives=("g * (lambda: x)",))
    with pytest.raises(RegistrationError, match=r"contains 'relu\(g\)'; write maximum\(x, 0\.0\)"):
        op_of("x * x", derivatives=("relu(g)",))
    with pytest.raises(RegistrationError, match="op Formula has 2 derivatives for 1 operand"):
        op_of("x * x", derivatives=("g * x", "g"))
    with pytest.raises(RegistrationError, match="names slope, which is neither"):
        op_of("x * x", derivatives=("g * slope",))


def defined_name(statement: ast.stmt) -> str:
    match statement:
        case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def written_gradients() -> dict[str, bool]:
    """Return the elementwise ops with a gradient of their own, and whether a comment is in it or just above."""
    found: dict[str, bool] = {}
    for path in sorted(Path(elementwise.__path__[0]).glob("*.py")):
        with path.open("rb") as file:
            comments = {token.start[0] for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT}
        classes = [each for each in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(each, ast.ClassDef)]
        for op in classes:
            for member in op.body if op.name != "Elementwise" else ():
                if defined_name(member) in ("vjp", "derivatives"):
                    lines = range(member.lineno - 1, (member.end_lineno or 0) + 1)
                    found[f"{op.name} in {path.stem}"] = not comments.isdisjoint(lines)
    return found


def test_a_written_gradient_says_why_the_formula_s_own_is_not_enough() -> None:
    found = written_gradients()
    assert len(found) > 30
    assert not [name for name, is_explained in found.items() if not is_explained]
