"""What productions need: kinds of operands, and options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.production import OTHER, Chosen, Operand, Option, Sizes, Unfit

X, VECTOR, MATRIX, CUBE = Operand(), Operand(ranks=(1, 1)), Operand(ranks=(2, 2)), Operand(ranks=(3, 3))
ROWED, SCALAR = Operand(ranks=(1, 4)), Operand(ranks=(0, 0))
MASK, INTEGERS = Operand("b"), Operand("i", ranks=(0, 2))
BESIDE = Operand(beside="x")


def like(name: str = "x", kind: str = "f") -> Operand:
    """Return the need for a value of the axes of another."""
    return Operand(kind, dims=lambda chosen: chosen[name].dims)


def shaped(dims: Callable[[Any], Sizes], kind: str = "f", below: Callable[[Any], int] | None = None) -> Operand:
    """Return the need for a value of the axes `dims(chosen)`, with names as attributes of `chosen`."""
    bound = None if below is None else (lambda chosen: below(_Names(chosen)))
    return Operand(kind, dims=lambda chosen: dims(_Names(chosen)), below=bound)


def indices(size: Callable[[Any], int], ranks: tuple[int, int] = (0, 2)) -> Operand:
    """Return the need for integers from 0 to below `size(chosen)`."""
    return Operand("i", ranks, below=lambda chosen: size(_Names(chosen)))


class _Names:
    """What is chosen so far, as attributes."""

    def __init__(self, chosen: Chosen) -> None:
        self._chosen = chosen

    def __getattr__(self, name: str) -> Any:
        return self._chosen[name]


def choice(*values: Any) -> Option:
    return Option(lambda random, chosen: values[random.integers(len(values))])


def drawn(draw: Callable[[np.random.Generator, Any], Any]) -> Option:
    return Option(lambda random, chosen: draw(random, _Names(chosen)))


def _axis(random: np.random.Generator, x: Any) -> int:
    if x.rank == 0:
        raise Unfit
    return int(random.integers(-x.rank, x.rank))


def _filled_axis(random: np.random.Generator, x: Any) -> int:
    axis = _axis(random, x)
    if x.size(axis) == 0:
        raise Unfit
    return axis


def _axes(random: np.random.Generator, x: Any) -> Any:
    if x.rank == 0 or random.random() < 0.2:
        return None
    if random.random() < 0.7:
        return _axis(random, x)
    return tuple(int(i) for i in random.permutation(x.rank)[: random.integers(1, x.rank + 1)])


def _filled_axes(random: np.random.Generator, x: Any) -> Any:
    """Axes of a known size above 0, over which a maximum exists."""
    axes = _axes(random, x)
    for axis in range(x.rank) if axes is None else (axes if isinstance(axes, tuple) else (axes,)):
        if x.size(axis) == 0:
            raise Unfit
    return axes


def _known_sizes(random: np.random.Generator, x: Any) -> tuple[int, ...]:
    return tuple(x.size(axis) for axis in range(x.rank))


def _reshape(random: np.random.Generator, x: Any) -> tuple[int, ...]:
    sizes = _known_sizes(random, x)
    count = int(np.prod(sizes))
    if count == 0:
        raise Unfit
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    first = int(random.choice(divisors))
    return ((first, count // first), (first, -1), (-1,), (1, first, -1), (count,))[random.integers(5)]


def _key(random: np.random.Generator, x: Any) -> Any:
    """A basic index: integers, slices of any step, an ellipsis and new axes."""
    if x.rank == 0 or OTHER in x.dims:
        raise Unfit
    key: list[Any] = []
    for axis in range(int(random.integers(1, x.rank + 1))):
        size = x.dims[axis]
        if not isinstance(size, int) or size == 0 or random.random() < 0.3:
            key.append(slice(None, None, -1) if random.random() < 0.2 else slice(None))
        elif random.random() < 0.4:
            key.append(int(random.integers(-size, size)))
        else:
            start, stop = sorted(int(i) for i in random.integers(0, size + 1, 2))
            step = int(random.choice([1, 1, 2, 3, -1, -2]))
            key.append(slice(start, stop, step) if step > 0 else slice(stop, start - 1 if start else None, step))
    for extra in (None, ...):
        if random.random() < 0.2:
            key.insert(int(random.integers(len(key) + 1)) if extra is None else len(key), extra)
    return tuple(key)


AXIS, AXES = drawn(lambda random, c: _axis(random, c.x)), drawn(lambda random, c: _axes(random, c.x))
FILLED_AXIS, FILLED_AXES = (
    drawn(lambda random, c: _filled_axis(random, c.x)),
    drawn(lambda random, c: _filled_axes(random, c.x)),
)
SHAPE, KEY = drawn(lambda random, c: _reshape(random, c.x)), drawn(lambda random, c: _key(random, c.x))
ORDER = drawn(lambda random, c: tuple(int(i) for i in random.permutation(c.x.rank)))
KEEP, FLAG = choice(False, True), choice(False, True)
