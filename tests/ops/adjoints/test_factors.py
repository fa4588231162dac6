"""Turns whose derivatives do not wait for the cotangent of the turn before: its product comes last."""

# mypy: allow-untyped-defs, allow-untyped-calls
# Kernels of users have no types.

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.engines.native.kernels.running import compiled
from tests.ops.adjoints.checking import Case
from tests.ops.adjoints.programs import soft_dtw
from wyrm.ops.adjoints.derived import adjoint, forward_and_backward, kind_of_value


def native(function: Any, arguments: list[Any]) -> Any:
    return compiled(function, *arguments)(*arguments)


def chain(x, scale):
    for i in range(1, x.size):
        x[i] = math.log(x[i - 1] * x[i - 1] + scale) / scale - x[i]
    return x[x.size - 1]


def with_a_view(x, scale):
    for i in range(1, x.shape[0]):
        row, above = x[i], x[i - 1]
        row[0] = above[0] / (above[0] * above[1] + scale) / scale + row[1]
    return x[x.shape[0] - 1, 0]


def used_twice(x, scale):
    for i in range(1, x.size):
        a = x[i - 1]
        b = a / scale
        c = a / (b * b + 1.0)
        x[i] -= c * b / (scale + c)
    return x[x.size - 1]


def two_cotangents(x, scale):
    v = 0.5
    for i in range(1, x.size):
        v = x[i - 1] / (v * v + scale) / scale
        x[i] = v / (x[i - 1] + scale)
    return x[x.size - 1] + v


def short(x, scale):
    for i in range(1, x.size):
        x[i] = x[i - 1] * scale + x[i]
    return x[x.size - 1]


def in_a_branch(x, scale):
    for i in range(1, x.size):
        if x[i] > 0.9:
            x[i] = x[i - 1] / (x[i - 1] * x[i - 1] + scale) / scale
    return x[x.size - 1]


def arguments_of(function: Callable[..., Any], dtype: type = np.float64) -> list[Any]:
    random = np.random.default_rng(5)
    if function is soft_dtw:
        return [random.random((3, 4)).astype(dtype), dtype(0.7)]
    shape = (6, 2) if function is with_a_view else 6
    return [random.uniform(0.5, 1.5, shape).astype(dtype), dtype(0.7)]


def multiplied_last(source: str) -> set[str]:
    """Return the variables that the sums of cotangents in loops are multiplied with at last."""
    found = set()
    for loop in ast.walk(ast.parse(source)):
        for each in ast.walk(loop) if isinstance(loop, ast.For) else ():
            if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Subscript):
                match each.value:
                    case ast.BinOp(left=ast.Name() | ast.BinOp(), op=ast.Mult(), right=ast.Name(id=text)):
                        found.add(text)
    return found


def divided_cotangents(function: Callable[..., Any], arguments: list[Any]) -> int:
    """Return how many quotients in loops have an element's cotangent above."""
    source = forward_and_backward(function, list(map(kind_of_value, arguments)))[1].source
    cotangents, count = set[str](), 0
    for each in ast.walk(ast.parse(source)):
        match each:
            case ast.Assign(targets=[ast.Name(id=goal)], value=ast.Subscript(value=ast.Name(id=text))):
                cotangents |= {goal} if text.startswith("d_") else set()
            case ast.BinOp(left=left, op=ast.Div()):
                count += bool({n.id for n in ast.walk(left) if isinstance(n, ast.Name)} & cotangents)
    return count


ALL = [soft_dtw, chain, with_a_view, used_twice, two_cotangents, short, in_a_branch]


@pytest.mark.parametrize("function", ALL)
def test_all_modes_equal_complex_steps(function: Callable[..., Any]) -> None:
    case = Case(function, arguments_of(function), 2)
    expected = case.expected()
    for mode in (case.reverse, case.in_halves, lambda run=None: case.in_halves(levels=1)):
        assert mode() == pytest.approx(expected, rel=1e-12)
    assert case.in_halves(native) == pytest.approx(expected, rel=1e-12)
    again = case.second()
    assert again.reverse() == pytest.approx(again.expected(), rel=1e-10)


@pytest.mark.parametrize("function", [soft_dtw, chain, with_a_view, used_twice])
def test_the_cotangent_of_the_turn_before_multiplies_last(function: Callable[..., Any]) -> None:
    kinds = list(map(kind_of_value, arguments_of(function)))
    for derived in (forward_and_backward(function, kinds)[1], adjoint(function, kinds)):
        assert len(multiplied_last(derived.source)) == 1, derived.source
    assert divided_cotangents(function, arguments_of(function)) == 0


@pytest.mark.parametrize("function", [two_cotangents, in_a_branch])
def test_what_is_no_product_with_one_cotangent_stays(function: Callable[..., Any]) -> None:
    assert divided_cotangents(function, arguments_of(function)) > 0


def test_a_factor_that_float32_may_not_hold_stays_behind_the_cotangent() -> None:
    assert divided_cotangents(chain, arguments_of(chain, np.float32)) > 0
