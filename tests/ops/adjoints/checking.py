"""Derived kernels compared with complex steps, along random directions and with random weights of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.ops.adjoints.steps import along, outputs_of
from wyrm.ops.adjoints.derived import Derived, adjoint, forward_and_backward, kind_of_value, tangent

_DTYPES = {"f8": np.float64, "f4": np.float32, "i": np.int64, "b": np.bool_}
# Room on tapes of unknown size.
ROOM = 4000


def copied(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with arrays of their own."""
    return [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]


def tapes_of(derived: Derived) -> list[str]:
    """Return the tapes and the other memory of a derived kernel."""
    return [*(text for text, _ in derived.tapes), *(each.name for each in derived.work)]


def code_of(derived: Derived) -> str:
    """Return the source without its comments."""
    return "".join(line for line in derived.source.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def memory(derived: Derived, arguments: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return the arrays of a derived kernel: scratch, its cotangents and tapes, by name."""
    found: dict[str, np.ndarray] = {}
    shapes = derived.sizer(*arguments)
    types = {**dict(derived.tapes), **{each.name: each.type for each in derived.work}}
    for text, shape, known in zip(derived.sizes.names, shapes, derived.sizes.known, strict=True):
        dtype = _DTYPES[types.get(text, "f8")]
        shape = shape if known else (ROOM,)
        found[text] = np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 10**9, dtype)
    return found


Runner = Callable[[Callable[..., Any], list[Any]], Any]


def plain(function: Callable[..., Any], arguments: list[Any]) -> Any:
    """Call a function in Python."""
    return function(*arguments)


def call(
    derived: Derived, arguments: Sequence[Any], cotangents: Sequence[Any], seeds: Sequence[float],
    made: dict[str, np.ndarray] | None = None, run: Runner = plain,
) -> tuple[tuple[Any, ...], dict[str, np.ndarray]]:  # fmt: skip
    """Call a derived kernel; return what it returns and its memory."""
    made = memory(derived, arguments) if made is None else made | {
        key: value for key, value in memory(derived, arguments).items() if key not in made
    }  # fmt: skip
    for each in derived.shadows:
        made[each][...] = 0.0
    tapes = [made[text] for text in tapes_of(derived)]
    given = [
        *arguments, *(made[text] for text in derived.scratch), *cotangents, *(made[text] for text in derived.shadows),
        *seeds, *tapes,
    ]  # fmt: skip
    result = run(derived.function, given)
    return () if result is None else result if isinstance(result, tuple) else (result,), made


class Case:
    """A kernel with arguments, a direction, and weights of its outputs."""

    def __init__(self, function: Any, arguments: Sequence[Any], seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.function, self.arguments = function, list(arguments)
        self.directions: list[Any] = [
            random.normal(size=each.shape)
            if isinstance(each, np.ndarray) and each.dtype.kind == "f"
            else float(random.normal())
            if isinstance(each, float)
            else None
            for each in arguments
        ]
        self.kinds = [kind_of_value(each) for each in arguments]
        self.names = function.__code__.co_varnames[: function.__code__.co_argcount]
        given = copied(arguments)
        result = function(*given)
        self.values = [float(each) for each in outputs_of(result, given)]
        self.returned = len(outputs_of(result, []))
        # Weights of what it returns, and of the arrays.
        self.seeds = [float(each) for each in random.normal(size=self.returned)]
        self.weights: list[Any] = [
            random.normal(size=each.shape) if isinstance(each, np.ndarray) else None for each in arguments
        ]

    def total(self, found: Sequence[float]) -> float:
        """Return the sum of outputs times their weights."""
        weights = [*self.seeds]
        for each, weight in zip(self.arguments, self.weights, strict=True):
            if isinstance(each, np.ndarray) and each.dtype.kind == "f":
                assert weight is not None
                weights += list(weight.reshape(-1))
        return float(np.dot(weights, found))

    def expected(self) -> float:
        """Return the derivative of that sum along the direction, by complex steps."""
        values, slopes = along(self.function, self.arguments, self.directions)
        np.testing.assert_allclose(values, self.values, rtol=1e-9, atol=1e-12)
        return self.total(slopes)

    def of_gradients(self, cotangents: dict[str, Any], scalars: dict[str, float]) -> float:
        """Return the gradient times the direction."""
        total = 0.0
        for text, direction in zip(self.names, self.directions, strict=True):
            if text in cotangents:
                total += float(np.sum(cotangents[text] * direction))
            elif text in scalars:
                total += scalars[text] * direction
        return total

    def _cotangents(self, derived: Derived) -> dict[str, Any]:
        by_name = dict(zip(self.names, self.weights, strict=True))
        return {each: np.array(by_name[each]) for each in derived.cotangents}

    def constant(self, derived: Derived) -> float:
        """Return what arrays without a cotangent add: those whose last contents do not depend on what came in."""
        return 0.0

    def reverse(self, run: Runner = plain, levels: int = 0) -> float:
        """Return the derivative by the adjoint; compare the values too."""
        derived = adjoint(self.function, self.kinds, levels=levels)
        given, d = copied(self.arguments), self._cotangents(derived)
        found, _ = call(derived, given, list(d.values()), self.seeds_of(derived), run=run)
        self._compare_values(found[: derived.results], given)
        return self.of_gradients(d, dict(zip(derived.scalars, found[derived.results :], strict=True)))

    def seeds_of(self, derived: Derived) -> list[float]:
        """Return the cotangents of the results."""
        return self.seeds[: len(derived.seeds)]

    def _compare_values(self, returned: Sequence[Any], given: Sequence[Any]) -> None:
        values = outputs_of(tuple(returned), given)
        np.testing.assert_allclose([float(each) for each in values], self.values, rtol=1e-9, atol=1e-12)

    def in_halves(self, run: Runner = plain, levels: int = 0) -> float:
        """Return the derivative by a forward and a backward call."""
        first, second = forward_and_backward(self.function, self.kinds, levels=levels)
        given = copied(self.arguments)
        found, made = call(first, given, [], [], run=run)
        self._compare_values(found, given)
        d = self._cotangents(second)
        tapes = {text: made[text] for text in made}
        found, _ = call(second, given, list(d.values()), self.seeds_of(second), tapes, run=run)
        return self.of_gradients(d, dict(zip(second.scalars, found, strict=True)))

    def forward(self, run: Runner = plain) -> float:
        """Return the derivative by the tangent."""
        derived = tangent(self.function, self.kinds)
        given = copied(self.arguments)
        by_name = dict(zip(self.names, self.directions, strict=True))
        d = {each: np.array(by_name[each]) for each in derived.cotangents}
        moves = [by_name[each] for each in derived.seeds]
        found, _ = call(derived, given, list(d.values()), moves, run=run)
        self._compare_values(found[: derived.results], given)
        slopes = [float(each) for each in found[derived.results :]]
        for text, each in zip(self.names, given, strict=True):
            if isinstance(each, np.ndarray) and each.dtype.kind == "f":
                slopes += list((d[text] if text in d else np.zeros(each.shape)).reshape(-1))
        return self.total(slopes)

    def second(self, seed: int = 1) -> Case:
        """Return the case of the adjoint as a kernel of its own."""
        derived = adjoint(self.function, self.kinds)
        made = memory(derived, self.arguments)
        for each in made.values():
            each[...] = 0
        d = self._cotangents(derived)
        given = [
            *copied(self.arguments), *(made[text] for text in derived.scratch), *d.values(),
            *(made[text] for text in derived.shadows), *self.seeds_of(derived),
            *(made[text] for text in tapes_of(derived)),
        ]  # fmt: skip
        return Case(derived.function, given, seed)


def close(found: float, expected: float, scale: float, tolerance: float = 1e-9) -> bool:
    """Return whether two derivatives are equal up to rounding."""
    return abs(found - expected) <= tolerance * (1.0 + abs(expected) + scale)
