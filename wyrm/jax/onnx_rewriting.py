"""Rewrites what JAX traced for ONNX: operations that its runtimes, or jax2onnx, do not have become others of JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# Takes the operands and parameters of an operation; returns its results.
Rule = Callable[[Sequence[Any], dict[str, Any]], Sequence[Any]]
# Before the name of a function in the table of rules, to tell it from an operation of that name.
_FUNCTION = "function "
# The operations that call a function.
_CALLS = frozenset(
    ["jit", "pjit", "closed_call", "checkpoint", "remat2", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call"]
)


def rewritten(
    function: Callable[..., Any], arguments: Sequence[Any], rules: Mapping[str, Rule]
) -> Callable[..., Sequence[Any]]:
    """Return a function with the results of another one, of arguments of these shapes, in operations that ONNX has.

    The results are a list, also for a function that returns one. All is traced before jax2onnx replaces functions of
    `jax.numpy` by its own, some of which take no open axis.
    """
    import jax

    traced = jax.make_jaxpr(function)(*arguments)
    simpler = jax.make_jaxpr(lambda *inputs: evaluated(traced, inputs, rules))(*arguments)
    # Functions of `jax.numpy` that rules use are calls.
    return lambda *inputs: [_apart(result, inputs) for result in evaluated(simpler, inputs, {})]


def _apart(result: Any, inputs: Sequence[Any]) -> Any:
    """Return a result that is no input itself, since both have names in a file."""
    if all(result is not each for each in inputs):
        return result
    return ~~result if result.dtype == bool else result + np.zeros((), result.dtype)


def evaluated(traced: Any, inputs: Sequence[Any], rules: Mapping[str, Rule]) -> list[Any]:
    """Return the results of a closed jaxpr, with calls inlined and operations replaced by rules."""
    from jax.extend.core import Literal

    jaxpr = traced.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, traced.consts, strict=True))
    values |= zip(jaxpr.invars, inputs, strict=True)
    equations = _needed(jaxpr)
    last_reads = {x: i for i, equation in enumerate(equations) for x in equation.invars if not isinstance(x, Literal)}
    kept = {x for x in jaxpr.outvars if not isinstance(x, Literal)}

    def value(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else values[x]

    for i, equation in enumerate(equations):
        name, operands = equation.primitive.name, [value(x) for x in equation.invars]
        rule = rules.get(f"{_FUNCTION}{equation.params.get('name')}" if name in _CALLS else name)
        if rule is not None:
            results: Any = rule(operands, equation.params)
        elif name in _CALLS:
            results = evaluated(_closed(equation.params), operands, rules)
        else:
            results = equation.primitive.bind(*operands, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        values |= zip(equation.outvars, results, strict=True)
        for x in equation.invars:
            if not isinstance(x, Literal) and last_reads[x] == i and x not in kept:
                values.pop(x, None)
    return [value(x) for x in jaxpr.outvars]


def _needed(jaxpr: Any) -> list[Any]:
    """Return the equations that results depend on."""
    from jax.extend.core import Literal

    needed = {x for x in jaxpr.outvars if not isinstance(x, Literal)}
    equations = []
    for equation in reversed(jaxpr.eqns):
        if not needed.isdisjoint(equation.outvars):
            equations.append(equation)
            needed |= {x for x in equation.invars if not isinstance(x, Literal)}
    return equations[::-1]


def _closed(parameters: dict[str, Any]) -> Any:
    """Return the function inside of a call, closed over its constants."""
    from jax.extend.core import ClosedJaxpr

    inside: Any = next(parameters[name] for name in ("jaxpr", "call_jaxpr", "call") if name in parameters)
    return inside if hasattr(inside, "consts") else ClosedJaxpr(inside, ())


__all__ = ["Rule", "evaluated", "rewritten"]
