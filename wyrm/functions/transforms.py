"""Vector-Jacobian and Jacobian-vector products, Jacobians and Hessians."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
from typing_extensions import TypeVarTuple

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.functions.carries import dtype_of
from wyrm.functions.function import Function, evaluated, function_of_nodes
from wyrm.functions.mapping import batched
from wyrm.functions.pytree import (
    ArrayTree,  # noqa: F401  # documentation tools look up the parts of `Tree` here
    PyTreeDef,
    Tree,
    TreeLeaf,
    flatten,
    unflatten,
)
from wyrm.functions.tracing import Wrt, name_of, positions_of, split_aux
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, as_constant
from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Values  # noqa: F401  # as above
from wyrm.ops.gradients import reverse
from wyrm.ops.shaping.shape import zeros_like
from wyrm.ops.subgraph import placeholder_like
from wyrm.support.foreign_names import explains_keywords

Axes = TypeVarTuple("Axes")


def _function_of_nodes(function: Callable[..., object]) -> Callable[..., Any]:
    """Return the underlying function over nodes."""
    return function_of_nodes(function, "derivatives are of a function")


def _with_static(function: Callable[..., object], static: dict[str, object]) -> Callable[..., Any]:
    """Return the function with its static arguments bound, under the same name."""
    return functools.update_wrapper(functools.partial(function, **static), function) if static else function


def _float_leaves(value: object, what: str) -> tuple[list[Any], PyTreeDef]:
    leaves, structure = flatten(value, what)
    for leaf in leaves:
        if isinstance(leaf, BaseNode) and leaf.dtype.kind != "f":
            raise NotDifferentiable(f"{what}: {describe(leaf)} has dtype {leaf.dtype}, which has no gradient")
    return leaves, structure


def _matching(given: object, structure: PyTreeDef, what: str) -> list[TreeLeaf]:
    leaves, found = flatten(given, what)
    if found != structure:
        raise ShapeError(f"the {what} does not have the structure of the value it belongs to: {given!r}")
    return leaves


def _as_nodes(leaves: Sequence[TreeLeaf], beside: Sequence[object]) -> list[Any]:
    """Return the leaves as nodes; numbers take the float dtype of the nodes among the leaves, else of `beside`."""
    kind = dtype_of([*leaves, *beside])
    return [leaf if isinstance(leaf, BaseNode) else as_constant(leaf, kind) for leaf in leaves]


def _vjp(function: Callable[..., object], args: tuple[object, ...], cotangent: object) -> tuple[Any, ...]:
    """Return the gradients of `sum(function(*args) * cotangent)` with respect to all arguments."""
    wanted, structure = _float_leaves(args, f"the arguments of {name_of(function)}")
    outputs, shape = _float_leaves(function(*args), f"the result of {name_of(function)}")
    outputs = _as_nodes(outputs, wanted)
    weights = _matching(cotangent, shape, "cotangent")
    given = [reverse.weights_of(output, weight, "cotangent") for output, weight in zip(outputs, weights, strict=True)]
    found = reverse.pull_back(outputs, given, wanted)
    gradients = [zeros_like(leaf) if g is None else g for leaf, g in zip(wanted, found, strict=True)]
    return tuple(unflatten(structure, gradients))


def _jvp(
    function: Callable[..., object], args: tuple[object, ...], tangents: tuple[object, ...], has_aux: bool = False
) -> tuple[Any, ...]:
    """Return the result, its derivative along the tangents, and with `has_aux` the function's aux."""
    moved, structure = _float_leaves(args, f"the arguments of {name_of(function)}")
    directions = _matching(tuple(tangents), structure, "tangent")
    value, aux = split_aux(function(*args), has_aux, function)
    outputs, shape = _float_leaves(value, f"the result of {name_of(function)}")
    nodes = _as_nodes(outputs, moved)
    given = [reverse.weights_of(x, t, "tangent") for x, t in zip(moved, directions, strict=True)]
    changes = reverse.with_sizes(reverse.push_forward(nodes, moved, given), [*nodes, *moved])
    return (value, unflatten(shape, changes), *([aux] if has_aux else []))


@overload
def vjp(
    function: Node, wrt: Tensor[*Axes], cotangent: reverse.Direction, /, *, allow_unused: bool = False
) -> Tensor[*Axes]: ...
@overload
def vjp(  # type: ignore[overload-overlap]  # a tuple declared as a Sequence gives a tuple
    function: Node,
    wrt: tuple[Node, ...],
    cotangent: reverse.Direction,
    /,
    *,
    allow_unused: bool = False,
) -> tuple[Node, ...]: ...
@overload
def vjp(
    function: Node,
    wrt: Sequence[Node],
    cotangent: reverse.Direction,
    /,
    *,
    allow_unused: bool = False,
) -> list[Node]: ...
@overload
def vjp(
    function: Callable[..., object], /, *args: Any, has_aux: Literal[False] = False, **static: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    function: Callable[..., object], /, *args: Any, has_aux: Literal[True], **static: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]], Any]: ...
def vjp(function: Any, /, *args: Any, has_aux: bool = False, **options: Any) -> Any:
    """Return the result of a function and its pullback, which maps a cotangent to gradients of the arguments.

    `value, pullback = vjp(f, *args)`. `pullback(cotangent)` takes a cotangent of the structure of the value and returns
    a tuple: the gradient of `sum(f(*args) * cotangent)` with respect to each argument. With `has_aux=True` the function
    returns a pair (value, aux), and the result is `(value, pullback, aux)`; aux has no gradient. With a node,
    `vjp(output, wrt, cotangent)` is the gradient of `sum(output * cotangent)` with respect to `wrt`, one or several
    nodes of the graph; see `wyrm.ops.gradients`.

    Raise `ShapeError` if the cotangent has another shape, `NotDifferentiable` for integer arguments.

    >>> value, pullback = vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> value.tolist(), [gradient.tolist() for gradient in pullback(np.array([1.0, 10.0]))]
    ([3.0, 8.0], [[3.0, 40.0], [1.0, 20.0]])
    """
    if isinstance(function, Node):
        return reverse.vjp(function, *args, **options)
    plain = _function_of_nodes(function)
    result = evaluated(plain, function)(*args, **options)
    value, aux = split_aux(result, has_aux, plain)

    @functools.wraps(plain)
    def value_of(*arguments: object) -> Any:
        return split_aux(plain(*arguments, **options), has_aux, plain)[0]

    @functools.wraps(plain)
    def pulled(arguments: tuple[object, ...], cotangent: object) -> tuple[Any, ...]:
        return _vjp(value_of, arguments, cotangent)

    pull = evaluated(pulled, function)

    def pullback(cotangent: object) -> Any:
        return pull(args, cotangent)

    return (value, pullback, aux) if has_aux else (value, pullback)


def _tuples(name: str, args: object, tangents: object) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the arguments and their tangents as tuples; raise `TypeError` for an array in the place of a tuple."""
    if not isinstance(args, Sequence) or not isinstance(tangents, Sequence):
        raise TypeError(f"{name} takes a tuple of arguments and one of tangents, as in wy.{name}(f, (x,), (tangent,))")
    return tuple(args), tuple(tangents)


@overload
def jvp(function: Tensor[*Axes], args: Node, tangents: reverse.Direction) -> Tensor[*Axes]: ...
@overload
def jvp(function: Tensor[*Axes], args: Sequence[Node], tangents: Sequence[reverse.Direction]) -> Tensor[*Axes]: ...
@overload
def jvp(
    function: Callable[..., object], args: Sequence[Tree], tangents: Sequence[Tree], *, has_aux: Literal[False] = False
) -> tuple[Any, Any]: ...
@overload
def jvp(
    function: Callable[..., object], args: Sequence[Tree], tangents: Sequence[Tree], *, has_aux: Literal[True]
) -> tuple[Any, Any, Any]: ...
def jvp(function: Any, args: Any, tangents: Any, *, has_aux: bool = False) -> Any:
    """Return `(value, change)`: the result of a function and its derivative along the tangents.

    `args` and `tangents` are tuples of the same structure. The change is computed by forward mode: the graph of the
    backward pass is transposed with respect to its cotangent, and only the forward part of it remains. With
    `has_aux=True` the function returns a pair (value, aux), and the result is `(value, change, aux)`. With a node,
    `jvp(output, wrt, tangent)` is the derivative of the output along tangents of the nodes `wrt`.

    Raise `ShapeError` if tangents have another structure or shape, `NotDifferentiable` for integer arguments.

    >>> value, change = jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    >>> change.tolist()
    [2.0, 40.0]
    """
    if isinstance(function, Node):
        return reverse.jvp(function, args, tangents)
    plain = _function_of_nodes(function)
    pushed = evaluated(lambda arguments, along: _jvp(plain, arguments, along, has_aux), function)
    return pushed(*_tuples("jvp", args, tangents))


def linearize(function: Callable[..., object], *args: Tree, **static: object) -> tuple[Any, Callable[..., Any]]:
    """Return the result of a function and its linear approximation there: a function from tangents to the change.

    >>> value, change = linearize(lambda x: x * x, np.array([1.0, 2.0]))
    >>> change(np.array([1.0, 0.0])).tolist(), change(np.array([0.0, 1.0])).tolist()
    ([2.0, 0.0], [0.0, 4.0])
    """
    plain = _with_static(_function_of_nodes(function), static)
    value = evaluated(plain, function)(*args)
    pushed = evaluated(lambda arguments, along: _jvp(plain, arguments, along)[1], function)
    return value, lambda *tangents: pushed(args, tuple(tangents))


def hvp(function: Callable[..., object], args: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> Any:
    """Return the Hessian of a scalar function times a vector, without computing the Hessian.

    This is the derivative of the gradient along the tangents. `args`, `tangents` and the result have one structure.

    >>> hvp(lambda x: (x * x * x).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))[0].tolist()
    [6.0, 12.0]
    """
    plain = _function_of_nodes(function)

    def gradients(*arguments: object) -> tuple[Any, ...]:
        return _vjp(plain, arguments, 1.0)

    pushed = evaluated(lambda arguments, along: _jvp(gradients, arguments, along)[1], function)
    return pushed(*_tuples("hvp", args, tangents))


@explains_keywords
def jacobian(function: Callable[..., object], wrt: Wrt = 0, *, has_aux: bool = False) -> Function:
    """Return a function that computes the Jacobian, whose arrays have the axes (*of the result, *of the argument).

    `wrt` is the position or name of an argument, or a tuple of those. The Jacobian has the structure of the result, and
    each leaf of it the structure of the argument, or a tuple of such structures. It is computed in one batch: by rows,
    with VJPs, or by columns, with JVPs, whichever are fewer. With `has_aux` the function returns a pair (value, aux),
    and the result is the pair (Jacobian of the value, aux).

    A call raises `NotDifferentiable` for integer arguments, `ValueError` if `wrt` selects no argument.

    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    plain = _function_of_nodes(function)

    @functools.wraps(plain)
    def jacobian_of(*args: object, **static: object) -> Any:
        chosen = [args[position] for position in positions_of(plain, wrt, len(args))]
        parts = [_float_leaves(argument, f"an argument of {name_of(plain)}") for argument in chosen]
        wanted = [leaf for leaves, _ in parts for leaf in leaves]
        value, aux = split_aux(plain(*args, **static), has_aux, plain)
        outputs, shape = _float_leaves(value, f"the result of {name_of(plain)}")

        def by_all(output: Node) -> Any:
            rest = iter(_jacobians(output, wanted))
            found = tuple(unflatten(structure, [next(rest) for _ in leaves]) for leaves, structure in parts)
            return found[0] if isinstance(wrt, int | str) else found

        found = unflatten(shape, [by_all(output) for output in _as_nodes(outputs, wanted)])
        return (found, aux) if has_aux else found

    return evaluated(jacobian_of, function)


def _jacobians(output: Node, wanted: Sequence[Node]) -> list[Node]:
    """Return the Jacobian of `output` with respect to each node, with the axes (*output.dims, *node.dims)."""
    shapes = [(*output.dims, *x.dims) for x in wanted]
    if output.size > sum(x.size for x in wanted):
        return [_jacobian_by_columns(output, x).reshape(shape) for x, shape in zip(wanted, shapes, strict=True)]
    given = placeholder_like(output, output.dims, "cotangent")
    found = reverse.pull_back([output], [given], wanted)
    gradients = [zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
    return [g.reshape(shape) for g, shape in zip(batched(gradients, {given: _units(output)}), shapes, strict=True)]


def _jacobian_by_columns(output: Node, x: Node) -> Any:
    """Return the Jacobian by columns, of shape (*output.shape, x.size)."""
    given = placeholder_like(x, x.dims, "tangent")
    (columns,) = batched(reverse.push_forward([output], [x], [given]), {given: _units(x)})
    return columns.transpose(*range(1, columns.ndim), 0)


def _units(node: Node) -> Constant:
    """Return all one-hot arrays of the node's shape, stacked along a new first axis."""
    return Constant(np.eye(node.size, dtype=node.dtype).reshape(node.size, *node.shape))


@explains_keywords
def hessian(function: Callable[..., object], wrt: Wrt = 0, *, has_aux: bool = False) -> Function:
    """Return a function that computes the second derivatives of a scalar with respect to arguments; see `jacobian`.

    >>> hessian(lambda x: (x * x * x).sum())(np.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    differentiable = function if isinstance(function, Function) else Function(function)
    return jacobian(differentiable.grad(wrt, has_aux=has_aux), wrt, has_aux=has_aux)
