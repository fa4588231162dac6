"""Functions with user-defined derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec

from typing_extensions import TypeVar

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.functions.function import Function
from wyrm.functions.pytree import PyTreeDef, flatten, unflatten
from wyrm.functions.tracing import enclosing_trace, name_of
from wyrm.graph.base import ZERO, BaseNode, describe
from wyrm.graph.leaves import Constant, Input, as_constant
from wyrm.graph.node import Node
from wyrm.graph.source_location import building
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.custom import Custom, GradientRule
from wyrm.ops.control.pass_through import alias
from wyrm.ops.gradients.reverse import pull_back
from wyrm.ops.shaping.shape import zeros_like

P = ParamSpec("P")
R = TypeVar("R")
# The residuals, which `forward` returns for `backward`.
Kept = TypeVar("Kept")


# The functions whose `forward` is being traced.
_running: ContextVar[frozenset[object]] = ContextVar("_running", default=frozenset())


class _CustomDerivative(Generic[P, R]):
    """A function with a user-defined derivative, over arrays or nodes."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._evaluated: Function[P, R] = Function(self._built, derives=True)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result, which has the derivative given to `define`."""
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
        """Return the result with each node wrapped in one whose gradient is `rule(residuals, args, cotangents)`.

        `built` are the nodes that the function has created.
        """
        inputs, structure = flatten(args, f"the arguments of {name_of(self.function)}")
        outputs, shape = flatten(value, f"the result of {name_of(self.function)}")
        residual_nodes = [i for i, leaf in enumerate(residuals) if isinstance(leaf, BaseNode)]
        count = len(inputs)

        def of(position: int) -> GradientRule:
            def derived(parents: Sequence[Node], gradient: Node) -> tuple[Any, ...]:
                # Derivatives taken inside the rule see the residuals as constants, so arguments and residuals get
                # aliases.
                now, later = [alias(parent) for parent in parents[:count]], list(residuals)
                for residual, parent in zip(residual_nodes, parents[count:], strict=True):
                    later[residual] = alias(parent)
                cotangents = [
                    gradient if i == position else zeros_like(output) if isinstance(output, BaseNode) else output
                    for i, output in enumerate(outputs)
                ]
                with enclosing_trace([gradient], alone=False):
                    gradients = rule(later, unflatten(structure, now), unflatten(shape, cotangents))
                return self._gradients_of_rule(gradients, inputs, structure)

            return GradientRule(name_of(self.function), derived)

        operands: list[Any] = [*inputs, *(residuals[i] for i in residual_nodes)]
        nodes = [leaf for leaf in inputs if isinstance(leaf, BaseNode)]
        outside = _closed_over([node for node in outputs if isinstance(node, BaseNode)], nodes, built)
        wrapped = [
            Custom(node, *operands, *outside, count=count, rule=of(position), outside=len(outside))
            if isinstance(node, BaseNode) and node.dtype.kind == "f" else node
            for position, node in enumerate(outputs)
        ]  # fmt: skip
        return unflatten(shape, wrapped)

    def _gradients_of_rule(self, found: object, inputs: Sequence[Any], structure: PyTreeDef) -> tuple[Any, ...]:
        """Return the gradients that a rule returned, one per argument leaf; zero for leaves that are not float."""
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
                raise ShapeError(
                    f"the derivative of {who} returned a gradient whose structure differs from its argument: {given!r}"
                )
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
        """Define `forward(*args) -> (result, residuals)` and `backward(residuals, cotangent) -> gradients`."""
        self._forward, self._backward = forward, backward

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_backward"):
            raise NotDifferentiable(
                f"{name_of(self.function)} has no derivative yet: call its define(forward, backward)"
            )
        running = _running.get()
        if self in running:  # `forward` may call the function itself
            return self.function(*args, **kwargs)
        token = _running.set(running | {self})
        try:
            with building() as built:
                value, residuals = self._forward(*args, **kwargs)
        finally:
            _running.reset(token)
        leaves, structure = flatten(residuals, "the residuals")

        def rule(later: Sequence[object], now: object, cotangent: object) -> object:
            return self._backward(unflatten(structure, later), cotangent)

        result: R = self._wrapped(value, leaves, args, built, rule)
        return result


class CustomJvp(_CustomDerivative[P, R]):
    """See `custom_jvp`."""

    _rule: Callable[..., Any]

    def define(self, rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[R, R]]) -> None:
        """Define `rule(args, tangents) -> (result, change)`, where `change` is linear in the tangents."""
        self._rule = rule

    def _built(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not hasattr(self, "_rule"):
            raise NotDifferentiable(f"{name_of(self.function)} has no derivative yet: call its define(rule)")

        def rule(later: Sequence[object], now: object, cotangent: object) -> object:
            given, structure = flatten(now, "the arguments")
            leaves: list[Any] = list(given)
            # One per float argument, even if two arguments are the same node.
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


def _closed_over(outputs: Sequence[BaseNode], inputs: Sequence[BaseNode], built: Sequence[BaseNode]) -> list[Any]:
    """Return the float nodes, other than `inputs`, that `outputs` use and the function has not built."""
    own = set(built)
    reached = topological_order(outputs, known=set(inputs))
    found = [node for node in outputs if node not in own]
    found += [parent for node in reached if node in own for parent in node.parents if parent not in own]
    excluded = set(inputs)
    return [
        x for x in dict.fromkeys(found) if x not in excluded and x.dtype.kind == "f" and not isinstance(x, Constant)
    ]


def custom_vjp(function: Callable[P, R]) -> CustomVjp[P, R]:
    """Define the gradient of a function over nodes by hand; a decorator.

    `define(forward, backward)` sets both passes. `forward(*args)` returns the result and the residuals.
    `backward(residuals, cotangent)` returns a tuple with one gradient per argument, of the structure and axes of that
    argument, or None for no gradient. Both build graphs, so second derivatives differentiate `backward`. Derivatives
    that `backward` itself takes, as with `wy.vjp`, treat the residuals as constants; higher-order derivatives treat
    them as functions of the arguments. The custom gradient applies to derivatives of every order, as in JAX when
    `forward` calls the function itself.

    Raise `ShapeError` for a gradient whose axes differ from its argument. Raise `NotDifferentiable` for the wrong
    number of gradients, and for a gradient with respect to a closed-over node: pass it as an argument.

    >>> @wy.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.define(lambda x: (x, None), lambda residuals, gradient: (gradient.clip(-1.0, 1.0),))
    >>> wy.function(lambda x: (3.0 * clipped(x)).sum()).grad()(np.array([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return CustomVjp(function)


def custom_jvp(function: Callable[P, R]) -> CustomJvp[P, R]:
    """Define the derivative of a function over nodes along tangents by hand; a decorator.

    `define(rule)` takes `rule(args, tangents) -> (result, change)`, where `change` is linear in the tangents. The
    gradient is its transpose. Raise `NotDifferentiable` for a gradient with respect to a closed-over node.

    >>> @wy.custom_jvp
    ... def square(x):
    ...     return x * x
    >>> square.define(lambda args, tangents: (square(*args), 3.0 * args[0] * tangents[0]))  # 3, not 2, to show its use
    >>> float(wy.function(square).grad()(2.0))
    6.0
    """
    return CustomJvp(function)
