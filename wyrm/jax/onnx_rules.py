"""What stands in a file of ONNX for operations of JAX that its runtimes, or jax2onnx, do not have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.jax.onnx_arrays import ARRAY_RULES, select
from wyrm.jax.onnx_rewriting import Rule, evaluated
from wyrm.ops.convolution import unrolled_jax as unrolled_convolution
from wyrm.ops.linalg import jacobi_jax, unrolled_jax


def _scan(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A loop over steps; from the last to the first, over reversed sequences."""
    import jax
    import jax.numpy as jnp

    body, constants, carried = parameters["jaxpr"], parameters["num_consts"], parameters["num_carry"]
    fixed, first = list(operands[:constants]), list(operands[constants : constants + carried])
    sequences, reverse = list(operands[constants + carried :]), parameters["reverse"]

    def turned(arrays: Sequence[Any]) -> list[Any]:
        return [jnp.flip(array, 0) for array in arrays] if reverse else list(arrays)

    def step(carry: list[Any], rows: list[Any]) -> tuple[list[Any], list[Any]]:
        results = evaluated(body, [*fixed, *carry, *rows], _INSIDE)
        return results[:carried], results[carried:]

    last, stacked = jax.lax.scan(step, first, turned(sequences), parameters["length"])
    return [*last, *turned(stacked)]


def _while(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A loop with a condition. Of a batch of loops, each keeps its state once its own condition is false."""
    import jax
    import jax.numpy as jnp

    of_condition, of_body = parameters["cond_nconsts"], parameters["body_nconsts"]
    fixed, inside = operands[:of_condition], operands[of_condition : of_condition + of_body]

    def goes_on(state: Sequence[Any]) -> Any:
        return evaluated(parameters["cond_jaxpr"], [*fixed, *state], _INSIDE)[0]

    def step(state: Sequence[Any]) -> list[Any]:
        following = evaluated(parameters["body_jaxpr"], [*inside, *state], _INSIDE)
        is_on = goes_on(state)
        if is_on.ndim == 0:
            return following
        wheres = [
            jnp.broadcast_to(is_on.reshape(*is_on.shape, *[1] * (x.ndim - is_on.ndim)), x.shape) for x in following
        ]
        return [select(where, old, new) for where, new, old in zip(wheres, following, state, strict=True)]

    first = list(operands[of_condition + of_body :])
    last: list[Any] = jax.lax.while_loop(lambda state: goes_on(state).any(), step, first)
    return last


def _spread(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A broadcast inside of a loop, with an axis of size 1 before an open one.

    Without it jax2onnx takes the number of steps for the size of the first axis.
    """
    import jax

    (x, *_), shape = operands, parameters["shape"]
    axes = parameters["broadcast_dimensions"]
    if not shape or isinstance(shape[0], int):
        return [jax.lax.broadcast_in_dim(x, shape, axes)]
    return [jax.lax.squeeze(jax.lax.broadcast_in_dim(x, (1, *shape), [axis + 1 for axis in axes]), [0])]


def _numbers(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """The numbers along an axis, in a loop."""
    import jax

    shape, axis = parameters["shape"], parameters["dimension"]
    counted = jax.lax.squeeze(jax.lax.broadcasted_iota(np.int32, (1, shape[axis]), 1), [0])
    spread = _spread([counted], {"shape": shape, "broadcast_dimensions": [axis]})
    return [spread[0].astype(parameters["dtype"])]


def _cond(operands: Sequence[Any], parameters: dict[str, Any]) -> Sequence[Any]:
    """One of several branches; the branch itself where it is known which."""
    import jax

    index, *rest = operands
    branches = parameters["branches"]
    if isinstance(index, int | np.integer | np.ndarray):
        return evaluated(branches[int(index)], rest, RULES)
    chosen = [lambda *inputs, branch=branch: evaluated(branch, inputs, RULES) for branch in branches]
    results: Sequence[Any] = jax.lax.switch(index, chosen, *rest)
    return results


def _platform_index(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """Which code of several stands for CPUs."""
    platforms = parameters["platforms"]
    return [np.int32(next(i for i, names in enumerate(platforms) if names is None or "cpu" in names))]


def _convolution(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A convolution with the axes in the order of ONNX: rows, channels, positions."""
    import jax
    import jax.numpy as jnp

    numbers = parameters["dimension_numbers"]
    x = jnp.transpose(operands[0], numbers.lhs_spec)
    weight = jnp.transpose(operands[1], numbers.rhs_spec)
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count", "batch_group_count")
    options = {name: parameters[name] for name in names}
    if x.ndim > 4:
        result = unrolled_convolution.convolved(x, weight, **options)
    else:
        result = jax.lax.conv_general_dilated(
            x, weight, **options, precision=parameters["precision"],
            preferred_element_type=parameters["preferred_element_type"],
        )  # fmt: skip
    return [jnp.transpose(result, np.argsort(numbers.out_spec).tolist())]


def _solve(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A linear system with a gradient of its own: the solution alone."""
    lengths = parameters["const_lengths"]
    first, last = lengths.matvec + lengths.vecmat, sum(lengths)
    inputs = [*operands[first : first + lengths.solve], *operands[last:]]
    return evaluated(parameters["jaxprs"].solve, inputs, RULES)


def _outer(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A product of arrays that sums nothing, as one of elements; others stay as they are."""
    import jax
    import jax.numpy as jnp

    x, y = operands
    (of_x, _), (batch_x, batch_y) = parameters["dimension_numbers"]
    if of_x:
        return [jax.lax.dot_general_p.bind(x, y, **parameters)]
    shared = len(batch_x)
    x = jnp.moveaxis(x, batch_x, range(shared))
    y = jnp.moveaxis(y, batch_y, range(shared))
    columns = y.reshape(*y.shape[:shared], *[1] * (x.ndim - shared), *y.shape[shared:])
    dtype = parameters["preferred_element_type"] or x.dtype
    return [x.reshape(*x.shape, *[1] * (y.ndim - shared)).astype(dtype) * columns.astype(dtype)]


def _qr(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    return [*jacobi_jax.qr(operands[0], parameters["full_matrices"])]


def _eigh(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    import jax.numpy as jnp

    (a,) = operands
    n = a.shape[-1]
    numbers = np.arange(n)
    kept = numbers[:, None] >= numbers if parameters["lower"] else numbers[:, None] <= numbers
    half = jnp.where(kept, a, 0)
    return [*jacobi_jax.eigh(half + jnp.swapaxes(half, -1, -2) - jnp.where(np.eye(n, dtype=bool), a, 0))]


def _svd(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    values, left, right = jacobi_jax.svd(operands[0], parameters.get("full_matrices", False))
    return [values, left, right] if parameters["compute_uv"] else [values]


def _lu(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    import jax.numpy as jnp

    factors, pivots = unrolled_jax.lu(operands[0])
    order = jnp.arange(factors.shape[-2], dtype=jnp.int32)[:, None] + 0 * pivots[..., :1, None]
    for k in range(min(factors.shape[-2:])):
        order = unrolled_jax.interchanged(order, k, pivots[..., k])
    return [factors, pivots.astype(jnp.int32), order[..., 0].astype(jnp.int32)]


RULES: dict[str, Rule] = {
    **ARRAY_RULES,
    "scan": _scan,
    "while": _while,
    "cond": _cond,
    "platform_index": _platform_index,
    "conv_general_dilated": _convolution,
    "custom_linear_solve": _solve,
    "dot_general": _outer,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "lu": _lu,
}
# Those of operations inside of loops.
_INSIDE: dict[str, Rule] = {**RULES, "broadcast_in_dim": _spread, "iota": _numbers}

__all__ = ["RULES"]
