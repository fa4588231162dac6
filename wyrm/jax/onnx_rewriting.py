"""Rewrites what JAX traced for ONNX: operations that its runtimes, or jax2onnx, do not have become others of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wyrm.ops.linalg import jacobi_jax, unrolled_jax

# Takes the operands and parameters of an operation; returns its results.
Rule = Callable[[Sequence[Any], dict[str, Any]], Sequence[Any]]


def rewritten(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[..., Any]:
    """Return a function with the results of another one, of arguments of these shapes, in operations that ONNX has.

    All is traced before jax2onnx replaces functions of `jax.numpy` by its own, some of which take no open axis.
    """
    import jax

    traced, shapes = jax.make_jaxpr(function, return_shape=True)(*arguments)
    several = isinstance(shapes, list | tuple)
    simpler = jax.make_jaxpr(lambda *inputs: _evaluated(traced, inputs, _RULES))(*arguments)

    def replaced(*inputs: Any) -> Any:
        results = [_apart(result, inputs) for result in _evaluated(simpler, inputs, _INLINED)]
        return results if several else results[0]

    return replaced


def _apart(result: Any, inputs: Sequence[Any]) -> Any:
    """Return a result that is no input itself, since both have names in a file."""
    if all(result is not each for each in inputs):
        return result
    return ~~result if result.dtype == bool else result + np.zeros((), result.dtype)


def _evaluated(traced: Any, inputs: Sequence[Any], rules: Mapping[str, Rule]) -> list[Any]:
    """Return the results of a closed jaxpr, with operations replaced by rules."""
    from jax.extend.core import Literal

    jaxpr = traced.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, traced.consts, strict=True))
    values |= zip(jaxpr.invars, inputs, strict=True)
    last_reads = {x: i for i, equation in enumerate(jaxpr.eqns) for x in equation.invars if not isinstance(x, Literal)}
    kept = {x for x in jaxpr.outvars if not isinstance(x, Literal)}

    def value(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else values[x]

    for i, equation in enumerate(jaxpr.eqns):
        operands = [value(x) for x in equation.invars]
        rule = rules.get(equation.primitive.name)
        if rule is not None:
            results = rule(operands, equation.params)
        else:
            results = equation.primitive.bind(*operands, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        values |= zip(equation.outvars, results, strict=True)
        for x in equation.invars:
            if not isinstance(x, Literal) and last_reads[x] == i and x not in kept:
                values.pop(x, None)
    return [value(x) for x in jaxpr.outvars]


def _closed(parameters: dict[str, Any]) -> Any:
    """Return the function inside of a call, closed over its constants."""
    from jax.extend.core import ClosedJaxpr

    inside: Any = parameters["jaxpr"] if "jaxpr" in parameters else parameters["call_jaxpr"]
    return inside if hasattr(inside, "consts") else ClosedJaxpr(inside, ())


def _inlined(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    return _evaluated(_closed(parameters), operands, _RULES)


def _inlined_alone(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    return _evaluated(_closed(parameters), operands, _INLINED)


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
        results = _evaluated(body, [*fixed, *carry, *rows], _RULES)
        return results[:carried], results[carried:]

    last, stacked = jax.lax.scan(step, first, turned(sequences), parameters["length"])
    return [*last, *turned(stacked)]


def _convolution(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """A convolution with the axes in the order of ONNX: rows, channels, positions."""
    import jax
    import jax.numpy as jnp

    numbers = parameters["dimension_numbers"]
    x = jnp.transpose(operands[0], numbers.lhs_spec)
    weight = jnp.transpose(operands[1], numbers.rhs_spec)
    names = ("window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count", "batch_group_count")
    result = jax.lax.conv_general_dilated(
        x, weight, **{name: parameters[name] for name in names}, precision=parameters["precision"],
        preferred_element_type=parameters["preferred_element_type"],
    )  # fmt: skip
    return [jnp.transpose(result, np.argsort(numbers.out_spec).tolist())]


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
    return [factors, pivots.astype(jnp.int32), order[..., 0]]


def _remainder(operands: Sequence[Any], parameters: dict[str, Any]) -> list[Any]:
    """The remainder of a quotient that is rounded towards zero, of floats; that of integers by their quotient."""
    import jax

    x, y = operands
    if x.dtype.kind == "f":
        return [jax.lax.rem(x, y)]
    return [x - jax.lax.div(x, y) * y]


# The operations that call a function.
_CALLS = ("jit", "pjit", "closed_call", "checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call")
_INLINED: dict[str, Rule] = dict.fromkeys(_CALLS, _inlined_alone)
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_CALLS, _inlined),
    "optimization_barrier": lambda operands, parameters: operands,
    "scan": _scan,
    "conv_general_dilated": _convolution,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "lu": _lu,
    "rem": _remainder,
}


@contextmanager
def open_axes_as_names() -> Iterator[None]:
    """Let `onnx_ir` take JAX's open axes in shapes by their names: it asks them for integers, which they have not."""
    from jax.export import is_symbolic_dim
    from onnx_ir import _core

    core: Any = _core
    original = getattr(core, "_maybe_convert_to_symbolic_dim", None)
    if original is None:  # in another version, which may not need it
        yield
        return

    def named(dim: Any) -> Any:
        return original(str(dim) if is_symbolic_dim(dim) else dim)

    core._maybe_convert_to_symbolic_dim = named
    try:
        yield
    finally:
        core._maybe_convert_to_symbolic_dim = original


__all__ = ["open_axes_as_names", "rewritten"]
