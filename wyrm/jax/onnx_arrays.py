"""Operations on elements and places of arrays, in a file of ONNX: scatters, padding, cumulative ones, uint32."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.jax.onnx_rewriting import Rule


def _remainder(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """The remainder of a quotient that is rounded towards zero, of floats; that of integers by their quotient."""
    import jax

    x, y = operands
    if x.dtype.kind == "f":
        return [jax.lax.rem(x, y)]
    return [x - jax.lax.div(x, y) * y]


def _numbers(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """The numbers along an axis; runtimes count in signed integers."""
    import jax

    counted = jax.lax.broadcasted_iota(np.int32, parameters["shape"], parameters["dimension"])
    return [jax.lax.convert_element_type(counted, parameters["dtype"])]


def _less_in_order(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """`x < y`, where NaN stands after all other numbers."""
    x, y = operands
    return [(x < y) | ((y != y) & (x == x))]


def _up_to_in_order(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """`x <= y`, where NaN stands after all other numbers."""
    x, y = operands
    return [(x <= y) | (y != y)]


def _has_sign(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """Whether numbers are negative, -0 among them. A NaN has no sign: runtimes do not read the bits of floats."""
    (x,) = operands
    return [(x < 0) | ((x == 0) & (1 / x < 0))]


def _with_sign(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """Numbers with the signs of others."""
    import jax.numpy as jnp

    x, y = operands
    (is_negative,) = _has_sign([y], parameters)
    return [jnp.where(is_negative, -jnp.abs(x), jnp.abs(x))]


def _cumulative(function: str, first: Callable[[np.dtype], Any]) -> Rule:
    """Return the rule of a cumulative function of two elements, by doubling the elements that each result covers.

    `first` returns the number that changes no other.
    """

    def rule(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
        import jax
        import jax.numpy as jnp

        (x,) = operands
        axis, reverse = parameters["axis"], parameters["reverse"]
        size, covered = x.shape[axis], 1
        while covered < size:
            kept = jax.lax.slice_in_dim(x, covered if reverse else 0, size if reverse else size - covered, axis=axis)
            shape = (*x.shape[:axis], covered, *x.shape[axis + 1 :])
            filled = jnp.full(shape, first(x.dtype), x.dtype)
            shifted = jnp.concatenate([kept, filled] if reverse else [filled, kept], axis=axis)
            x = getattr(jax.lax, function)(x, shifted)
            covered *= 2
        return [x]

    return rule


def _least(dtype: np.dtype) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _largest(dtype: np.dtype) -> Any:
    return np.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _pad(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """Padding before, after and between elements; that between them as further columns of an axis behind."""
    import jax
    import jax.numpy as jnp

    x, value = operands
    sides = []
    for axis, (low, high, inside) in enumerate(parameters["padding_config"]):
        sides.append((low, high, 0))
        if not inside:
            continue
        before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
        columns = jnp.broadcast_to(value, (*before, size, inside, *after))
        spread = jnp.concatenate([jnp.expand_dims(x, axis + 1), columns], axis=axis + 1)
        x = spread.reshape(*before, size * (inside + 1), *after)
        x = jax.lax.slice_in_dim(x, 0, size * (inside + 1) - inside, axis=axis)
    return [jax.lax.pad(x, value, sides)]


def _scatter(function: str) -> Rule:
    """Return the rule of a scatter: one of single elements into one axis.

    What falls outside goes to one element more, which is dropped.
    """

    def rule(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
        import jax
        import jax.numpy as jnp

        x, indices, updates = operands
        numbers = parameters["dimension_numbers"]
        windows = _Windows(
            numbers.update_window_dims, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims,
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims,
        )  # fmt: skip
        is_inside, places = windows.places(x.shape, indices, updates.shape, parameters["mode"])
        total = math.prod(x.shape)
        whole = jnp.concatenate([x.reshape(-1), jnp.zeros(1, x.dtype)])
        found = getattr(jax.lax, function)(
            whole, jnp.where(is_inside, places, total).reshape(-1, 1), updates.reshape(-1),
            jax.lax.ScatterDimensionNumbers((), (0,), (0,)), mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS,
        )  # fmt: skip
        return [jax.lax.slice_in_dim(found, 0, total).reshape(x.shape)]

    return rule


def _gather(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A gather from arrays that differ between rows: one of single elements from one axis. Others stay as they are."""
    import jax
    import jax.numpy as jnp

    x, indices = operands
    numbers = parameters["dimension_numbers"]
    if not numbers.operand_batching_dims:
        return [jax.lax.gather_p.bind(x, indices, **parameters)]
    windows = _Windows(
        numbers.offset_dims, numbers.collapsed_slice_dims, numbers.start_index_map,
        numbers.operand_batching_dims, numbers.start_indices_batching_dims,
    )  # fmt: skip
    sizes, mode = parameters["slice_sizes"], parameters["mode"]
    outside, inside = iter(indices.shape[:-1]), iter([sizes[axis] for axis in windows.kept(x.ndim)])
    rank = indices.ndim - 1 + len(numbers.offset_dims)
    shape = [next(inside) if axis in numbers.offset_dims else next(outside) for axis in range(rank)]
    is_inside, places = windows.places(x.shape, indices, shape, mode)
    found = jax.lax.gather(
        x.reshape(-1), jnp.where(is_inside, places, 0)[..., None], jax.lax.GatherDimensionNumbers((), (0,), (0,)), (1,),
        mode=jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS,
    )  # fmt: skip
    if mode != jax.lax.GatherScatterMode.FILL_OR_DROP:
        return [found]
    filled = parameters["fill_value"]
    missing = (np.nan if x.dtype.kind == "f" else 0) if filled is None else filled
    return [jnp.where(is_inside, found, jnp.asarray(missing, x.dtype))]


class _Windows(NamedTuple):
    """Which axes of a whole array the axes of the elements that a gather or a scatter moves stand for.

    `axes` are those of its windows among the axes of the elements, `inserted` those of the whole array that windows do
    not have, `started` those that indices count along. Each of `batched` goes with one axis of the indices.
    """

    axes: Sequence[int]
    inserted: Sequence[int]
    started: Sequence[int]
    batched: Sequence[int]
    batches: Sequence[int]

    def kept(self, rank: int) -> list[int]:
        """Return the axes of the whole array that windows have."""
        return [axis for axis in range(rank) if axis not in (*self.inserted, *self.batched)]

    def places(self, whole: Sequence[Any], indices: Any, elements: Sequence[Any], mode: Any) -> tuple[Any, Any]:
        """Return which elements lie inside of the whole array, and their places in it, flattened."""
        import jax
        import jax.numpy as jnp

        outside = [axis for axis in range(len(elements)) if axis not in self.axes]
        windows = dict(zip(self.kept(len(whole)), self.axes, strict=True))
        rows = dict(zip(self.batched, self.batches, strict=True))
        is_inside, place = jnp.ones(elements, bool), jnp.zeros(elements, np.int32)
        for axis, size in enumerate(whole):
            place = place * size
            if axis in self.started:
                start = indices[..., self.started.index(axis)].astype(np.int32)
                last = size - (elements[windows[axis]] if axis in windows else 1)
                start = jax.lax.broadcast_in_dim(start, elements, outside)
                if mode == jax.lax.GatherScatterMode.CLIP:
                    start = jnp.clip(start, 0, last)
                elif mode == jax.lax.GatherScatterMode.FILL_OR_DROP:
                    is_inside = is_inside & (start >= 0) & (start <= last)
                place = place + start
            if axis in windows:
                place = place + jax.lax.broadcasted_iota(np.int32, elements, windows[axis])
            if axis in rows:
                place = place + jax.lax.broadcasted_iota(np.int32, elements, outside[rows[axis]])
        return is_inside, place


def _joined(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """Arrays one after another; a size of 0 in a file means the size of an operand."""
    import jax

    axis = parameters["dimension"]
    parts = [x for x in operands if not (isinstance(x.shape[axis], int) and x.shape[axis] == 0)]
    return [jax.lax.concatenate(parts or operands, axis)]


def select(which: Any, *cases: Any) -> Any:
    """Return `jax.lax.select_n`, for dtypes that runtimes do not choose from too."""
    import jax

    if len(cases) == 2 and which.shape == cases[0].shape and cases[0].dtype == bool:
        return (which & cases[1]) | (~which & cases[0])
    if len(cases) == 2 and cases[0].dtype.kind == "u":
        return jax.lax.select_n(which, *(x.astype(np.int32) for x in cases)).astype(cases[0].dtype)
    return jax.lax.select_n(which, *cases)


ARRAY_RULES: dict[str, Rule] = {
    "optimization_barrier": lambda operands, parameters: operands,
    "rem": _remainder,
    "iota": _numbers,
    "lt_to": _less_in_order,
    "le_to": _up_to_in_order,
    "cumprod": _cumulative("mul", lambda dtype: 1),
    "cummax": _cumulative("max", _least),
    "cummin": _cumulative("min", _largest),
    "pad": _pad,
    "gather": _gather,
    "concatenate": _joined,
    "select_n": lambda operands, parameters: [select(*operands)],
    "function copysign": _with_sign,
    "function signbit": _has_sign,
    "scatter": _scatter("scatter"),
    "scatter-add": _scatter("scatter_add"),
    "scatter_add": _scatter("scatter_add"),
    "scatter-mul": _scatter("scatter_mul"),
    "scatter_mul": _scatter("scatter_mul"),
    "scatter_max": _scatter("scatter_max"),
    "scatter-max": _scatter("scatter_max"),
    "scatter_min": _scatter("scatter_min"),
    "scatter-min": _scatter("scatter_min"),
}

__all__ = ["ARRAY_RULES", "select"]
