"""Merges nested loops: over neighbouring axes of row-major arrays they run as one, whose vectors are longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wyrm.engines.native.ir.arrays import (
    CountedLoop,
    Expression,
    Literal,
    Name,
    Nest,
    Statement,
    When,
    While,
    reads,
    uses,
)
from wyrm.graph.axes import Axis, Dims, axis_size


def merged(body: Sequence[Statement], dims: Mapping[str, Dims], sizes: Mapping[str, Axis]) -> list[Statement]:
    """Return statements in which loops directly inside of each other that may run as one are a `Nest`.

    `dims` has the axes of each array, `sizes` the axis of each variable that holds a size.
    """
    return [_merged(each, dims, sizes) for each in body]


def _merged(statement: Statement, dims: Mapping[str, Dims], sizes: Mapping[str, Axis]) -> Statement:
    if isinstance(statement, While | When):
        return type(statement)(statement.condition, tuple(merged(statement.body, dims, sizes)))
    if not isinstance(statement, CountedLoop):
        return statement
    loops = [statement]
    while len(loops[-1].body) == 1 and isinstance(inner := loops[-1].body[0], CountedLoop):
        loops.append(inner)
    body = tuple(merged(loops[-1].body, dims, sizes))
    first = next(i for i in range(len(loops)) if i == len(loops) - 1 or _may_merge(loops[i:], body, dims, sizes))
    innermost = loops[first:]
    found: Statement = CountedLoop(innermost[0].index, innermost[0].count, body)
    if len(innermost) > 1:
        found = Nest(tuple(each.index for each in innermost), tuple(each.count for each in innermost), body)
    for each in reversed(loops[:first]):
        found = CountedLoop(each.index, each.count, (found,))
    return found


def _may_merge(
    loops: Sequence[CountedLoop], body: Sequence[Statement], dims: Mapping[str, Dims], sizes: Mapping[str, Axis]
) -> bool:
    """Return whether the loops' indices occur only together, in order, as indices of axes that they run over whole.

    The first of these axes may be longer than its loop.
    """
    names: list[Expression] = [Name(each.index) for each in loops]
    variables = [each.index for each in loops]
    for array, index in (use for each in body for use in uses(each, variables)):
        place = index.index(names[0]) if names[0] in index else len(index)
        end = place + len(names)
        if list(index[place:end]) != names or array not in dims:
            return False
        if any(reads(each, variables) for each in (*index[:place], *index[end:]) if each is not None):
            return False
        axes = zip(loops[1:], dims[array][place + 1 : end], strict=True)
        if not all(_runs_over(each.count, axis, sizes) for each, axis in axes):
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
