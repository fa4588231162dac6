"""Formulas have the values of the same expressions in Python and NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wyrm as wy
from wyrm.errors import RegistrationError
from wyrm.ops.elementwise.formula import FUNCTIONS, array_function, parse

NAMES = {name: array_function(np, name) for name in FUNCTIONS}


def extend(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(children, children)
    return st.one_of(
        st.tuples(children, st.sampled_from("+-*"), children).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["tanh", "sin", "abs", "exp"]), children).map(lambda t: f"{t[0]}(tanh({t[1]}))"),
        pair.map(lambda t: f"maximum({t[0]}, {t[1]})"),
        pair.map(lambda t: f"where({t[0]} < {t[1]}, {t[1]}, -{t[0]})"),
        pair.map(lambda t: f"where(({t[0]} >= 0.5) & ~({t[1]} != 0.5), {t[1]}, {t[0]})"),
    )


expressions = st.recursive(st.sampled_from(["x", "y", "factor", "2.0", "0.5"]), extend, max_leaves=8)


@settings(deadline=None)
@given(expressions)
def test_any_formula_equals_its_evaluation_by_python(expression: str) -> None:
    formula = f"({expression}) + x * y * x"
    x, y = np.array([0.3, -1.2, 0.5]), np.array([[0.7], [-0.4]])
    op: Any = type(
        "Formula",
        (wy.Binary,),
        {"__slots__": ("factor",), "formula": formula, "vjp": lambda self, gradient: (gradient, gradient)},
    )
    node = op.construct((wy.Constant(x), wy.Constant(y)), {"factor": 1.5})
    # Comparisons of NumPy's numbers can be inverted; Python's `~True` is -2.
    numpys = re.sub(r"\d\.\d", r"number(\g<0>)", formula)
    expected = eval(numpys, {**NAMES, "x": x, "y": y, "number": np.float64, "factor": np.float64(1.5)})
    np.testing.assert_allclose(node.forward(), np.broadcast_to(expected, (2, 3)), rtol=1e-12)


def test_equal_subexpressions_share_a_call() -> None:
    assert [call.function for call in parse("exp(x) / (1.0 + exp(x))")] == ["exp", "add", "divide"]
    assert [call.function for call in parse("x * x * x")] == ["multiply", "multiply"]
    assert [call.function for call in parse("(x + x) * (y + y)")] == ["add", "add", "multiply"]


@pytest.mark.parametrize("formula", ["", "x", "2.0", "x y", "x.y * 2", "lambda: x", "exp(x=x)", "x[0] * 2", "f(x)"])
def test_invalid_formulas_are_errors(formula: str) -> None:
    with pytest.raises(RegistrationError, match="formula"):
        parse(formula)


def test_zeros_of_both_signs_are_distinct_constants() -> None:
    assert [call.arguments[1] for call in parse("maximum(x * 0.0, x * -0.0)")][:2] == [0.0, -0.0]
    assert [call.function for call in parse("maximum(x * 0.0, x * -0.0)")] == ["multiply", "multiply", "maximum"]
