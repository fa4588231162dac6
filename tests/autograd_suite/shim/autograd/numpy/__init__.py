"""NumPy's names; functions take nodes by NumPy's protocol, and lists of nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy
from wyrm.graph.base import BaseNode

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


def of_lists(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with lists of nodes as nodes."""

    def as_arrays(values: Any) -> Any:
        return [array(each) if isinstance(each, list | tuple) and _has_nodes(each) else each for each in values]

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(each, list | tuple) and _has_nodes(each) for each in arguments):
            try:
                return function(*arguments, **keywords)
            except TypeError:
                return function(*as_arrays(arguments), **keywords)
        return function(*arguments, **keywords)

    return call


def __getattr__(name: str) -> Any:
    if name == "linalg":  # a module of this package
        raise AttributeError(name)
    found = getattr(np, name)
    return of_lists(found) if callable(found) and not isinstance(found, type) else found


def _stacked(name: str) -> Callable[..., Any]:
    """Return a function that joins a list of arrays, with one array as the list of its rows."""
    joined = getattr(np, name)

    def join(arrays: Any, *arguments: Any, **keywords: Any) -> Any:
        rows = [arrays[i] for i in range(len(arrays))] if isinstance(arrays, wy.Node) else list(arrays)
        return joined(rows, *arguments, **keywords)

    return join


hstack, vstack, dstack, column_stack, row_stack = (
    _stacked(name) for name in ("hstack", "vstack", "dstack", "column_stack", "vstack")
)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    return np.moveaxis(np.cross(np.moveaxis(a, axisa, -1), np.moveaxis(b, axisb, -1)), -1, axisc)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None or y is None:
        return np.where(condition)
    if isinstance(condition, bool) and isinstance(x, int | float | list):
        return x if condition else y
    return np.where(condition, x, y)


class _Joined:
    """`np.r_` and `np.c_` of nodes."""

    def __init__(self, joined: Any, as_columns: bool) -> None:
        self.joined, self.as_columns = joined, as_columns

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not _has_nodes(list(parts)):
            return self.joined[key]
        arrays = [np.r_[part] if isinstance(part, slice) else array(part) for part in parts]
        if self.as_columns:
            arrays = [np.reshape(part, (-1, 1)) if np.ndim(part) == 1 else part for part in arrays]
            return np.concatenate(arrays, axis=-1)
        return np.concatenate([np.reshape(part, (1,)) if np.ndim(part) == 0 else part for part in arrays])


r_, c_ = _Joined(np.r_, False), _Joined(np.c_, True)


def make_diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return matrices with the last axis of `x` on their diagonal, the two axes at `axis1` and `axis2`."""
    size = np.shape(x)[-1]
    return np.moveaxis(x[..., None] * np.eye(size), (-2, -1), (axis1, axis2))


from . import linalg as linalg  # noqa: E402  # it needs the functions above
