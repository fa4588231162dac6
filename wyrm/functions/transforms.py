"""Products with Jacobians, Jacobians and Hessians of functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from typing_extensions import TypeVarTuple

from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.functions.function import Function, Wrt, evaluated, over_nodes, positions_of
from wyrm.functions.mapping import batched
from wyrm.functions.pytree import Leaf, PyTreeDef, Tree, flatten, unflatten
from wyrm.functions.tracing import name_of
from wyrm.grad import reverse
from wyrm.node.base import BaseNode, describe
from wyrm.node.leaves import Constant, as_constant
from wyrm.node.node import Node, Tensor
from wyrm.ops.loop_body import placeholder_like
from wyrm.ops.shape import zeros_like

Axes = TypeVarTuple("Axes")


def _plain(function: Callable[..., object]) -> Callable[..., Any]:
    """The function over nodes."""
    return over_nodes(function, "a function is differentiated")


def _given(function: Callable[..., object], static: dict[str, object]) -> Callable[..., Any]:
    """The function with these arguments by keyword, under its name."""
    return functools.update_wrapper(functools.partial(function, **static), function) if static else function


def _float_leaves(value: object, what: str) -> tuple[list[Any], PyTreeDef]:
    leaves, structure = flatten(value, what)
    for leaf in leaves:
        if isinstance(leaf, BaseNode) and leaf.dtype.kind != "f":
            raise NotDifferentiable(f"{what}: {describe(leaf)} holds {leaf.dtype}, which has no gradient")
    return leaves, structure


def _matching(given: object, structure: PyTreeDef, what: str) -> list[Leaf]:
    leaves, found = flatten(given, what)
    if found != structure:
        raise ShapeError(f"the {what} has another structure than what it belongs to: {given!r}")
    return leaves


def _as_nodes(leaves: Sequence[Leaf], beside: Sequence[object]) -> list[Any]:
    """The leaves as nodes; numbers have the float type of the nodes among them, or of those beside them."""
    kind = next((leaf.dtype for leaf in (*leaves, *beside) if isinstance(leaf, BaseNode)), np.dtype(np.float32))
    return [leaf if isinstance(leaf, BaseNode) else as_constant(leaf, kind) for leaf in leaves]


def _pulled(function: Callable[..., object], args: tuple[object, ...], cotangent: object) -> tuple[Any, ...]:
    """The gradients of the result of a function over nodes, weighted by the cotangent, by all of its arguments."""
    wanted, structure = _float_leaves(args, f"the arguments of {name_of(function)}")
    outputs, shape = _float_leaves(function(*args), f"the result of {name_of(function)}")
    outputs = _as_nodes(outputs, wanted)
    weights = _matching(cotangent, shape, "cotangent")
    given = [reverse.weights_of(output, weight, "cotangent") for output, weight in zip(outputs, weights, strict=True)]
    found = reverse.pull_back(outputs, given, wanted)
    gradients = [zeros_like(leaf) if g is None else g for leaf, g in zip(wanted, found, strict=True)]
    return tuple(unflatten(structure, gradients))


def _pushed(
    function: Callable[..., object], args: tuple[object, ...], tangents: tuple[object, ...]
) -> tuple[object, Any]:
    """The result of a function over nodes, and how it changes along the tangents."""
    moved, structure = _float_leaves(args, f"the arguments of {name_of(function)}")
    directions = _matching(tuple(tangents), structure, "tangent")
    value = function(*args)
    outputs, shape = _float_leaves(value, f"the result of {name_of(function)}")
    nodes = _as_nodes(outputs, moved)
    given = [reverse.weights_of(x, t, "tangent") for x, t in zip(moved, directions, strict=True)]
    changes = reverse.with_sizes(reverse.push_forward(nodes, moved, given), [*nodes, *moved])
    return value, unflatten(shape, changes)


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
    function: Callable[..., object], /, *args: Any, **static: Any
) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]: ...
def vjp(function: Any, *args: Any, **options: Any) -> Any:
    """The result of a function, and the function that pulls a cotangent of it back to its arguments.

    `value, pullback = vjp(f, *args)`; `pullback(cotangent)`, the cotangent in the structure of the value, is the tuple
    of `sum(f(*args) * cotangent)` differentiated by each argument. Of a node, `vjp(output, wrt, cotangent)` is the
    gradient of `sum(output * cotangent)` by one node of the graph or several, see `wyrm.grad`.

    Raises `ShapeError` for a cotangent of another shape, `NotDifferentiable` for arguments that are integers.

    >>> value, pullback = vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> value.tolist(), [gradient.tolist() for gradient in pullback(np.array([1.0, 10.0]))]
    ([3.0, 8.0], [[3.0, 40.0], [1.0, 20.0]])
    """
    if isinstance(function, Node):
        return reverse.vjp(function, *args, **options)
    plain = _plain(function)
    value = evaluated(plain, function)(*args, **options)

    @functools.wraps(plain)
    def pulled(arguments: tuple[object, ...], cotangent: object) -> tuple[Any, ...]:
        return _pulled(_given(plain, options), arguments, cotangent)

    pull = evaluated(pulled, function)
    return value, lambda cotangent: pull(args, cotangent)


@overload
def jvp(function: Tensor[*Axes], args: Node, tangents: reverse.Direction) -> Tensor[*Axes]: ...
@overload
def jvp(function: Tensor[*Axes], args: Sequence[Node], tangents: Sequence[reverse.Direction]) -> Tensor[*Axes]: ...
@overload
def jvp(function: Callable[..., object], args: Sequence[Tree], tangents: Sequence[Tree]) -> tuple[Any, Any]: ...
def jvp(function: Any, args: Any, tangents: Any) -> Any:
    """The result of a function, and how it changes as its arguments move along tangents: `(value, change)`.

    `args` and `tangents` are tuples of the same structure. It takes no reverse pass: the graph is the transpose of the
    reverse one by its cotangent, of which only what goes forward is left. Of a node, `jvp(output, wrt, tangent)` is the
    change of the output as the nodes of `wrt` move.

    Raises `ShapeError` for tangents of another structure or shape, `NotDifferentiable` for arguments that are integers.

    >>> value, change = jvp(lambda x: x * x, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    >>> change.tolist()
    [2.0, 40.0]
    """
    if isinstance(function, Node):
        return reverse.jvp(function, args, tangents)
    plain = _plain(function)
    pushed = evaluated(lambda arguments, along: _pushed(plain, arguments, along), function)
    return pushed(tuple(args), tuple(tangents))


def linearize(function: Callable[..., object], *args: Tree, **static: object) -> tuple[Any, Callable[..., Any]]:
    """The result of a function, and the linear function of tangents that is nearest to it there.

    >>> value, change = linearize(lambda x: x * x, np.array([1.0, 2.0]))
    >>> change(np.array([1.0, 0.0])).tolist(), change(np.array([0.0, 1.0])).tolist()
    ([2.0, 0.0], [0.0, 4.0])
    """
    plain = _given(_plain(function), static)
    value = evaluated(plain, function)(*args)
    pushed = evaluated(lambda arguments, along: _pushed(plain, arguments, along)[1], function)
    return value, lambda *tangents: pushed(args, tuple(tangents))


def hvp(function: Callable[..., object], args: tuple[Tree, ...], tangents: tuple[Tree, ...]) -> Any:
    """The Hessian of a scalar function times a vector, without the Hessian: how its gradient moves along tangents.

    `args` and `tangents` are tuples of the same structure, and so is the result.

    >>> hvp(lambda x: (x * x * x).sum(), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))[0].tolist()
    [6.0, 12.0]
    """
    plain = _plain(function)

    def gradients(*arguments: object) -> tuple[Any, ...]:
        return _pulled(plain, arguments, 1.0)

    pushed = evaluated(lambda arguments, along: _pushed(gradients, arguments, along)[1], function)
    return pushed(tuple(args), tuple(tangents))


def jacobian(function: Callable[..., object], wrt: Wrt = 0) -> Function:
    """The function that gives the Jacobian of the result by some arguments: arrays of (*result axes, *argument axes).

    `wrt` is a position or the name of an argument, or a tuple of those. For each array of the result there is one for
    each array of the argument, in the structure of the result, within it that of the argument or the tuple of them.
    Rows by products with cotangents, or columns by products with tangents, whichever are fewer, all at once.

    Raises, when it is called, `NotDifferentiable` for integers, `ValueError` for an argument that is not there.

    >>> jacobian(lambda x: x * x)(np.array([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    plain = _plain(function)

    @functools.wraps(plain)
    def whole(*args: object, **static: object) -> Any:
        chosen = [args[position] for position in positions_of(plain, wrt, len(args))]
        parts = [_float_leaves(argument, f"an argument of {name_of(plain)}") for argument in chosen]
        wanted = [leaf for leaves, _ in parts for leaf in leaves]
        outputs, shape = _float_leaves(plain(*args, **static), f"the result of {name_of(plain)}")

        def by_all(output: Node) -> Any:
            rest = iter(_jacobians(output, wanted))
            found = tuple(unflatten(structure, [next(rest) for _ in leaves]) for leaves, structure in parts)
            return found[0] if isinstance(wrt, int | str) else found

        return unflatten(shape, [by_all(output) for output in _as_nodes(outputs, wanted)])

    return evaluated(whole, function)


def _jacobians(output: Node, wanted: Sequence[Node]) -> list[Node]:
    """The Jacobians of a node by nodes, of the axes of both."""
    shapes = [(*output.shape, *x.shape) for x in wanted]
    if output.size > sum(x.size for x in wanted):
        return [_columns(output, x).reshape(shape) for x, shape in zip(wanted, shapes, strict=True)]
    given = placeholder_like(output, output.dims, "cotangent")
    found = reverse.pull_back([output], [given], wanted)
    gradients = [zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]
    return [g.reshape(shape) for g, shape in zip(batched(gradients, {given: _units(output)}), shapes, strict=True)]


def _columns(output: Node, x: Node) -> Any:
    """The Jacobian of a node by one that has fewer elements, with the axes of this one in one."""
    given = placeholder_like(x, x.dims, "tangent")
    (columns,) = batched(reverse.push_forward([output], [x], [given]), {given: _units(x)})
    return columns.transpose(*range(1, columns.ndim), 0)


def _units(node: Node) -> Constant:
    """The arrays like a node of zeros and a single one, along a new first axis."""
    return Constant(np.eye(node.size, dtype=node.dtype).reshape(node.size, *node.shape))


def hessian(function: Callable[..., object], wrt: Wrt = 0) -> Function:
    """The function that gives the second derivatives of a scalar by some arguments; see `jacobian`.

    >>> hessian(lambda x: (x * x * x).sum())(np.array([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    made = function if isinstance(function, Function) else Function(function)
    return jacobian(made.grad(wrt), wrt)
