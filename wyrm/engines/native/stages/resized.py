"""How the arguments of a kernel depend on the number of entries of a step, for programs with rows of other lengths.

The arrays of a step are made for the most entries that it may have. The kernels of a step with fewer get arrays and
numbers for these. Which they are is found by asking an op for the arguments of its kernel for two numbers of entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.native.stages.loops import ArrayBuffer, KernelCall
from wyrm.errors import WyrmError
from wyrm.graph.axes import Dim, Entries, Plus, open_axes, resolve
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.op import NUMPY
from wyrm.ops.kernels.native import noting_scratch

# The two numbers of entries, and the size of the first one of the other axes without a size; the next ones differ.
_FEW, _MANY, _OTHER = 11, 17, 3


class AlongEntries(NamedTuple):
    """An array whose size along an axis is a multiple of the number of entries."""

    axis: int
    times: int


class OfEntries(NamedTuple):
    """A number that is `times` the number of entries, plus another one."""

    times: int
    plus: int


# How each argument of a kernel depends on the number of entries; None for one that does not.
Dependences = Sequence[AlongEntries | OfEntries | None]


def entries_in(buffers: Sequence[ArrayBuffer]) -> set[type[Dim]]:
    """Return the axes of entries among those of arrays, inside derived axes too."""
    return {name for buffer in buffers for name in open_axes(buffer.dims) if issubclass(name, Entries)}


def counts_entries(buffer: ArrayBuffer) -> bool:
    """Return whether a buffer holds what sizes alone decide, the number of entries among them."""
    given = () if buffer.fixed is None else buffer.fixed.parents
    return any(issubclass(name, Entries) for parent in given for name in open_axes(parent.dims))


def has_entries_first(buffer: ArrayBuffer) -> bool:
    """Return whether the number of entries decides the size of no axis of a buffer's memory but the first."""
    return not any(issubclass(name, Entries) for name in open_axes(buffer.root.dims[1:]))


def is_packed(buffer: ArrayBuffer) -> bool:
    """Return whether a buffer holds residuals of a loop over entries."""
    return bool(entries_in([buffer])) and any(isinstance(axis, Plus) for axis in buffer.dims)


def dependences_of(call: KernelCall) -> Dependences | None:
    """Return how the arguments of a kernel depend on the number of entries, None where that is unknown."""
    buffers = [*call.operands, call.out]
    entries = entries_in(buffers)
    if len(entries) != 1 or not all(map(has_entries_first, buffers)):
        return None
    (axis,) = entries
    try:
        few, many = (_arguments_for_entries(call, axis, number) for number in (_FEW, _MANY))
        return [_dependence(x, y) for x, y in zip(few, many, strict=True)]
    except (ValueError, TypeError, WyrmError, MemoryError):  # an op that takes no arrays of these sizes
        return None


def _arguments_for_entries(call: KernelCall, entries: type[Dim], number: int) -> tuple[Any, ...]:
    """Return the arguments of a kernel for arrays with this number of entries."""
    form, numbers = LOOPS.of(call.node), count(_OTHER, 2)
    assert form.kernel is not None
    sizes: dict[type[Dim], int] = {}
    for buffer in (*call.operands, call.out):
        for name in open_axes(buffer.dims):
            if name not in sizes:
                sizes[name] = number if name is entries else next(numbers)
    arrays = [_array_like(buffer, sizes) for buffer in (*call.operands, call.out)]
    with noting_scratch() as memory:
        arguments = tuple(form.kernel_arguments(call.node, arrays[:-1], arrays[-1]))
    for array in memory:  # what it holds means nothing
        array.fill(0)
    return arguments


def _array_like(buffer: ArrayBuffer, sizes: Mapping[type[Dim], int]) -> np.ndarray:
    """Return an array like that of a buffer, of any numbers."""
    shape = resolve(buffer.dims, sizes)
    if buffer.base is None or buffer.view is None:
        return np.zeros(shape, buffer.dtype)
    base = _array_like(buffer.base, sizes)
    view: np.ndarray = buffer.view.evaluate_for(sizes)(NUMPY, base, *buffer.view.parents[1:], shape=shape)
    return view


def _dependence(few: Any, many: Any) -> AlongEntries | OfEntries | None:
    """Return how one argument differs for two numbers of entries; raise `ValueError` if it is none of these ways."""
    if isinstance(few, np.ndarray):
        axes = [axis for axis, sizes in enumerate(zip(few.shape, many.shape, strict=True)) if sizes[0] != sizes[1]]
        if not axes:
            if few.dtype.kind in "iub" and not np.array_equal(few, many):
                raise ValueError("a table depends on the number of entries")
            return None
        (axis,) = axes
        times, rest = divmod(few.shape[axis], _FEW)
        # Where an array is contiguous, its strides follow from its sizes: none may follow from this one.
        follows = few.flags.c_contiguous and max(few.shape[:axis], default=1) > 1
        if rest or many.shape[axis] != times * _MANY or follows:
            raise ValueError("an array has no axis of entries first")
        return AlongEntries(axis, times)
    if isinstance(few, int | np.integer) and not isinstance(few, bool | np.bool_):
        times, rest = divmod(int(many) - int(few), _MANY - _FEW)
        if rest:
            raise ValueError("a number is no multiple of the number of entries")
        return OfEntries(times, int(few) - times * _FEW) if times else None
    if few is not many and few != many:
        raise ValueError("an argument depends on the number of entries")
    return None
