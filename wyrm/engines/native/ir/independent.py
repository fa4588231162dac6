"""Whether the turns of a function's loop are independent of each other, so that threads may share them."""

from __future__ import annotations

from collections.abc import Iterator

from wyrm.engines.native.ir.arrays import (
    ArrayFunction,
    Break,
    CallResult,
    CallStatement,
    Code,
    CountedLoop,
    Element,
    Flat,
    Let,
    Name,
    Nest,
    ReturnValue,
    Store,
    children,
)

Access = Element | Store


def independent(function: ArrayFunction) -> bool:
    """Return whether a function is a loop, after scalars, of whose turns none reads or writes what another one writes.

    An array that the loop writes to is indexed by each index of the loop, on the same axis everywhere.
    """
    before, loop = function.body[:-1], function.body[-1] if function.body else None
    if not isinstance(loop, CountedLoop | Nest) or not all(isinstance(each, Let) for each in before):
        return False
    inside = list(_every(loop.body))
    if any(isinstance(each, CallStatement | ReturnValue | Break) or _may_write(each, function) for each in inside):
        return False
    written = {each.array for each in inside if isinstance(each, Store)}
    early = [code for each in before for code in _every((each,))]
    if any(isinstance(each, Element) and each.array in written for each in early):
        return False
    # A variable that is set before the loop and in it is carried from turn to turn.
    if {each.variable for each in early if isinstance(each, Let)} & {
        each.variable for each in inside if isinstance(each, Let)
    }:
        return False
    indices = (loop.index,) if isinstance(loop, CountedLoop) else loop.indices
    return all(_apart(array, index, inside) for array in written for index in indices)


def _apart(array: str, index: str, inside: list[Code]) -> bool:
    """Return whether an axis of an array has this index wherever the array is used."""
    if any(isinstance(each, Flat) and each.array == array for each in inside):
        return False
    found = [each.index for each in inside if isinstance(each, Access) and each.array == array]
    return any(all(each[axis] == Name(index) for each in found) for axis in range(len(found[0])))


def _may_write(item: Code, function: ArrayFunction) -> bool:
    """Return whether an expression calls a function with a parameter of this one, which may be an array."""
    return isinstance(item, CallResult) and any(
        isinstance(each, Name) and each.name in function.parameters for each in item.arguments
    )


def _every(items: tuple[Code, ...]) -> Iterator[Code]:
    """Yield statements and expressions, and all inside of them."""
    for each in items:
        yield each
        yield from _every(tuple(children(each)))
