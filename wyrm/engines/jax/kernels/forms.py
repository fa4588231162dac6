"""Functions of JAX that compute what kernels do: with arrays as arguments, or with the numbers in arrays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import accumulate, count
from types import FunctionType
from typing import Any

import numpy as np

from wyrm.engines.jax.kernels.emit import Emitter, InOrder, Place, Value
from wyrm.engines.jax.kernels.indices import Integer, Lane, aligned, traced
from wyrm.engines.native.ir.types import INT64, ScalarType, scalar_of
from wyrm.engines.native.kernels.functions import Routine, kernel_of
from wyrm.engines.native.kernels.translate import Specialization, Translation
from wyrm.engines.native.kernels.values import Kind, NotCompiled, NumKind, ViewKind, types_of
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.jax_form import Unjoined
from wyrm.graph.loop_form import LOOPS
from wyrm.support.imports import jax, jnp
from wyrm.support.texts import exact


def jax_form(kernel: Any) -> Callable[..., tuple[Any, ...]]:
    """Return a function of JAX that computes what a kernel does, for arrays of any sizes.

    It takes the kernel's arguments: arrays, which it does not change, and numbers. It returns what the kernel returns,
    and then the new values of the arrays that the kernel may write to, in the order of the parameters. JAX can trace
    it, as in `jax.jit`; a scalar array is a number that it traces. Loops of an unknown number of turns have no
    derivative in reverse mode.

    It raises `NotCompiled` for a kernel that cannot be compiled or has no form in JAX, with the line.

    >>> from wyrm.ops.kernels.eigenvalues import swap
    >>> x, y = jax_form(swap)(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> x.tolist(), y.tolist()
    ([3.0, 4.0], [1.0, 2.0])
    """
    routine = _routine(kernel)

    def form(*arguments: Any) -> tuple[Any, ...]:
        results, arrays = called(routine, arguments)
        return tuple(map(_as_jax_has_it, (*results, *arrays.values())))

    return form


def called(routine: Routine, given: Sequence[Any], *, checked: bool = False) -> tuple[list[Any], dict[int, Any]]:
    """Return what a kernel returns, and the new values of the arrays that it may write to, by their positions.

    They have the types that the kernel has, also those of 64 bits. With `checked`, an index out of range is an error.
    """
    with jax.enable_x64(True):
        arguments = [each if _is_number(each) else jnp.asarray(each) for each in given]
        kinds = tuple(map(_kind, arguments))
        translation = Translation(checked)
        found = translation.specialized(routine, kinds)
        places, values, arrays = count(), list[Value](), list[Any]()
        for each, kind in zip(arguments, kinds, strict=True):
            if isinstance(kind, NumKind):
                values.append(_number(each, kind.type))
            else:
                values += [Place(next(places), Integer(0)), *map(Integer, each.shape)]
                arrays.append(each)
        results, arrays = _run(translation, found, values, arrays)
        positions = [position for position, kind in enumerate(kinds) if isinstance(kind, ViewKind)]
        starts = list(accumulate((len(types_of(kind)) for kind in kinds), initial=0))
        changed = zip(positions, arrays, strict=True)
        return results, {position: array for position, array in changed if starts[position] in found.written}


def value_by_kernel(node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return the value of an op by the kernel of its loops; NaN where it meets a `raise` or an index out of range.

    It raises `NotCompiled` for an op without a kernel or with one that has no form in JAX.
    """
    with jax.enable_x64(True):
        out = np.zeros(shape, node.dtype)
        arguments, arrays = _left_by_kernel(node, operands, out)
        found = jnp.zeros(out.size, out.dtype)
        for position, array in arrays.items():
            view = arguments[position]
            if isinstance(view, np.ndarray) and np.may_share_memory(view, out) and view.flags.c_contiguous:
                start = (_address(view) - _address(out)) // out.itemsize
                found = found.at[start : start + view.size].set(array.reshape(-1))
        result = found.reshape(shape)
    return _as_jax_has_it(result)


def arrays_of_kernel(node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """Return the arguments of the kernel of an op as it leaves them; see `value_by_kernel`."""
    with jax.enable_x64(True):
        arguments, arrays = _left_by_kernel(node, operands, np.zeros(shape, node.dtype))
        found = [arrays.get(position, argument) for position, argument in enumerate(arguments)]
    return [each if _is_number(each) else _as_jax_has_it(each) for each in found]


def _left_by_kernel(node: BaseNode, operands: Sequence[Any], out: np.ndarray) -> tuple[Sequence[Any], dict[int, Any]]:
    """Return the arguments of the kernel of an op, and the new values of those that it may write to."""
    loops = LOOPS.of(node)
    if not isinstance(loops.kernel, FunctionType):
        raise NotCompiled(f"{describe(node)} has no kernel")
    wide: list[Any] = [
        x if isinstance(x, Unjoined) else jnp.asarray(x).astype(parent.dtype)
        for x, parent in zip(operands, node.parents, strict=True)
    ]
    try:
        arguments = loops.kernel_arguments(node, wide, out)
    except Exception as error:  # of code that takes arrays of NumPy alone
        raise NotCompiled(f"the kernel of {describe(node)} takes no arrays of JAX: {error}") from error
    return arguments, called(_routine(loops.kernel), arguments, checked=True)[1]


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def elementwise(function: Any, *arguments: Any) -> Any:
    """Return a kernel's function of numbers for all elements of arrays that broadcast; a tuple if it returns several.

    Numbers are known to the kernel. Equal calls in a program are traced once.

    >>> from wyrm.ops.elementwise.special_kernels import digamma
    >>> elementwise(digamma, np.array([1.0, 2.0], np.float32)).round(3).tolist()
    [-0.5770000219345093, 0.4230000078678131]
    """
    numbers = tuple((i, exact(x), x) for i, x in enumerate(arguments) if _is_number(x))
    with jax.enable_x64(True):
        found = _elements(function, numbers)(*(jnp.asarray(x) for x in arguments if not _is_number(x)))
    return tuple(map(_as_jax_has_it, found)) if isinstance(found, tuple) else _as_jax_has_it(found)


@cache
def _elements(function: Any, numbers: tuple[tuple[int, Hashable, Any], ...]) -> Callable[..., Any]:
    """Return the function of the arguments that are arrays; the keys of `exact` tell 1 from True, and 0.0 from -0.0."""
    routine = _routine(function)

    def compute(*arrays: Any) -> Any:
        given = iter(arrays)
        fixed = {position: number for position, _, number in numbers}
        arguments = [fixed[i] if i in fixed else next(given) for i in range(len(arrays) + len(fixed))]
        shape = jnp.broadcast_shapes(*(each.shape for each in arrays))
        kinds = tuple(NumKind(_type(each)) for each in arguments)
        translation = Translation(checked=False)
        found = translation.specialized(routine, kinds)
        full = [x if _is_number(x) else jnp.expand_dims(x, tuple(range(len(shape) - x.ndim))) for x in arguments]
        values = [_number(each, kind.type) for each, kind in zip(full, kinds, strict=True)]
        lanes = [Lane(level, size) for level, size in enumerate(shape)]
        results = [jnp.broadcast_to(each, shape) for each in _run(translation, found, values, (), lanes)[0]]
        return tuple(results) if len(results) > 1 else results[0]

    jitted: Callable[..., Any] = jax.jit(compute)
    return jitted


def _run(
    translation: Translation,
    found: Specialization,
    values: Sequence[Value],
    arrays: Sequence[Any],
    lanes: Sequence[Lane] = (),
) -> tuple[list[Any], list[Any]]:
    """Return the results of a function, and the arrays as it leaves them."""
    in_order = set[int]()
    while True:
        emitter = Emitter(translation, in_order, arrays, lanes)
        try:
            results = emitter.call(found.function.name, values)
            failed = emitter.variables["@failed"]
        except InOrder as error:
            in_order.add(id(error.loop))
            continue
        results = [jnp.asarray(x.array() if isinstance(x, Integer) else x) for x in results]
        if isinstance(failed, np.bool_) and not failed:
            return results, emitter.arrays
        return [_spoiled(x, failed) for x in results], [_spoiled(x, jnp.any(failed)) for x in emitter.arrays]


def _spoiled(array: Any, failed: Any) -> Any:
    """Return NaN, or the largest integer, where a kernel met a `raise`: programs of JAX raise no errors."""
    if array.dtype == np.bool_:
        return array
    worst = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max
    failed, array = aligned(failed, array) if jnp.ndim(failed) else (failed, array)
    return jnp.where(failed, np.asarray(worst, array.dtype), array)


def _routine(kernel: Any) -> Routine:
    return kernel if isinstance(kernel, Routine) else kernel_of(kernel)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | np.generic)


def _type(value: Any) -> ScalarType:
    dtype = np.asarray(value).dtype if _is_number(value) else value.dtype
    found = scalar_of(dtype)
    if found is None:
        raise NotCompiled(f"unsupported dtype {dtype} of an argument; kernels support bools, integers and floats")
    return found


def _kind(value: Any) -> Kind:
    type = _type(value)
    return NumKind(type) if _is_number(value) or not value.ndim else ViewKind(type, value.ndim, "contiguous")


def _number(value: Any, type: ScalarType) -> Value:
    if type == INT64:
        return Integer(int(value)) if _is_number(value) else traced(value)
    return type.dtype.type(value) if _is_number(value) else value


def _as_jax_has_it(array: Any) -> Any:
    """Return an array with numbers of 32 bits, unless JAX has those of 64 bits enabled."""
    from jax.dtypes import canonicalize_dtype

    return array.astype(canonicalize_dtype(array.dtype))


__all__ = ["arrays_of_kernel", "called", "elementwise", "jax_form", "value_by_kernel"]
