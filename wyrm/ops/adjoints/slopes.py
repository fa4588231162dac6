"""Sums over the variables of an expression, each with the derivative of the expression: what both modes write."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from typing import TypeAlias

from wyrm.ops.adjoints.program import (
    Kind,
    Let,
    Put,
    Store,
    base,
    duplicate,
    every,
    name,
    number,
    parsed,
    replaced,
    statements_of,
)
from wyrm.ops.adjoints.rules import (
    converts,
    formula_name,
    function_of,
    is_passive,
    negated,
    slope,
    slopes_of,
    times,
)
from wyrm.ops.adjoints.values import Kernel
from wyrm.ops.elementwise.derivatives import DERIVATIVES

# Given a variable or an element, and its cotangent or the factor of its tangent: the statements that add it.
Leaf: TypeAlias = Callable[[ast.expr, ast.expr], list[ast.stmt]]


class Slopes:
    """Writes derivatives of the expressions of a kernel.

    `active`: the names and arrays whose floats depend on what is differentiated. `temporaries`: the names that the
    statements it returns assign.
    """

    def __init__(self, kernel: Kernel, active: set[str]) -> None:
        self.kernel, self.active = kernel, active
        self.temporaries: set[str] = set()

    def is_active(self, e: ast.expr) -> bool:
        """Return whether an expression depends smoothly on something active."""
        match e:
            case ast.Name(id=text):
                return text in self.active
            case ast.Subscript():
                return self.kernel.root(base(e)) in self.active and not isinstance(e.value, ast.Attribute)
            case ast.Compare() | ast.BoolOp() | ast.Attribute() | ast.UnaryOp(op=ast.Not()) | ast.Constant():
                return False
            case ast.Call(args=given):
                return not is_passive(function_of(e, self.kernel.space)) and any(map(self.is_active, given))
            case ast.BinOp(op=ast.FloorDiv()):
                return False
        return any(self.is_active(each) for each in ast.iter_child_nodes(e) if isinstance(each, ast.expr))

    def temporary(self, kind: str = "f8") -> str:
        """Return a name for a cotangent."""
        found = self.kernel.new("g", Kind(kind))
        self.temporaries.add(found)
        return found

    def parts(self, e: ast.expr, g: ast.expr, leaf: Leaf, where: str, value: ast.expr | None = None) -> list[ast.stmt]:
        """Return the statements that `leaf` writes for each active variable of `e`, with `g` times the derivative.

        `value`: a variable that has the value of `e`, if there is one.
        """
        if not self.is_active(e):
            return []
        if isinstance(e, ast.Name | ast.Subscript):
            return leaf(e, g)

        def part(x: ast.expr, g: ast.expr) -> list[ast.stmt]:
            return self.parts(x, g, leaf, where)

        match e:
            case ast.UnaryOp(op=op, operand=x):
                return part(x, negated(g) if isinstance(op, ast.USub) else g)
            case ast.BinOp(left=x, op=ast.Add(), right=y):
                g, out = self._named(g, [x, y])
                return out + part(x, g) + part(y, g)
            case ast.BinOp(left=x, op=ast.Sub(), right=y):
                g, out = self._named(g, [x, y])
                return out + part(x, g) + part(y, negated(g))
            case ast.BinOp(left=x, op=ast.Mult(), right=y):
                g, out = self._named(g, [x, y])
                return out + part(x, times(g, y)) + part(y, times(g, x))
            case ast.BinOp(left=x, op=ast.Pow(), right=y):
                return self._power(e, x, y, g, part, value)
            case ast.BinOp(left=x, op=ast.Div(), right=y):
                return self._called("divide", [x, y], e, g, part, where, value)
            case ast.BinOp(left=x, op=ast.Mod(), right=y):
                return self._remainder(e, x, y, g, part, where, value)
            case ast.Call(args=given):
                function = function_of(e, self.kernel.space)
                if converts(function):
                    return part(given[0], g)
                own = slopes_of(function)
                if own is not None:
                    return self._own(own, given, g, part)
                return self._called(formula_name(function) or "", given, e, g, part, where, value)
        self.kernel.fail(f"no derivative of {ast.unparse(e)}", where)

    def _named(self, g: ast.expr, operands: list[ast.expr]) -> tuple[ast.expr, list[ast.stmt]]:
        """Return a cotangent as a variable where several operands use it, and its assignment."""
        if isinstance(g, ast.Name | ast.Constant | ast.Subscript) or sum(map(self.is_active, operands)) < 2:
            return g, []
        if isinstance(g, ast.UnaryOp) and isinstance(g.operand, ast.Name):
            return g, []
        kept = self.temporary()
        return name(kept), statements_of(f"{kept} = {ast.unparse(g)}")

    def _called(
        self, function: str, given: list[ast.expr], e: ast.expr, g: ast.expr,
        part: Callable[[ast.expr, ast.expr], list[ast.stmt]], where: str, value: ast.expr | None,
    ) -> list[ast.stmt]:  # fmt: skip
        g, out = self._named(g, given)
        for i, operand in enumerate(given):
            if self.is_active(operand):
                try:
                    if function not in DERIVATIVES:
                        raise KeyError(function)
                    found = slope(function, i, given, e if value is None else value, g)
                except (KeyError, IndexError):
                    called = ast.unparse(e.func) if isinstance(e, ast.Call) else ast.unparse(e)
                    self.kernel.fail(
                        f"{called} has no derivative that kernels can compute: write it as a kernel, with its slopes, "
                        f"as in @wy.kernel(slopes=(slope,))\n    {ast.unparse(e)}", where
                    )  # fmt: skip
                if found is not None:
                    out += part(operand, found)
        return out

    def _remainder(
        self, e: ast.expr, x: ast.expr, y: ast.expr, g: ast.expr,
        part: Callable[[ast.expr, ast.expr], list[ast.stmt]], where: str, value: ast.expr | None,
    ) -> list[ast.stmt]:  # fmt: skip
        if value is None or not self.is_active(y):
            return self._called("remainder", [x, y], e, g, part, where, value)
        g, out = self._named(g, [x, y])
        # The quotient by the value, because one that is computed again may be rounded to another integer.
        quotient = replaced(parsed("np.rint((x - v) / y)"), {"x": x, "v": value, "y": y})
        return [*out, *(part(x, g) if self.is_active(x) else []), *part(y, negated(times(g, quotient)))]

    def _own(
        self, own: tuple[Callable[..., float], ...], given: list[ast.expr], g: ast.expr,
        part: Callable[[ast.expr, ast.expr], list[ast.stmt]],
    ) -> list[ast.stmt]:  # fmt: skip
        g, out = self._named(g, given)
        for function, operand in zip(own, given, strict=True):
            if self.is_active(operand):
                held = next((key for key, found in self.kernel.space.items() if found is function), None)
                if held is None:
                    held = self.kernel.fresh(function.__name__)
                    self.kernel.space[held] = function
                out += part(operand, times(g, ast.Call(name(held), [duplicate(each) for each in given], [])))
        return out

    def _power(
        self, e: ast.expr, x: ast.expr, y: ast.expr, g: ast.expr,
        part: Callable[[ast.expr, ast.expr], list[ast.stmt]], value: ast.expr | None,
    ) -> list[ast.stmt]:  # fmt: skip
        g, out = self._named(g, [x, y])
        if self.is_active(x):
            exponent = y.operand if isinstance(y, ast.UnaryOp) else y
            if isinstance(exponent, ast.Constant) and isinstance(y, ast.Constant | ast.UnaryOp):
                given = float(ast.literal_eval(y))
                if given == 0.0:
                    return out
                less: float | int = int(given - 1) if given == int(given) else given - 1.0
                rest = x if less == 1 else ast.BinOp(x, ast.Pow(), number(less))
                factor = number(given) if less == 0 else times(number(given), rest)
            else:
                factor = replaced(parsed("0.0 if y == 0 else y * x ** (y - 1)"), {"x": x, "y": y})
            out += part(x, times(g, factor))
        if self.is_active(y):
            factor = replaced(
                parsed("0.0 if x == 0.0 else v * np.log(x)"), {"x": x, "v": e if value is None else value}
            )
            out += part(y, times(g, factor))
        return out


def varied(kernel: Kernel, wrt: Collection[str]) -> Slopes:
    """Return the slopes of a kernel, in which all that depends on the parameters `wrt` is active."""
    slopes = Slopes(kernel, set(wrt))
    waiting = True
    while waiting:
        waiting = False
        for goal, value in moves(kernel):
            if goal not in slopes.active and slopes.is_active(value):
                slopes.active.add(goal)
                waiting = True
    return slopes


def moves(kernel: Kernel) -> list[tuple[str, ast.expr]]:
    """Return the values that a kernel gives to variables of floats and to arrays of them, each with its goal."""
    found: list[tuple[str, ast.expr]] = []
    for each in every(kernel.body):
        if isinstance(each, Let | Put) and not kernel.kinds[each.name].is_array:
            found.append((each.name, each.value))
        elif isinstance(each, Store):
            found.append((kernel.root(base(each.target)), each.value))
    return [(goal, value) for goal, value in found if kernel.kinds[goal].is_float]
