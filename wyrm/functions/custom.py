"""Functions whose derivatives their authors write."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec

from typing_extensions import TypeVar

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.functions.function import Function
from wyrm.functions.pytree import PyTreeDef, flatten, unflatten
from wyrm.functions.tracing import name_of, standing
from wyrm.grad.reverse import pull_back
from wyrm.node.base import ZERO, BaseNode, describe
from wyrm.node.leaves import Constant, Input, as_constant
from wyrm.node.node import Node
from wyrm.node.source_location import building
from wyrm.node.traversal import topological_order
from wyrm.ops.custom import Custom, GradientRule
from wyrm.ops.pass_through import alias
from wyrm.ops.shape import zeros_like

P = ParamSpec("P")
R = TypeVar("R")
# What `forward` keeps for `backward`.
Kept = TypeVar("Kept")


# The functions whose `forward` is running.
_running: ContextVar[frozenset[object]] = ContextVar("_running", default=frozenset())


class _CustomDerivative(Generic[P, R]):
    """A function over nodes with a derivative of its own; of arrays it gives arrays."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._evaluated: Function[P, R] = Function(self._built, derives=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result, with the derivative that was defined."""
        return self._evaluated(*args, **kwargs)

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError

    def _wrapped(
        self,
        value: object,
        residuals: Sequence[object],
        args: object,
        built: Sequence[BaseNode],
        rule: Callable[..., object],
    ) -> Any:
        """The result with each of its nodes made one that has the rule, `rule(residuals, args, cotangent)`.

        `built` are the nodes that the function has built.
        """
        inputs, structure = flatten(args, f"the arguments of {name_of(self.function)}")
        outputs, shape = flatten(value, f"the result of {name_of(self.function)}")
        residual_nodes = [i for i, leaf in enumerate(residuals) if isinstance(leaf, BaseNode)]
        count = len(inputs)

        def of(position: int) -> GradientRule:
            def derived(parents: Sequence[Node], gradient: Node) -> tuple[Any, ...]:
                # What is kept is computed from the arguments, and yet no function of them to derivatives in the rule.
                now, later = [alias(parent) for parent in parents[:count]], list(residuals)
                for place, parent in zip(residual_nodes, parents[count:], strict=True):
                    later[place] = alias(parent)
                cotangents = [
                    gradient if i == position else zeros_like(output) if isinstance(output, BaseNode) else output
                    for i, output in enumerate(outputs)
                ]
                with standing([gradient], alone=False):
                    found = rule(later, unflatten(structure, now), unflatten(shape, cotangents))
                return self._checked(found, inputs, structure)

            return GradientRule(name_of(self.function), derived)

        given = [*inputs, *(residuals[i] for i in residual_nodes)]
        nodes = [leaf for leaf in inputs if isinstance(leaf, BaseNode)]
        outside = _closed_over([node for node in outputs if isinstance(node, BaseNode)], nodes, built)
        made = [
            Custom(node, *given, *outside, count=count, rule=of(position), outside=len(outside))
            if isinstance(node, BaseNode) and node.dtype.kind == "f" else node
            for position, node in enumerate(outputs)
        ]  # fmt: skip
        return unflatten(shape, made)

    def _checked(self, found: object, inputs: Sequence[Any], structure: PyTreeDef) -> tuple[Any, ...]:
        """The gradients that a rule gave, one for each node among the arguments; zero for those that are not float."""
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
        for gradient, leaf in zip(gradients, inputs, strict=True):
            if leaf.dtype.kind != "f":
                result.append(ZERO)
                continue
            if gradient is not ZERO and not isinstance(gradient, BaseNode):
                gradient = as_constant(gradient, leaf.dtype)
            if gradient is not ZERO and gradient.dims != leaf.dims:
                raise ShapeError(
                    f"the derivative of {who} returned a gradient of axes {gradient.dims} for {describe(leaf)}"
                )
            result.append(gradient)
        return tuple(result)


class CustomVjp(_CustomDerivative[P, R]):
    """See `custom_vjp`."""

    _forward: Callable[..., Any]
    _backward: Callable[..., Any]

    def define(self, forward: Callable[P, tuple[R, Kept]], backward: Callable[[Kept, R], tuple[Any, ...]]) -> None:
        """Set `forward(*args) -> (result, residuals)` and `backward(residuals, cotangent) -> gradients`."""
        self._forward, self._backward = forward, backward

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_backward"):
            raise NotDifferentiable(
                f"{name_of(self.function)} has no derivative yet: call its define(forward, backward)"
            )
        running = _running.get()
        if self in running:  # forward may call the function that it belongs to
            return self.function(*args, **kwargs)
        token = _running.set(running | {self})
        try:
            with building() as built:
                value, residuals = self._forward(*args, **kwargs)
        finally:
            _running.reset(token)
        leaves, structure = flatten(residuals, "what forward keeps")

        def rule(later: Sequence[object], now: object, cotangent: object) -> object:
            return self._backward(unflatten(structure, later), cotangent)

        result: R = self._wrapped(value, leaves, args, built, rule)
        return result


class CustomJvp(_CustomDerivative[P, R]):
    """See `custom_jvp`."""

    _rule: Callable[..., Any]

    def define(self, rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[R, R]]) -> None:
        """Give the rule: `rule(args, tangents) -> (result, change)`, linear in the tangents."""
        self._rule = rule

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_rule"):
            raise NotDifferentiable(f"{name_of(self.function)} has no derivative yet: call its define(rule)")

        def rule(later: Sequence[object], now: object, cotangent: object) -> object:
            given, structure = flatten(now, "the arguments")
            leaves: list[Any] = list(given)
            # For each float argument, also where two are the same node.
            along: list[Any] = [
                Input(dims=leaf.dims, name="tangent", dtype=leaf.dtype) if leaf.dtype.kind == "f" else None
                for leaf in leaves
            ]
            tangents = [leaf if tangent is None else tangent for leaf, tangent in zip(leaves, along, strict=True)]
            _, change = self._rule(tuple(unflatten(structure, leaves)), tuple(unflatten(structure, tangents)))
            changes, _ = flatten(change, "the change")
            weights, _ = flatten(cotangent, "the cotangent")
            pairs: list[tuple[Node, Any]] = [
                (c, w) for c, w in zip(changes, weights, strict=True) if isinstance(c, Node)
            ]
            found = iter(pull_back([c for c, _ in pairs], [w for _, w in pairs], [t for t in along if t is not None]))
            flat = [
                0.0 if tangent is None else zeros_like(leaf) if (gradient := next(found)) is None else gradient
                for leaf, tangent in zip(leaves, along, strict=True)
            ]
            return unflatten(structure, flat)

        with building() as built:
            value = self.function(*args, **kwargs)
        result: R = self._wrapped(value, [], args, built, rule)
        return result


def _closed_over(outputs: Sequence[BaseNode], inputs: Sequence[BaseNode], built: Sequence[BaseNode]) -> list[BaseNode]:
    """The float nodes that outputs are computed from besides the inputs, and that were there before."""
    own = set(built)
    reached = topological_order(outputs, known=set(inputs))
    found = [node for node in outputs if node not in own]
    found += [parent for node in reached if node in own for parent in node.parents if parent not in own]
    given = set(inputs)
    return [x for x in dict.fromkeys(found) if x not in given and x.dtype.kind == "f" and not isinstance(x, Constant)]


def custom_vjp(function: Callable[P, R]) -> CustomVjp[P, R]:
    """A function over nodes whose gradient its author writes; a decorator.

    `define(forward, backward)` sets both passes. `forward(*args)` returns the result and the residuals. `backward(residuals,
    cotangent)` returns a tuple with a gradient for each argument, of its structure and axes, or None for no gradient.
    Both build graphs, so gradients of gradients are those of what `backward` computes. What is kept is constant to
    derivatives that `backward` takes, such as `wy.vjp`, and a function of the arguments to those of higher order. The
    result has this gradient in derivatives of every order, as it has in JAX where `forward` calls the function.

    Raises `ShapeError` for a gradient of other axes, `NotDifferentiable` for another number of them, and for a gradient
    by a node that the function closes over: all that it is differentiated by are arguments.

    >>> @wy.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.define(lambda x: (x, None), lambda residuals, gradient: (gradient.clip(-1.0, 1.0),))
    >>> wy.function(lambda x: (3.0 * clipped(x)).sum()).grad()(np.array([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return CustomVjp(function)


def custom_jvp(function: Callable[P, R]) -> CustomJvp[P, R]:
    """A function over nodes whose change along tangents its author writes; a decorator.

    `define(rule)` gives `rule(args, tangents) -> (result, change)`, where the change is linear in the tangents. The
    gradient is its transpose. Raises `NotDifferentiable` for a gradient by a node that the function closes over.

    >>> @wy.custom_jvp
    ... def square(x):
    ...     return x * x
    >>> square.define(lambda args, tangents: (square(*args), 3.0 * args[0] * tangents[0]))  # not 2, to be seen
    >>> float(wy.function(square).grad()(2.0))
    6.0
    """
    return CustomJvp(function)
