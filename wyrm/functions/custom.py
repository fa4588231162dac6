"""Functions whose derivatives their authors write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec

from typing_extensions import TypeVar

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.functions.function import Function
from wyrm.functions.structure import flatten, unflatten
from wyrm.functions.tracing import name_of
from wyrm.grad.reverse import pull_back, zeros_of
from wyrm.node.base import ZERO, BaseNode, describe
from wyrm.node.leaves import Input, as_constant
from wyrm.node.node import Node
from wyrm.ops.custom import Custom

P = ParamSpec("P")
R = TypeVar("R")


class _Custom(Generic[P, R]):
    """A function over nodes with a derivative of its own; of arrays it gives arrays."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._evaluated: Function[P, R] = Function(self._built)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result, with the derivative that was defined."""
        return self._evaluated(*args, **kwargs)

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    def _wrapped(self, value: Any, kept: Sequence[Any], args: Any, rule: Callable[..., Any]) -> Any:
        """The result with each of its nodes made one that has the rule, `rule(position, kept, args, gradient)`."""
        inputs, structure = flatten(args, f"the arguments of {name_of(self.function)}")
        wanted = [leaf for leaf in inputs if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"]
        places = [i for i, leaf in enumerate(inputs) if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"]
        outputs, shape = flatten(value, f"the result of {name_of(self.function)}")
        kept_nodes = [i for i, leaf in enumerate(kept) if isinstance(leaf, BaseNode)]

        def of(position: int) -> Callable[[Any, Any], tuple[Any, ...]]:
            def derived(parents: Sequence[Any], gradient: Any) -> tuple[Any, ...]:
                now, later = list(inputs), list(kept)
                for place, parent in zip(places, parents, strict=False):
                    now[place] = parent
                for place, parent in zip(kept_nodes, parents[len(places) :], strict=True):
                    later[place] = parent
                cotangents = [
                    gradient if i == position else zeros_of(output) if isinstance(output, BaseNode) else output
                    for i, output in enumerate(outputs)
                ]
                found = rule(later, unflatten(structure, now), unflatten(shape, cotangents))
                return self._checked(found, inputs, structure, places)

            return derived

        made = [
            Custom(node, *wanted, *(kept[i] for i in kept_nodes), count=len(wanted), rule=of(position))
            if isinstance(node, BaseNode) and node.dtype.kind == "f" else node
            for position, node in enumerate(outputs)
        ]  # fmt: skip
        return unflatten(shape, made)

    def _checked(self, found: Any, inputs: Sequence[Any], structure: Any, places: Sequence[int]) -> tuple[Any, ...]:
        """The gradients that a rule gave, one for each float node among the arguments."""
        who = name_of(self.function)
        if not isinstance(found, tuple) or len(found) != len(structure.inside):
            raise NotDifferentiable(
                f"the derivative of {who} returned {found!r}; return a tuple, one gradient for each of its "
                f"{len(structure.inside)} arguments"
            )
        gradients: list[Any] = []
        for part, given in zip(structure.inside, found, strict=True):
            if given is None or given is ZERO:
                gradients += [ZERO] * part.leaves
                continue
            leaves, shape = flatten(given, f"a gradient of {who}")
            if shape != part:
                raise ShapeError(f"the derivative of {who} returned a gradient of another structure: {given!r}")
            gradients += leaves
        result = []
        for place in places:
            gradient, leaf = gradients[place], inputs[place]
            if gradient is not ZERO and not isinstance(gradient, BaseNode):
                gradient = as_constant(gradient, leaf.dtype)
            if gradient is not ZERO and gradient.dims != leaf.dims:
                raise ShapeError(
                    f"the derivative of {who} returned a gradient of axes {gradient.dims} for {describe(leaf)}"
                )
            result.append(gradient)
        return tuple(result)


class CustomVjp(_Custom[P, R]):
    """See `custom_vjp`."""

    _forward: Callable[..., Any]
    _backward: Callable[..., Any]

    def define(self, forward: Callable[P, tuple[R, Any]], backward: Callable[[Any, Any], tuple[Any, ...]]) -> None:
        """Give the two halves: `forward(*args) -> (result, kept)`, `backward(kept, cotangent) -> gradients`."""
        self._forward, self._backward = forward, backward

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_backward"):
            raise NotDifferentiable(
                f"{name_of(self.function)} has no derivative yet: call its define(forward, backward)"
            )
        value, kept = self._forward(*args, **kwargs)
        leaves, structure = flatten(kept, "what forward keeps")

        def rule(later: Sequence[Any], now: Any, cotangent: Any) -> Any:
            return self._backward(unflatten(structure, later), cotangent)

        result: R = self._wrapped(value, leaves, args, rule)
        return result


class CustomJvp(_Custom[P, R]):
    """See `custom_jvp`."""

    _rule: Callable[..., Any]

    def define(self, rule: Callable[[Any, Any], tuple[R, Any]]) -> None:
        """Give the rule: `rule(args, tangents) -> (result, change)`, linear in the tangents."""
        self._rule = rule

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_rule"):
            raise NotDifferentiable(f"{name_of(self.function)} has no derivative yet: call its define(rule)")

        def rule(later: Sequence[Any], now: Any, cotangent: Any) -> tuple[Any, ...]:
            leaves, structure = flatten(now, "the arguments")
            moved = [leaf for leaf in leaves if isinstance(leaf, BaseNode) and leaf.dtype.kind == "f"]
            along: dict[Any, Any] = {leaf: Input(dims=leaf.dims, name="tangent", dtype=leaf.dtype) for leaf in moved}
            tangents = [along.get(leaf, leaf) for leaf in leaves]
            _, change = self._rule(tuple(unflatten(structure, leaves)), tuple(unflatten(structure, tangents)))
            changes, _ = flatten(change, "the change")
            weights, _ = flatten(cotangent, "the cotangent")
            pairs = [(c, w) for c, w in zip(changes, weights, strict=True) if isinstance(c, Node)]
            found = pull_back([c for c, _ in pairs], [w for _, w in pairs], [along[leaf] for leaf in moved])
            gradients = dict(zip(moved, (ZERO if g is None else g for g in found), strict=True))
            flat = [gradients.get(leaf, 0.0) for leaf in leaves]
            return tuple(
                ZERO if any(g is ZERO for g in part) else unflatten(inside, part)
                for inside, part in _parts(structure, flat)
            )

        result: R = self._wrapped(self.function(*args, **kwargs), [], args, rule)
        return result


def _parts(structure: Any, leaves: Sequence[Any]) -> list[tuple[Any, list[Any]]]:
    """The leaves of each argument."""
    rest = iter(leaves)
    return [(part, [next(rest) for _ in range(part.leaves)]) for part in structure.inside]


def custom_vjp(function: Callable[P, R]) -> CustomVjp[P, R]:
    """A function over nodes whose gradient its author writes; a decorator.

    `define(forward, backward)` gives the two halves: `forward(*args)` the result and what to keep of it, and
    `backward(kept, cotangent)` a tuple with a gradient for each argument, of its structure and axes, or None for none.
    Both build graphs, so gradients of gradients are those of what `backward` computes.

    Raises `ShapeError` for a gradient of other axes, `NotDifferentiable` for another number of them.

    >>> @wy.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.define(lambda x: (x, None), lambda kept, gradient: (gradient.clip(-1.0, 1.0),))
    >>> wy.function(lambda x: (3.0 * clipped(x)).sum()).grad()(np.array([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return CustomVjp(function)


def custom_jvp(function: Callable[P, R]) -> CustomJvp[P, R]:
    """A function over nodes whose change along tangents its author writes; a decorator.

    `define(rule)` gives `rule(args, tangents) -> (result, change)`, where the change is linear in the tangents. The
    gradient is its transpose.

    >>> @wy.custom_jvp
    ... def square(x):
    ...     return x * x
    >>> square.define(lambda args, tangents: (square(*args), 3.0 * args[0] * tangents[0]))  # not 2, to be seen
    >>> float(wy.function(square).grad()(2.0))
    6.0
    """
    return CustomJvp(function)
