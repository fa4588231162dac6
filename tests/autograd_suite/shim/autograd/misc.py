"""Nested containers as one vector."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy

from .core import leaves_of, rebuilt


def flatten(value: Any) -> tuple[Any, Callable[[Any], Any]]:
    leaves = leaves_of(value)
    shapes = [np.shape(leaf) for leaf in leaves]
    if not leaves:
        return np.zeros(0), lambda _: value
    if any(isinstance(leaf, wy.Node) for leaf in leaves):
        flat: Any = np.concatenate([np.reshape(leaf, (-1,)) for leaf in leaves])
    else:
        flat = np.concatenate([np.ravel(leaf) for leaf in leaves])
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])

    def unflatten(vector: Any) -> Any:
        parts = np.split(vector, [int(end) for end in ends[:-1]])
        found = [np.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        return rebuilt(value, [each if shape else each[()] for each, shape in zip(found, shapes, strict=True)])

    return flat, unflatten


def const_graph(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Callable[..., Any]:
    return functools.partial(function, *arguments, **keywords)
