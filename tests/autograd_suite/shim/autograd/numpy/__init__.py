"""NumPy's names; functions take nodes by NumPy's protocol, and lists of nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy
from wyrm.node.base import BaseNode

from ..core import leaves_of
from . import random as random

__version__ = np.__version__


def _has_nodes(value: Any) -> bool:
    return any(isinstance(leaf, BaseNode) for leaf in leaves_of(value))


def array(value: Any, *arguments: Any, **keywords: Any) -> Any:
    """Return nested lists of nodes as one node, any others as an array."""
    if isinstance(value, BaseNode):
        return value
    if _has_nodes(value):
        parts = [array(each) if isinstance(each, list | tuple) else each for each in value]
        return wy.stack(
            [each if isinstance(each, wy.Node) else wy.Constant(np.asarray(each, np.float64)) for each in parts]
        )
    return np.array(value, *arguments, **keywords)


def _of_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with lists of nodes as nodes."""

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if arguments and isinstance(arguments[0], list) and _has_nodes(arguments[0]):
            try:
                return function(*arguments, **keywords)
            except TypeError:
                return function(array(arguments[0]), *arguments[1:], **keywords)
        return function(*arguments, **keywords)

    return call


def __getattr__(name: str) -> Any:
    if name in ("linalg", "fft"):
        return getattr(np, name)
    found = getattr(np, name)
    return _of_lists(found) if callable(found) and not isinstance(found, type) else found


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        return np.where(condition)
    return np.where(condition, x, y)


def concatenate_args(axis: int, *arguments: Any) -> Any:
    return np.concatenate(arguments, axis)


def array_from_args(_: Any, __: Any, *arguments: Any) -> Any:
    return array(list(arguments))


def isnan(value: Any) -> Any:
    return np.isnan(value)
