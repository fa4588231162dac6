"""Functions of one argument as functions of several."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def get_name(function: Any) -> str:
    return getattr(function, "__name__", "function")


def unary_to_nary(operator: Callable[..., Any]) -> Callable[..., Any]:
    """Return an operator of functions of one argument as one of the arguments `argnum`."""

    @functools.wraps(operator)
    def nary(function: Callable[..., Any], argnum: Any = 0, *options: Any, **keywords: Any) -> Callable[..., Any]:
        def of_arguments(*arguments: Any, **kwargs: Any) -> Any:
            many = not isinstance(argnum, int)

            def of_one(x: Any) -> Any:
                changed = list(arguments)
                for position, value in zip(argnum, x, strict=True) if many else [(argnum, x)]:
                    changed[position] = value
                return function(*changed, **kwargs)

            of_one.__name__ = get_name(function)
            x = tuple(arguments[position] for position in argnum) if many else arguments[argnum]
            return operator(of_one, x, *options, **keywords)

        of_arguments.__name__ = f"{operator.__name__}_of_{get_name(function)}_wrt_argnum_{argnum}"
        of_arguments.__doc__ = f"    {operator.__name__} of function {get_name(function)}"
        return of_arguments

    return nary
