"""Functions with derivatives of their own, as `wy.custom_vjp`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import wyrm as wy
from wyrm.graph.base import BaseNode

_VJPS: dict[Any, dict[int, Callable[..., Any] | None]] = {}


def primitive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is called with nodes, and that `defvjp` gives derivatives."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        positions = [i for i, each in enumerate(arguments) if isinstance(each, BaseNode)]
        rules = _VJPS.get(call)
        if not positions:
            return function(*arguments, **keywords)

        def complete(operands: tuple[Any, ...]) -> list[Any]:
            changed = list(arguments)
            for position, operand in zip(positions, operands, strict=True):
                changed[position] = operand
            return changed

        @wy.custom_vjp
        def differentiable(*operands: Any) -> Any:
            return function(*complete(operands), **keywords)

        def forward(*operands: Any) -> Any:
            answer = function(*complete(operands), **keywords)
            return answer, (answer, operands)

        def backward(residuals: Any, cotangent: Any) -> Any:
            if rules is None:
                raise NotImplementedError(f"VJP of {function.__name__} is not defined")
            answer, operands = residuals
            found = []
            for position, operand in zip(positions, operands, strict=True):
                rule = rules.get(position)
                if rule is None:
                    found.append(wy.zeros_like(operand))
                else:
                    found.append(rule(answer, *complete(operands), **keywords)(cotangent))
            return tuple(found)

        differentiable.define(forward, backward)
        return differentiable(*[arguments[position] for position in positions])

    call.defgrad = lambda maker, argnum=0: _add(call, maker, argnum)  # type: ignore[attr-defined]  # a deprecated name
    call.defvjp = lambda vjp, argnum=0: _add(  # type: ignore[attr-defined]  # a deprecated name
        call, lambda ans, *a, **k: lambda g: vjp(g, ans, None, None, *a, **k), argnum
    )
    # A deprecated name.
    call.defvjp_is_zero = lambda argnums=(0,): (  # type: ignore[attr-defined]
        _VJPS.setdefault(call, {}).update(dict.fromkeys(argnums))
    )
    return call


def _add(function: Any, maker: Any, argnum: int) -> None:
    _VJPS.setdefault(function, {})[argnum] = maker


def defvjp(function: Any, *makers: Any, argnums: Any = None) -> None:
    """Give a primitive its derivatives, one for each argument."""
    for argnum, maker in zip(argnums or range(len(makers)), makers, strict=False):
        _add(function, maker, argnum)
