"""Writes the statements of reductions; sums keep digits that a single float32 accumulator would lose.

The total of a sum is float64. If that would halve the vector width of a loop, or if the totals are an array, float32
partial sums are accumulated and added to the total before they grow long. Nested loops over neighbouring axes of
row-major arrays run as one, whose vectors are longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArraySize,
    CallResult,
    Convert,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Nest,
    Statement,
    Store,
    When,
    WhileLoop,
    reads,
    uses,
)
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.stages.expressions import (
    FAST,
    adds_up,
    expression_of,
    float_type,
    formula_code,
    number,
    scalar_type,
)
from wyrm.engines.native.stages.loops import (
    Accumulator,
    ArrayBuffer,
    Block,
    Computed,
    ElementStatement,
    Generated,
    Loop,
)
from wyrm.graph.axes import Axis, Dims, axis_size, known_size
from wyrm.graph.index_maps import LoopIndex
from wyrm.graph.loop_form import LOOPS, Reducer
from wyrm.ops.elementwise.fast_math import from_ordered_integer, ordered_integer
from wyrm.ops.elementwise.formula import parse

# Elements of a partial sum that goes on over several axes; a longer one would lose digits.
_LONGEST_SUM = 1024
# A program whose loops have at most so many turns gains nothing from vectors.
FEW_TURNS = 8


def merged(body: Sequence[Statement], dims: Mapping[str, Dims], sizes: Mapping[str, Axis]) -> list[Statement]:
    """Return statements in which loops directly inside of each other that may run as one are a `Nest`.

    `dims` has the axes of each array, `sizes` the axis of each variable that holds a size.
    """
    return [found for each in body for found in _merged(each, dims, sizes)]


def _merged(statement: Statement, dims: Mapping[str, Dims], sizes: Mapping[str, Axis]) -> list[Statement]:
    if isinstance(statement, WhileLoop | When):
        return [type(statement)(statement.condition, tuple(merged(statement.body, dims, sizes)))]
    if not isinstance(statement, CountedLoop):
        return [statement]
    body = merged(statement.body, dims, sizes)
    before, inner, after = _only_loop(body)
    if inner is not None:
        nest = Nest((statement.index, *inner.indices), (statement.count, *inner.counts), inner.body)
        short = not before or 0 < _size(nest, sizes) <= _LONGEST_SUM
        if short and _may_merge(nest, dims, sizes):
            return [*before, nest, *after]
    return [CountedLoop(statement.index, statement.count, tuple(body))]


def _only_loop(body: Sequence[Statement]) -> tuple[Sequence[Statement], Nest | None, Sequence[Statement]]:
    """Return the only loop in a body, between the zeros of its partial sums and their additions to totals.

    These may as well stand around the loop that has this body.
    """
    place = next((i for i, each in enumerate(body) if isinstance(each, CountedLoop | Nest)), len(body))
    before, after = body[:place], body[place + 1 :]
    parts = {each.variable for each in before if isinstance(each, Let) and isinstance(each.value, Literal)}
    added = {
        each.value.operands[1].name
        for each in after
        if isinstance(each, Let)
        and isinstance(each.value, Apply)
        and each.value.function == "add"
        and each.value.operands[0] == Name(each.variable)
        and isinstance(each.value.operands[1], Name)
    }
    if place == len(body) or not len(before) == len(after) == len(parts) or parts != added:
        return (), None, ()
    loop = body[place]
    if isinstance(loop, CountedLoop):
        loop = Nest((loop.index,), (loop.count,), loop.body)
    assert isinstance(loop, Nest)
    return before, loop, after


def _size(nest: Nest, sizes: Mapping[str, Axis]) -> int:
    """Return the number of elements that a nest runs over; 0 if that is not known."""
    return math.prod(_count_of_axes(each, sizes) for each in nest.counts)


def _count_of_axes(count: Expression, sizes: Mapping[str, Axis]) -> int:
    if isinstance(count, Literal):
        return int(count.value)
    return axis_size(sizes[count.name]) or 0 if isinstance(count, Name) and count.name in sizes else 0


def _may_merge(nest: Nest, dims: Mapping[str, Dims], sizes: Mapping[str, Axis]) -> bool:
    """Return whether the loops' indices occur only together, in order, as indices of axes that they run over whole.

    The first of these axes may be longer than its loop.
    """
    names: list[Expression] = [Name(each) for each in nest.indices]
    for array, index in (use for each in nest.body for use in uses(each, nest.indices)):
        place = index.index(names[0]) if names[0] in index else len(index)
        end = place + len(names)
        if list(index[place:end]) != names or array not in dims:
            return False
        if any(reads(each, nest.indices) for each in (*index[:place], *index[end:]) if each is not None):
            return False
        axes = zip(nest.counts[1:], dims[array][place + 1 : end], strict=True)
        if not all(_runs_over(count, axis, sizes) for count, axis in axes):
            return False
    return True


def _runs_over(count: Expression, axis: Axis, sizes: Mapping[str, Axis]) -> bool:
    """Return whether a loop's count is the size of an axis."""
    size = axis_size(axis)
    if isinstance(count, Literal):
        return count.value == size
    over = sizes.get(count.name) if isinstance(count, Name) else None
    if over is None:
        return False
    return over == axis or (size is not None and axis_size(over) == size)


def most_turns(block: Block, arrays: Iterable[ArrayBuffer] = ()) -> float:
    """Return the most turns of a nest of loops in a block, or of loops over whole arrays; infinity for an open axis."""

    def turns(axes: Dims) -> float:
        count = known_size(axes)
        return math.inf if count is None else count

    inner = max((most_turns(item) for item in block.items if isinstance(item, Block)), default=1.0)
    own = turns((block.axis,)) * inner if isinstance(block, Loop) else inner
    return max([own, *(turns(each.dims) for each in arrays)])


FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# The number of elements in a partial sum in a variable; with fewer, loops would begin and end too often.
_PARTIAL_SUM = 512
# The number of rows in an array of partial sums: fewer, because they are added in order, which loses more digits.
_ROWS = 128
# Sums of at most this many elements keep NumPy's order, which is sequential for these. In any other, a partial sum may
# leave the range of the dtype.
_IN_ORDER = 7
# The steps of the maximum and the minimum. Over more than a few elements, the total is an `ordered_integer`, because
# LLVM vectorizes loops that compare integers.
_FEW = 4
_SMALLEST = "minimum(total, x)"
_EXTREMES = ("maximum(total, x)", _SMALLEST)
_ORDERED_INTEGER, _FROM_ORDERED_INTEGER = kernel_of(ordered_integer), kernel_of(from_ordered_integer)
# Functions that are not vectorized; a loop that calls them is not slower with a float64 total.
_ONE_BY_ONE = {"cos", "erf", "expm1", "power", "sin"}


class NameScope(Protocol):
    """The names of arguments and variables, provided by the function that is written."""

    def use(self, buffer: ArrayBuffer) -> str:
        """Return the name of an array."""
        ...

    def size(self, axis: Axis) -> Expression:
        """Return the size of an axis."""
        ...

    def temporary(self) -> str:
        """Return a new name."""
        ...


class ReductionWriter:
    """Writes the totals of one function's reductions."""

    def __init__(self, names: NameScope, named: Callable[[str], str]) -> None:
        self._names, self._named = names, named
        self._variables: dict[Computed, str] = {}
        # The totals in variables that hold an `ordered_integer`.
        self._ordered_totals: set[Computed] = set()
        # The sums whose order is kept.
        self._in_order: set[Computed] = set()
        # The variables of the partial sums, where a loop has them.
        self._partial_sums: dict[Computed, str] = {}
        self._partial_sums_in: dict[Loop, list[Computed]] = {}
        # The arrays of float64 totals, for float32 sums whose results are arrays.
        self._wide: dict[Computed, ArrayBuffer] = {}
        # The variables that count rows, for those of them whose result array holds partial sums in the loop.
        self._counts: dict[Computed, str] = {}
        self._rows_in: dict[Loop, list[Accumulator]] = {}

    # --- before a loop ------------------------------------------------------------------------------------------------

    def start(self, loop: Loop) -> list[arrays.Statement]:
        """Return the statements before a loop that initialize its totals."""
        statements: list[arrays.Statement] = []
        for accumulator in loop.starts:
            statements += self._start(accumulator)
        if _uses_partial_sums(loop):
            for item in loop.items:
                value = item.value if isinstance(item, ElementStatement) and item.kind == "reduce" else None
                sums = value is not None and value.node.dtype == FLOAT32 and self._is_reordered(value)
                if value is not None and sums and value.register and value.chain[-1] is not item:
                    self._partial_sums[value] = f"{value.buffer.name}_part__"
                    self._partial_sums_in.setdefault(loop, []).append(value)
        return statements

    def _start(self, accumulator: Accumulator) -> list[arrays.Statement]:
        value, node, reducer = accumulator.value, accumulator.value.node, _reducer(accumulator.value)
        if _at_most(accumulator.reduced, _IN_ORDER):
            self._in_order.add(value)
        if accumulator.result_index is None:
            self._variables[value] = f"{value.buffer.name}_total__"
            start: Expression = number(reducer.start, self._total_type(value))
            if reducer.step in _EXTREMES and not _at_most(accumulator.reduced, _FEW):
                self._ordered_totals.add(value)
                start = _ordered(start, reducer.step)
            return [Let(self._variables[value], start)]
        where = tuple(None if entry is None else expression_of(entry) for entry in accumulator.result_index)
        if node.dtype != FLOAT32 or not adds_up(reducer.step) or _at_most(accumulator.reduced, _ROWS):
            return [Store(self._names.use(value.buffer), where, number(reducer.start, node.dtype))]
        self._wide[value] = wide = ArrayBuffer(self._named(f"wide_{value.buffer.name}"), value.buffer.dims, FLOAT64)
        if accumulator.inner is None:
            return [Store(self._names.use(wide), where, number(reducer.start, FLOAT64))]
        self._counts[value] = self._names.temporary()
        self._rows_in.setdefault(accumulator.inner, []).append(accumulator)
        return [
            Store(self._names.use(value.buffer), where, number(reducer.start, node.dtype)),
            Store(self._names.use(wide), where, Literal(0)),
            Let(self._counts[value], Literal(0)),
        ]

    def _is_reordered(self, value: Computed) -> bool:
        return adds_up(_reducer(value).step) and value not in self._in_order

    @staticmethod
    def _total_type(value: Computed) -> np.dtype:
        return FLOAT64 if adds_up(_reducer(value).step) else value.node.dtype

    # --- in a loop ----------------------------------------------------------------------------------------------------

    def step(self, statement: ElementStatement, operands: list[Expression], comment: str) -> list[arrays.Statement]:
        """Return the statements that accumulate one element."""
        value = statement.value
        assert value is not None
        reducer, dtype = _reducer(value), value.node.dtype
        if not statement.target_index:
            variable = self._partial_sums.get(value, self._variables.get(value, ""))
            if value in self._ordered_totals:
                return [Let(variable, Apply("maximum", (Name(variable), _ordered(operands[0], reducer.step))), comment)]
            reordered = self._is_reordered(value)
            lets, result = self.formula(reducer.step, operands, dtype, Name(variable), reordered=reordered)
            return [*lets, Let(variable, result, comment)]
        buffer = value.buffer if value in self._counts else self._wide.get(value, value.buffer)
        array, index = self._names.use(buffer), tuple(map(expression_of, statement.target_index))
        reordered = self._is_reordered(value)
        lets, result = self.formula(reducer.step, operands, dtype, Element(array, index), reordered=reordered)
        return [*lets, Store(array, index, result, comment=comment)]

    def formula(
        self,
        formula: str,
        operands: list[Expression],
        dtype: np.dtype,
        total: Expression,
        count: Expression | None = None,
        reordered: bool = False,
    ) -> tuple[list[Let], Expression]:
        """Return the statements and value of a formula; `reordered` lets a sum accumulate in any order."""
        attributes = {"total": total} if count is None else {"total": total, "count": count}
        return formula_code(formula, operands, attributes.__getitem__, dtype, self._names.temporary, reordered)

    def around(self, loop: Loop, depth: int, body: Sequence[arrays.Statement]) -> list[arrays.Statement]:
        """Return a loop with this body, split into parts if it accumulates partial sums."""
        size, index = self._names.size(loop.axis), str(LoopIndex(depth))
        body = (*body, *(each for accumulator in self._rows_in.get(loop, []) for each in self._add_rows(accumulator)))
        partial_sums = self._partial_sums_in.get(loop, [])
        zeros = [Let(self._partial_sums[value], number(0.0, FLOAT32)) for value in partial_sums]
        sums = [
            Let(self._variables[value], Apply("add", (Name(self._variables[value]), Name(self._partial_sums[value]))))
            for value in partial_sums
        ]
        if not partial_sums or _at_most([loop.axis], _PARTIAL_SUM):
            return [*zeros, arrays.CountedLoop(index, size, body), *sums]
        first, inner, length = f"first{depth}__", f"j{depth}__", Literal(_PARTIAL_SUM)
        rest = Apply("subtract", (size, Apply("natural", (Name(first),))))
        set_index = Let(index, Apply("natural", (Apply("add", (Name(first), Name(inner))),)))
        part = arrays.CountedLoop(inner, Apply("min", (length, rest)), (set_index, *body))
        after = Let(first, Apply("add", (Name(first), length)))
        return [
            Let(first, Literal(0)), WhileLoop(Apply("less", (Name(first), size)), (*zeros, part, *sums, after))
        ]  # fmt: skip

    def _add_rows(self, accumulator: Accumulator) -> list[arrays.Statement]:
        """Return the statements that add an array of partial sums to the totals, once in `_ROWS` rows."""
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
        """Return loops over the totals in an array, around these statements."""
        assert accumulator.result_index is not None
        name = self._names.use(accumulator.value.buffer)
        index = [
            Name(f"j{axis}") if each is None else expression_of(each)
            for axis, each in enumerate(accumulator.result_index)
        ]
        body: list[arrays.Statement] = statements(tuple(index))
        for axis, each in reversed(list(enumerate(accumulator.result_index))):
            if each is None:
                body = [arrays.CountedLoop(f"j{axis}", ArraySize(name, axis), tuple(body))]
        return body

    # --- after a loop -------------------------------------------------------------------------------------------------

    def finish(self, value: Computed, total: Expression, count: Expression) -> tuple[list[Let], Expression]:
        """Return the statements and value that a reduction computes from its total."""
        reducer = _reducer(value)
        return self.formula(reducer.finish, [], value.node.dtype, total, count) if reducer.finish else ([], total)

    def end(self, accumulator: Accumulator, variable: str, comment: str) -> list[arrays.Statement]:
        """Return the statements after a loop that compute the result: in `variable`, or in the total's array."""
        value, node = accumulator.value, accumulator.value.node
        sizes: Expression = self._names.size(accumulator.reduced[0])
        for axis in accumulator.reduced[1:]:
            sizes = Apply("multiply", (sizes, self._names.size(axis)))
        if accumulator.result_index is None:
            dtype = self._total_type(value)
            total: Expression = Name(self._variables[value])
            if value in self._ordered_totals:
                total = _signed(CallResult(_FROM_ORDERED_INTEGER, (total,)), _reducer(value).step)
            lets, result = self.finish(value, total, _converted(sizes, dtype))
            return [*lets, Let(variable, result if dtype == node.dtype else _converted(result, node.dtype), comment)]
        wide = self._wide.get(value)
        if wide is None and not _reducer(value).finish:
            return []
        count = _converted(sizes, node.dtype if wide is None else FLOAT64)

        def store_result(index: tuple[Expression, ...]) -> list[arrays.Statement]:
            array = self._names.use(value.buffer)
            partial: Expression = Element(array, index)
            total = partial
            if wide is not None:
                total = Element(self._names.use(wide), index)
                total = Apply("add", (total, partial)) if value in self._counts else total
            lets, result = self.finish(value, total, count)
            return [*lets, Store(array, index, result)]

        return self._each(accumulator, store_result)


def _converted(value: Expression, dtype: np.dtype) -> Convert:
    return Convert(value, scalar_type(dtype))


def _ordered(x: Expression, step: str) -> Expression:
    """Return the `ordered_integer` of a number; for a minimum, that of the negated number."""
    return CallResult(_ORDERED_INTEGER, (_signed(x, step),))


def _signed(x: Expression, step: str) -> Expression:
    """Return `-x` for a minimum, else `x`: the minimum of `x` is `-max(-x)`."""
    return Apply("negative", (x,)) if step == _SMALLEST else x


def _reducer(value: Computed) -> Reducer:
    reducer = LOOPS.of(value.node).reducer
    assert reducer is not None
    return reducer


def _uses_partial_sums(loop: Loop) -> bool:
    """Return whether float32 partial sums speed up a loop: it vectorizes, and is short or does more than load.

    They would come between loops that run as one.
    """
    if len(loop.vector_axes) > 1:
        return False
    statements = [item for item in loop.items if isinstance(item, ElementStatement)]
    called = {
        call.function
        for each in statements
        if each.node.formula and float_type(each.node) == FLOAT32
        for call in parse(each.node.formula)
    }
    generated = any(isinstance(operand.target, Generated) for each in statements for operand in each.operands)
    return not called & _ONE_BY_ONE and (_at_most([loop.axis], _PARTIAL_SUM) or generated or bool(called & FAST.keys()))


def _at_most(axes: Sequence[Axis], size: int) -> bool:
    """Return whether axes are known to have at most `size` elements together."""
    count = known_size(axes)
    return count is not None and count <= size
