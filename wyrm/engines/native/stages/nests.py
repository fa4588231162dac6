"""Merges nested loops: over neighbouring axes of row-major arrays they run as one, whose vectors are longer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from wyrm.engines.native.ir.arrays import (
    Apply,
    CountedLoop,
    Expression,
    Let,
    Literal,
    Name,
    Nest,
    Statement,
    When,
    WhileLoop,
    reads,
    uses,
)
from wyrm.engines.native.stages.loops import ArrayBuffer, Block, Loop
from wyrm.graph.axes import Axis, Dims, axis_size

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
    return math.prod(_count(each, sizes) for each in nest.counts)


def _count(count: Expression, sizes: Mapping[str, Axis]) -> int:
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
        return math.prod(math.inf if size is None else size for size in map(axis_size, axes))

    inner = max((most_turns(item) for item in block.items if isinstance(item, Block)), default=1.0)
    own = turns((block.axis,)) * inner if isinstance(block, Loop) else inner
    return max([own, *(turns(each.dims) for each in arrays)])
