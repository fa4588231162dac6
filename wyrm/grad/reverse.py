"""Gradients as graphs: of a scalar, along a cotangent, along a tangent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from typing_extensions import TypeVar

from wyrm.errors import NotDifferentiable, ShapeError, UnusedParameter
from wyrm.node.base import BaseNode, describe, format_dims
from wyrm.node.leaves import Constant, as_constant
from wyrm.node.node import Node
from wyrm.node.traversal import topological_order
from wyrm.ops.accumulation import accumulated
from wyrm.ops.shape import WithSizes, zeros_like
from wyrm.types.arrays import as_array
from wyrm.types.dims import Dim, axis_size, open_axes

S = TypeVar("S")


def pull_back(
    outputs: Sequence[Node[Any, Any]],
    cotangents: Sequence[Node[Any, Any]],
    wrt: Sequence[Node[Any, Any]],
    order: Sequence[BaseNode[Any, Any]] | None = None,
) -> list[Node[Any, Any] | None]:
    """For each node of `wrt` the gradient of the outputs weighted by the cotangents; None where none depends on it.

    `order` is the topological order of the outputs, where it is known.
    """
    if order is None:
        order = topological_order(outputs)
    found = accumulated(outputs, cotangents, wrt, leaves=False, order=order)
    unreached = set(wrt).difference(order) if len(found) < len(set(wrt)) else set()
    return [found[node] if node in found else None if node in unreached else zeros_like(node) for node in wrt]


def _bound(node: BaseNode[Any, Any]) -> list[type[Dim]]:
    """The axes that the data of a leaf sizes; one made of others gets its size from those."""
    if not node.is_leaf:
        return []
    return [type(axis) for axis in node.dims if isinstance(axis, Dim) and axis.size is None and not axis.derived]


def with_sizes(
    gradients: Sequence[Node[Any, Any]],
    outputs: Sequence[Node[Any, Any]],
    order: Sequence[BaseNode[Any, Any]] | None = None,
) -> list[Node[Any, Any]]:
    """The gradients, each a graph that binds all of its axes; `order` is that of the outputs, where it is known.

    The gradient of `x.sum()` repeats a number along the axes of `x` and needs nothing else of it; where such an axis
    has its size from the data, the gradient is given the leaf that binds it.
    """
    binders: dict[type[Dim], BaseNode[Any, Any]] = {}
    for leaf in topological_order(outputs) if order is None else order:
        for name in _bound(leaf):
            binders.setdefault(name, leaf)
    if not binders:
        return list(gradients)
    flag = {name: 1 << i for i, name in enumerate(binders)}
    missing: dict[BaseNode[Any, Any], tuple[int, int]] = {}  # for each node the axes below it: to bind, and bound
    for node in topological_order(gradients):
        used = bound = 0
        for name in open_axes(node.dims):
            used |= flag.get(name, 0)
        for name in _bound(node):
            bound |= flag.get(name, 0)
        for parent in node.parents:
            used, bound = used | missing[parent][0], bound | missing[parent][1]
        missing[node] = used, bound
    result = []
    for gradient in gradients:
        used, bound = missing[gradient]
        leaves = {leaf: None for name, leaf in binders.items() if used & ~bound & flag[name]}
        result.append(WithSizes(gradient, leaves) if leaves else gradient)
    return result


def _check_output(output: Node[Any, Any]) -> None:
    if not isinstance(output, BaseNode):
        raise TypeError(f"a gradient is taken of a node, not of {type(output).__name__}")
    if output.dtype.kind != "f":
        raise NotDifferentiable(f"{describe(output)} is {output.dtype}; only float32 and float64 have gradients")


def _check_wrt(wrt: Iterable[Any]) -> list[Node[Any, Any]]:
    try:
        nodes = list(wrt)
    except TypeError:
        raise TypeError(f"a gradient is taken by a node or by several, not by {type(wrt).__name__}") from None
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise TypeError(f"a gradient is taken by nodes of the graph, not by {type(node).__name__}")
        if node.dtype.kind != "f":
            raise NotDifferentiable(
                f"{describe(node)} is {node.dtype}; only float32 and float64 nodes have gradients, integers and masks "
                f"are chosen by, not differentiated by"
            )
    return nodes


def _answer(
    output: Node[Any, Any], cotangent: Node[Any, Any], wrt: Any, allow_unused: bool
) -> Node[Any, Any] | list[Node[Any, Any]]:
    single = isinstance(wrt, BaseNode)
    nodes = _check_wrt([wrt] if single else wrt)
    order = topological_order([output])
    gradients = pull_back([output], [cotangent], nodes, order)
    unused = [node for node, gradient in zip(nodes, gradients, strict=True) if gradient is None]
    if unused and not allow_unused:
        raise UnusedParameter(
            f"{describe(output)} does not depend on {', '.join(map(describe, unused))}; leave it out of wrt, "
            f"or pass allow_unused=True for zeros"
        )
    result = [zeros_like(node) if g is None else g for node, g in zip(nodes, gradients, strict=True)]
    result = with_sizes(result, [output], order)
    return result[0] if single else result


@overload
def grad(loss: Node[Any, Any], wrt: Node[Any, S], *, allow_unused: bool = False) -> Node[Any, S]: ...
@overload
def grad(
    loss: Node[Any, Any], wrt: Sequence[Node[Any, Any]] | None = None, *, allow_unused: bool = False
) -> list[Node[Any, Any]]: ...
def grad(loss: Node[Any, Any], wrt: Any = None, *, allow_unused: bool = False) -> Any:
    """The gradient of a scalar by one node or by several, as new nodes of their shapes; by all parameters if None.

    The result is a graph like any other: print it, compile it, differentiate it again. Only what `wrt` needs is in it.

    Raises `ShapeError` for a loss that is no scalar, `UnusedParameter` for a node that the loss does not depend on
    (zeros with `allow_unused=True`), `NotDifferentiable` for integers, masks and ops without a gradient.

    >>> x = wy.Parameter(3.0)
    >>> grad(x * x, x).forward().item()
    6.0
    >>> grad(grad(x * x, x), x).forward().item()
    2.0
    """
    _check_output(loss)
    if len(loss.dims) != 0:
        raise ShapeError(
            f"grad takes a scalar, not {describe(loss)}: reduce it with .sum() or .mean(), or weight its elements "
            f"with wy.vjp(output, wrt, cotangent)"
        )
    return _answer(loss, as_constant(1.0, loss.dtype), loss.parameters() if wrt is None else wrt, allow_unused)


def value_and_grad(loss: Node[Any, Any], wrt: Any = None, *, allow_unused: bool = False) -> tuple[Node[Any, Any], Any]:
    """The loss and its gradient (see `grad`), to be run together so that they share all they have in common.

    >>> x = wy.Parameter(3.0)
    >>> loss, gradient = value_and_grad(x * x, x)
    >>> [value.item() for value in wy.run([loss, gradient])]
    [9.0, 6.0]
    """
    return loss, grad(loss, wrt, allow_unused=allow_unused)


def weights_of(output: Node[Any, Any], given: Any, what: str) -> Node[Any, Any]:
    if isinstance(given, Node):
        node = given
    else:
        array = as_array(given)
        fits = len(output.dims) == array.ndim and all(
            axis_size(axis) in (None, size) for axis, size in zip(output.dims, array.shape, strict=True)
        )
        if fits:
            return Constant(array, output.dims, dtype=output.dtype)
        node = as_constant(array, output.dtype)
    if [axis_size(a) for a in node.dims] != [axis_size(a) for a in output.dims]:
        raise ShapeError(f"the {what} has the shape of {describe(output)}, not {format_dims(node.dims)}")
    return node


def vjp(output: Node[Any, Any], wrt: Any, cotangent: Any, *, allow_unused: bool = False) -> Any:
    """The vector-Jacobian product: the gradient of `sum(output * cotangent)` by one node or several.

    `cotangent` has the shape of `output`: a node, an array or a number.

    >>> x = wy.Parameter([1.0, 2.0])
    >>> vjp(x * x, x, np.array([1.0, 10.0])).forward().tolist()
    [2.0, 40.0]
    """
    _check_output(output)
    return _answer(output, weights_of(output, cotangent, "cotangent"), wrt, allow_unused)


def jvp(output: Node[Any, Any], wrt: Any, tangent: Any) -> Node[Any, Any]:
    """The Jacobian-vector product: how `output` changes as the nodes of `wrt` move along `tangent`.

    The transpose of the transpose: a vector-Jacobian product is linear in its cotangent, and its own gradient by that
    is the product wanted. `tangent` matches `wrt`: one for a node, a sequence for several.

    >>> x = wy.Parameter([1.0, 2.0])
    >>> jvp(x * x, x, np.array([1.0, 10.0])).forward().tolist()
    [2.0, 40.0]
    """
    _check_output(output)
    nodes: list[Any] = [wrt] if isinstance(wrt, BaseNode) else list(wrt)
    tangents = [tangent] if isinstance(wrt, BaseNode) else list(tangent)
    if len(nodes) != len(tangents):
        raise ShapeError(f"{len(tangents)} tangents for {len(nodes)} nodes")
    directions = [weights_of(node, t, "tangent") for node, t in zip(_check_wrt(nodes), tangents, strict=True)]
    order = topological_order([output])
    reached = set(order)
    unused = [node for node in nodes if node not in reached]
    if unused:
        raise UnusedParameter(f"{describe(output)} does not depend on {', '.join(map(describe, unused))}; leave it out")
    return with_sizes(push_forward([output], nodes, directions), [output], order)[0]


def push_forward(
    outputs: Sequence[Node[Any, Any]], wrt: Sequence[Node[Any, Any]], directions: Sequence[Node[Any, Any]]
) -> list[Node[Any, Any]]:
    """How the outputs change as the nodes of `wrt` move along the directions; see `jvp`."""
    # What follows is linear in these, and its gradient by them depends on no number of theirs: zeros will do.
    cotangents = [zeros_like(x) for x in outputs]
    pulled = pull_back(outputs, cotangents, wrt)
    products = [(g * d).sum() for g, d in zip(pulled, directions, strict=True) if g is not None]
    found = pull_back(products, [as_constant(1.0, product.dtype) for product in products], cotangents)
    return [zeros_like(x) if change is None else change for x, change in zip(outputs, found, strict=True)]
