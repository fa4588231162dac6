"""Samples of ops: random values away from kinks and ties, and samples of whole families of ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.ops.elementwise.formula import FUNCTIONS, array_function

_random = np.random.default_rng(7)


def start(family: str) -> None:
    """Begin the draws of a family of samples, which do not depend on how many another family makes."""
    _random.bit_generator.state = np.random.default_rng([7, *family.encode()]).bit_generator.state


def normal(*shape: int) -> NDArray[np.float64]:
    values: NDArray[np.float64] = _random.uniform(0.3, 1.7, shape) * _random.choice([-1.0, 1.0], shape)
    return values


def positive(*shape: int) -> NDArray[np.float64]:
    return _random.uniform(0.4, 2.0, shape)


def distinct(*shape: int) -> NDArray[np.float64]:
    """Return elements that are not close to each other or to 0."""
    count = int(np.prod(shape))
    values = (np.arange(count) - count / 2 + 0.25) * 0.3
    return _random.permutation(values).reshape(shape)


def mask(*shape: int) -> NDArray[np.bool_]:
    return _random.random(shape) < 0.5


def integers(high: int, *shape: int) -> NDArray[np.int64]:
    return _random.integers(0, high, shape)


@dataclass(frozen=True)
class Sample:
    """An op with one set of operands."""

    op: type[Any]
    build: Callable[..., Any]
    operands: tuple[NDArray[Any], ...]
    expected: Callable[..., Any]
    name: str = ""
    differentiable: bool = True
    # Operands whose shapes are an error; None where every shape is valid.
    misfit: tuple[NDArray[Any], ...] | None = None
    # Whether the op takes operands whose first axis has size 0, and 0-d operands.
    empty: bool = True
    scalar: bool = False
    tags: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.name or self.op.__name__


def unary(
    op: type[Any], expected: Callable[..., Any], values: Any = normal, build: Any = None, **more: Any
) -> list[Sample]:
    make = build or op
    return [
        Sample(op, make, (values(3, 4),), expected, scalar=True, **more),
        Sample(op, make, (values(),), expected, name=f"{op.__name__}-0d", empty=False, scalar=True, **more),
    ]


def binary(
    op: type[Any], expected: Callable[..., Any], left: Any = normal, right: Any = normal, **more: Any
) -> list[Sample]:
    shapes = {"same": ((3, 4), (3, 4)), "bias": ((3, 4), (4,)), "column": ((3, 1), (1, 4)), "scalar": ((), (2, 3))}
    return [
        Sample(
            op,
            op,
            (left(*a), right(*b)),
            expected,
            name=f"{op.__name__}-{kind}",
            empty=kind == "same",
            scalar=True,
            misfit=(left(3, 4), right(3, 5)),
            **more,
        )
        for kind, (a, b) in shapes.items()
    ]


def reducing(op: type[Any], expected: Callable[..., Any], empty: bool = False, **attributes: Any) -> list[Sample]:
    samples = []
    for axis, keepdims in [
        (None, False),
        (-1, False),
        (-1, True),
        (0, False),
        ((0, 2), False),
        ((0, 2), True),
        (None, True),
    ]:
        samples.append(
            Sample(
                op,
                lambda x, a=axis, k=keepdims: op(x, a, k, **attributes),
                (distinct(2, 3, 4),),
                lambda x, a=axis, k=keepdims: expected(x, axis=a, keepdims=k, **attributes),
                name=f"{op.__name__}-{axis}-{keepdims}",
                empty=empty,
            )
        )
    return samples


def of_formula(op: type[Any]) -> list[Sample]:
    """Return samples of an elementwise op whose value is that of its formula, which Python evaluates.

    Attributes have the defaults of the class's arguments.
    """
    arguments = inspect.signature(op).parameters
    names: dict[str, Any] = {name: arguments[name].default for name in op.attributes}
    names |= {name: array_function(np, name) for name in FUNCTIONS}

    def expected(*operands: Any) -> Any:
        return eval(op.formula, {**names, **dict(zip("xy", operands, strict=False))})

    return unary(op, expected) if op.arity == 1 else binary(op, expected)
