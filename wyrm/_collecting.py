"""Python's collector of cycles, put off while many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def uncollected(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What a function gives that makes many objects, none of them garbage.

    The collector goes through all objects that there are whenever these have grown by a quarter. While the plan of a
    large graph is made, that took as long as everything else, and found nothing. In other threads cycles stay until it
    is done, seconds at most. A function and no context manager: where Ctrl-C comes between the end of the work and the
    entry of an `__exit__`, the collector would be left off.
    """
    if not gc.isenabled():
        return function(*args, **kwargs)
    try:
        gc.disable()
        return function(*args, **kwargs)
    finally:
        gc.enable()
