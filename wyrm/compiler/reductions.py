"""The statements of reductions: sums keep the digits that one float32 number to add to would lose.

The total of a sum is float64. Where that would halve the numbers that a loop works on at once, and where the totals are
an array, float32 parts are summed, and a part is added to the total before it has grown long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from wyrm.compiler.formulas import FAST, adds_up, float_type, formula_steps, number, scalar_type
from wyrm.compiler.indices import expression_of
from wyrm.compiler.loops import Accumulator, ArrayBuffer, Loop, Placed, Statement, Value
from wyrm.ir import arrays
from wyrm.ir.arrays import (
    Apply,
    ArraySize,
    CallResult,
    Convert,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Store,
    When,
    While,
)
from wyrm.kernels.functions import kernel_of
from wyrm.node.index_maps import LoopIndex
from wyrm.node.loop_form import LOOPS
from wyrm.node.loop_form import Reducer as Rule
from wyrm.ops.fast_math import at_place, place_of
from wyrm.ops.formula import parse
from wyrm.types.dims import Axis, axis_size

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# So many float32 numbers are one part of a total in a variable: a loop over fewer would begin and end too often.
_PART = 512
# After so many rows are those of an array of parts added to the totals; here numbers are added one after another.
_ROWS = 128
# The steps that take in the largest and the smallest number: of more than a few, the total is a place in the order of
# all numbers, for a loop that compares integers works on many at once.
_FEW = 4
_SMALLEST = "minimum(total, x)"
_EXTREMES = ("maximum(total, x)", _SMALLEST)
_PLACE, _AT_PLACE = kernel_of(place_of), kernel_of(at_place)
# Functions that are called for one number at a time; a loop that calls them is not slower for a float64 total.
_ONE_BY_ONE = {"cos", "erf", "expm1", "log", "log1p", "power", "sin"}


class NameScope(Protocol):
    """What a function gives: names of its arguments and of its variables."""

    def use(self, buffer: ArrayBuffer) -> str:
        """The name of an array."""
        ...

    def size(self, axis: Axis) -> Expression:
        """The size of an axis."""
        ...

    def temporary(self) -> str:
        """A new name."""
        ...


class ReductionWriter:
    """The totals of the reductions of one function."""

    def __init__(self, names: NameScope, named: Callable[[str], str]) -> None:
        self._names, self._named = names, named
        self._variables: dict[Value, str] = {}
        # Those in a variable that hold the place of a number in the order of all.
        self._places: set[Value] = set()
        # The part that a loop accumulates of a total in a variable.
        self._parts: dict[Value, str] = {}
        self._parts_in: dict[Loop, list[Value]] = {}
        # Totals in float64 of a reduction whose own array holds parts of them, or where there is no count, nothing.
        self._wide: dict[Value, ArrayBuffer] = {}
        self._counts: dict[Value, str] = {}
        self._rows_in: dict[Loop, list[Accumulator]] = {}

    # --- before a loop ------------------------------------------------------------------------------------------------

    def start(self, loop: Loop) -> list[arrays.Statement]:
        """The statements before a loop that set its totals to what they start from."""
        statements: list[arrays.Statement] = []
        for accumulator in loop.starts:
            statements += self._start(accumulator)
        if _sums_parts(loop):
            for item in loop.items:
                value = item.value if isinstance(item, Statement) and item.kind == "reduce" else None
                sums = value is not None and value.node.dtype == FLOAT32 and adds_up(_rule(value).step)
                if value is not None and sums and value.register and value.chain[-1] is not item:
                    self._parts[value] = f"{value.buffer.name}_part__"
                    self._parts_in.setdefault(loop, []).append(value)
        return statements

    def _start(self, accumulator: Accumulator) -> list[arrays.Statement]:
        value, node, rule = accumulator.value, accumulator.value.node, _rule(accumulator.value)
        if accumulator.result_index is None:
            self._variables[value] = f"{value.buffer.name}_total__"
            start: Expression = number(rule.start, self._total_type(value))
            if rule.step in _EXTREMES and not _at_most(accumulator.reduced, _FEW):
                self._places.add(value)
                start = _place(start, rule.step)
            return [Let(self._variables[value], start)]
        where = tuple(None if entry is None else expression_of(entry) for entry in accumulator.result_index)
        if node.dtype != FLOAT32 or not adds_up(rule.step) or _at_most(accumulator.reduced, _ROWS):
            return [Store(self._names.use(value.buffer), where, number(rule.start, node.dtype))]
        self._wide[value] = wide = ArrayBuffer(self._named(f"wide_{value.buffer.name}"), value.buffer.dims, FLOAT64)
        if accumulator.inner is None:
            return [Store(self._names.use(wide), where, number(rule.start, FLOAT64))]
        self._counts[value] = self._names.temporary()
        self._rows_in.setdefault(accumulator.inner, []).append(accumulator)
        return [
            Store(self._names.use(value.buffer), where, number(rule.start, node.dtype)),
            Store(self._names.use(wide), where, Literal(0)),
            Let(self._counts[value], Literal(0)),
        ]

    @staticmethod
    def _total_type(value: Value) -> np.dtype[Any]:
        return FLOAT64 if adds_up(_rule(value).step) else value.node.dtype

    # --- in a loop ----------------------------------------------------------------------------------------------------

    def step(self, statement: Statement, operands: list[Expression], comment: str) -> list[arrays.Statement]:
        """The statements that take one element into a total."""
        value = statement.value
        assert value is not None
        rule, dtype = _rule(value), value.node.dtype
        if not statement.place:
            variable = self._parts.get(value, self._variables.get(value, ""))
            if value in self._places:
                return [Let(variable, Apply("maximum", (Name(variable), _place(operands[0], rule.step))), comment)]
            steps, result = self.formula(rule.step, operands, dtype, Name(variable), reordered=adds_up(rule.step))
            return [*steps, Let(variable, result, comment)]
        buffer = value.buffer if value in self._counts else self._wide.get(value, value.buffer)
        array, place = self._names.use(buffer), tuple(map(expression_of, statement.place))
        steps, result = self.formula(rule.step, operands, dtype, Element(array, place), reordered=adds_up(rule.step))
        return [*steps, Store(array, place, result, comment=comment)]

    def formula(
        self,
        formula: str,
        operands: list[Expression],
        dtype: np.dtype[Any],
        total: Expression,
        count: Expression | None = None,
        reordered: bool = False,
    ) -> tuple[list[Let], Expression]:
        """A formula of a reduction; `reordered` where it adds to the total, in whatever order is fast."""
        attributes = {"total": total} if count is None else {"total": total, "count": count}
        return formula_steps(formula, operands, attributes.__getitem__, dtype, self._names.temporary, reordered)

    def around(self, loop: Loop, depth: int, body: Sequence[arrays.Statement]) -> list[arrays.Statement]:
        """A loop with this body, in parts where it accumulates parts of totals."""
        size, index = self._names.size(loop.axis), str(LoopIndex(depth))
        body = (*body, *(each for accumulator in self._rows_in.get(loop, []) for each in self._add_rows(accumulator)))
        parts = self._parts_in.get(loop, [])
        zeros = [Let(self._parts[value], number(0.0, FLOAT32)) for value in parts]
        sums = [
            Let(self._variables[value], Apply("add", (Name(self._variables[value]), Name(self._parts[value]))))
            for value in parts
        ]
        if not parts or _at_most([loop.axis], _PART):
            return [*zeros, arrays.CountedLoop(index, size, body), *sums]
        first, inner, length = f"first{depth}__", f"j{depth}__", Literal(_PART)
        rest = Apply("subtract", (size, Apply("natural", (Name(first),))))
        at = Let(index, Apply("natural", (Apply("add", (Name(first), Name(inner))),)))
        part = arrays.CountedLoop(inner, Apply("min", (length, rest)), (at, *body))
        after = Let(first, Apply("add", (Name(first), length)))
        return [
            Let(first, Literal(0)), While(Apply("less", (Name(first), size)), (*zeros, part, *sums, after))
        ]  # fmt: skip

    def _add_rows(self, accumulator: Accumulator) -> list[arrays.Statement]:
        """Add what an array holds to the totals, at the end of so many rows."""
        value, count = accumulator.value, self._counts[accumulator.value]

        def add(index: tuple[Expression, ...]) -> list[arrays.Statement]:
            part = self._names.use(value.buffer)
            return [
                Store(self._names.use(self._wide[value]), index, Element(part, index), adds=True),
                Store(part, index, number(0.0, FLOAT32)),
            ]

        full = Apply("equal", (Name(count), Literal(_ROWS)))
        return [
            Let(count, Apply("add", (Name(count), Literal(1)))),
            When(full, (Let(count, Literal(0)), *self._each(accumulator, add))),
        ]

    def _each(
        self, accumulator: Accumulator, statements: Callable[[tuple[Expression, ...]], list[arrays.Statement]]
    ) -> list[arrays.Statement]:
        """Loops over the totals in an array, with these statements in them."""
        assert accumulator.result_index is not None
        name = self._names.use(accumulator.value.buffer)
        index = [
            Name(f"j{place}") if each is None else expression_of(each)
            for place, each in enumerate(accumulator.result_index)
        ]
        body: list[arrays.Statement] = statements(tuple(index))
        for place, each in reversed(list(enumerate(accumulator.result_index))):
            if each is None:
                body = [arrays.CountedLoop(f"j{place}", ArraySize(name, place), tuple(body))]
        return body

    # --- after a loop -------------------------------------------------------------------------------------------------

    def finish(self, value: Value, total: Expression, count: Expression) -> tuple[list[Let], Expression]:
        """What a reduction makes of its total."""
        rule = _rule(value)
        return self.formula(rule.finish, [], value.node.dtype, total, count) if rule.finish else ([], total)

    def end(self, accumulator: Accumulator, variable: str, comment: str) -> list[arrays.Statement]:
        """The statements after a loop that make the result of a total: in `variable`, or in its array."""
        value, node = accumulator.value, accumulator.value.node
        sizes: Expression = self._names.size(accumulator.reduced[0])
        for axis in accumulator.reduced[1:]:
            sizes = Apply("multiply", (sizes, self._names.size(axis)))
        if accumulator.result_index is None:
            dtype = self._total_type(value)
            total: Expression = Name(self._variables[value])
            if value in self._places:
                total = _signed(CallResult(_AT_PLACE, (total,)), _rule(value).step)
            steps, result = self.finish(value, total, _converted(sizes, dtype))
            return [*steps, Let(variable, result if dtype == node.dtype else _converted(result, node.dtype), comment)]
        wide = self._wide.get(value)
        if wide is None and not _rule(value).finish:
            return []
        count = _converted(sizes, node.dtype if wide is None else FLOAT64)

        def made(index: tuple[Expression, ...]) -> list[arrays.Statement]:
            array = self._names.use(value.buffer)
            own: Expression = Element(array, index)
            total = own
            if wide is not None:
                total = Element(self._names.use(wide), index)
                total = Apply("add", (total, own)) if value in self._counts else total
            steps, result = self.finish(value, total, count)
            return [*steps, Store(array, index, result)]

        return self._each(accumulator, made)


def _converted(value: Expression, dtype: np.dtype[Any]) -> Convert:
    return Convert(value, scalar_type(dtype))


def _place(x: Expression, step: str) -> Expression:
    """The place of a number in the order that the step of an extreme asks for."""
    return CallResult(_PLACE, (_signed(x, step),))


def _signed(x: Expression, step: str) -> Expression:
    """The smallest number is the negative of the largest of the negatives."""
    return Apply("negative", (x,)) if step == _SMALLEST else x


def _rule(value: Value) -> Rule:
    rule = LOOPS.of(value.node).reducer
    assert rule is not None
    return rule


def _sums_parts(loop: Loop) -> bool:
    """Whether a loop is faster with float32 sums: it works on vectors, and is short or does more than to read them."""
    statements = [item for item in loop.items if isinstance(item, Statement)]
    called = {
        call.function
        for each in statements
        if each.node is not None and each.node.formula is not None and float_type(each.node) == FLOAT32
        for call in parse(each.node.formula)
    }
    placed = any(isinstance(operand.target, Placed) for each in statements for operand in each.operands)
    return not called & _ONE_BY_ONE and (_at_most([loop.axis], _PART) or placed or bool(called & FAST.keys()))


def _at_most(axes: Sequence[Axis], size: int) -> bool:
    """Whether axes are known to have no more elements."""
    sizes = [axis_size(axis) for axis in axes]
    return None not in sizes and math.prod(each for each in sizes if each is not None) <= size
