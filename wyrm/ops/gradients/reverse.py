"""Gradients as graphs: `grad`, vector-Jacobian products and Jacobian-vector products."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias, overload

from typing_extensions import TypeVarTuple

from wyrm.errors import NotDifferentiable, ShapeError, UnusedParameter
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, axis_size, open_axes
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.leaves import as_constant, constant_beside
from wyrm.graph.node import Node, Tensor
from wyrm.graph.quotients import named_multiple
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Values
from wyrm.graph.weak_types import forms_among, is_weak
from wyrm.ops.gradients.accumulation import accumulated
from wyrm.ops.shaping.shape import WithSizes, zeros_like

First = TypeVarTuple("First")
Second = TypeVarTuple("Second")
Third = TypeVarTuple("Third")
# A cotangent or a tangent, in the shape of its node.
Direction: TypeAlias = "Node | Values"


def pull_back(
    outputs: Sequence[Node],
    cotangents: Sequence[Node],
    wrt: Sequence[Node],
    order: Sequence[BaseNode] | None = None,
) -> list[Node | None]:
    """Return the gradient of `sum(outputs * cotangents)` with respect to each node; None if no output depends on it.

    `order` is the topological order of the outputs, if it is known.
    """
    if order is None:
        order = topological_order(outputs)
    if any(is_weak(node.dtype) for node in wrt):
        wrt = _stand_ins(wrt, set(order))
    results = accumulated(outputs, cotangents, wrt, leaves=False, order=order)
    unreached = set(wrt).difference(order) if len(results) < len(set(wrt)) else set()
    return [results[node] if node in results else None if node in unreached else zeros_like(node) for node in wrt]


def _stand_ins(wrt: Sequence[Any], reached: Collection[BaseNode]) -> list[Any]:
    """Return the nodes of `wrt` as they stand in the graph, in which weak ones may have taken the type of others."""
    found = []
    for node in wrt:
        forms = forms_among(node, reached)
        if len(forms) > 1:
            raise NotDifferentiable(
                f"{describe(node)} has no type of its own and is used as {' and '.join(str(x.dtype) for x in forms)}: "
                f"choose its type with .astype to differentiate with respect to it"
            )
        found.append(forms[0] if forms else node)
    return found


def _bound(leaf: BaseNode) -> list[type[Dim]]:
    """Return the axes that get their size from a leaf's data, those too that an axis of it is a multiple of."""
    multiples = [found[0] for axis in leaf.dims if (found := named_multiple(axis)) is not None]
    named = [axis for axis in leaf.dims if isinstance(axis, Dim) and axis.size is None and not axis.derived]
    return [*map(type, named), *multiples]


def with_sizes(
    gradients: Sequence[Node],
    outputs: Sequence[BaseNode],
    order: Sequence[BaseNode] | None = None,
) -> list[Node]:
    """Return the gradients as graphs that bind all their axes, by leaves of the outputs.

    `order` is the outputs' order, if it is known.

    The gradient of `x.sum()` repeats a number along the axes of `x` and does not use `x` otherwise. If the size of such
    an axis comes from data, the gradient gets the leaf that binds it as one more parent.
    """
    binders: dict[type[Dim], BaseNode] = {}
    for leaf in topological_order(outputs) if order is None else order:
        for name in _bound(leaf) if leaf.is_leaf else ():
            binders.setdefault(name, leaf)
    if not binders:
        return list(gradients)
    flag = {name: 1 << i for i, name in enumerate(binders)}
    missing: dict[BaseNode, tuple[int, int]] = {}  # axes used and axes bound below each node
    for node in topological_order(gradients):
        used = bound = 0
        for name in open_axes(node.dims):
            used |= flag.get(name, 0)
        for name in _bound(node) if node.is_leaf else ():
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


def _check_output(output: object) -> None:
    if not isinstance(output, BaseNode):
        instead = "; for a Python function use wy.function(f).grad()" if callable(output) else ""
        raise TypeError(f"a gradient is taken of a node, not of {type(output).__name__}{instead}")
    if output.dtype.kind != "f":
        raise NotDifferentiable(f"{describe(output)} is {output.dtype}; only float32 and float64 have gradients")


def _check_wrt(wrt: Iterable[Node]) -> list[Node]:
    try:
        nodes = list(wrt)
    except TypeError:
        raise TypeError(f"a gradient is taken with respect to a node or several, not {type(wrt).__name__}") from None
    for node in nodes:
        if not isinstance(node, BaseNode):
            raise TypeError(f"a gradient is taken with respect to nodes of the graph, not {type(node).__name__}")
        if node.dtype.kind != "f":
            raise NotDifferentiable(
                f"{describe(node)} is {node.dtype}; only float32 and float64 nodes have gradients, because integers "
                f"and masks are discrete"
            )
    return nodes


def _gradients_by(
    output: Node, cotangent: Node, wrt: Node | Sequence[Node], allow_unused: bool
) -> Node | list[Node] | tuple[Node, ...]:
    nodes = _check_wrt([wrt] if isinstance(wrt, BaseNode) else wrt)
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
    if isinstance(wrt, BaseNode):
        return result[0]
    return tuple(result) if isinstance(wrt, tuple) else result


@overload
def grad(loss: Tensor[()], wrt: Tensor[*First], *, allow_unused: bool = False) -> Tensor[*First]: ...
@overload
def grad(
    loss: Tensor[()], wrt: tuple[Tensor[*First], Tensor[*Second]], *, allow_unused: bool = False
) -> tuple[Tensor[*First], Tensor[*Second]]: ...
@overload
def grad(
    loss: Tensor[()], wrt: tuple[Tensor[*First], Tensor[*Second], Tensor[*Third]], *, allow_unused: bool = False
) -> tuple[Tensor[*First], Tensor[*Second], Tensor[*Third]]: ...
@overload
def grad(  # type: ignore[overload-overlap]  # a tuple declared as a Sequence gives a tuple
    loss: Tensor[()], wrt: tuple[Node, ...], *, allow_unused: bool = False
) -> tuple[Node, ...]: ...
@overload
def grad(loss: Tensor[()], wrt: Sequence[Node] | None = None, *, allow_unused: bool = False) -> list[Node]: ...
def grad(
    loss: Node, wrt: Node | Sequence[Node] | None = None, *, allow_unused: bool = False
) -> Node | list[Node] | tuple[Node, ...]:
    """Return the gradient of a scalar with respect to one node or several (default: all parameters), in their shapes.

    The result for a node is a node, for a tuple a tuple, for any other sequence a list.

    The result is a graph like any other, of the nodes that `wrt` needs: print it, compile it, differentiate it again.

    Raise `ShapeError` for a loss that is not a scalar, `UnusedParameter` for a node that the loss does not depend on
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
    return _gradients_by(loss, as_constant(1.0, loss.dtype), loss.parameters() if wrt is None else wrt, allow_unused)


@overload
def value_and_grad(
    loss: Tensor[()], wrt: Tensor[*First], *, allow_unused: bool = False
) -> tuple[Tensor[()], Tensor[*First]]: ...
@overload
def value_and_grad(
    loss: Tensor[()], wrt: tuple[Tensor[*First], Tensor[*Second]], *, allow_unused: bool = False
) -> tuple[Tensor[()], tuple[Tensor[*First], Tensor[*Second]]]: ...
@overload
def value_and_grad(  # type: ignore[overload-overlap]  # a tuple declared as a Sequence gives a tuple
    loss: Tensor[()], wrt: tuple[Node, ...], *, allow_unused: bool = False
) -> tuple[Tensor[()], tuple[Node, ...]]: ...
@overload
def value_and_grad(
    loss: Tensor[()], wrt: Sequence[Node] | None = None, *, allow_unused: bool = False
) -> tuple[Tensor[()], list[Node]]: ...
def value_and_grad(loss: Any, wrt: Any = None, *, allow_unused: bool = False) -> Any:
    """Return the loss and its gradient (see `grad`); run both together, so that they share common nodes.

    >>> x = wy.Parameter(3.0)
    >>> loss, gradient = value_and_grad(x * x, x)
    >>> [value.item() for value in wy.run([loss, gradient])]
    [9.0, 6.0]
    """
    return loss, grad(loss, wrt, allow_unused=allow_unused)


def weights_of(output: Node, given: object, what: str) -> Node:
    if isinstance(given, Node):
        node = given
    else:
        array = as_array(given, what)
        fits = len(output.dims) == array.ndim and all(
            axis_size(axis) in (None, size) for axis, size in zip(output.dims, array.shape, strict=True)
        )
        if fits:
            return constant_beside(array, output.dtype, output.dims)
        node = as_constant(array, output.dtype)
    if [axis_size(a) for a in node.dims] != [axis_size(a) for a in output.dims]:
        raise ShapeError(f"the {what} must have the shape of {describe(output)}, not {format_dims(node.dims)}")
    return node


@overload
def vjp(output: Node, wrt: Tensor[*First], cotangent: Direction, *, allow_unused: bool = False) -> Tensor[*First]: ...
@overload
def vjp(  # type: ignore[overload-overlap]  # a tuple declared as a Sequence gives a tuple
    output: Node, wrt: tuple[Node, ...], cotangent: Direction, *, allow_unused: bool = False
) -> tuple[Node, ...]: ...
@overload
def vjp(output: Node, wrt: Sequence[Node], cotangent: Direction, *, allow_unused: bool = False) -> list[Node]: ...
def vjp(
    output: Node, wrt: Node | Sequence[Node], cotangent: Direction, *, allow_unused: bool = False
) -> Node | list[Node] | tuple[Node, ...]:
    """Return the vector-Jacobian product: the gradient of `sum(output * cotangent)` with respect to `wrt`.

    `cotangent` is a node, an array or a number, in the shape of `output`.

    >>> x = wy.Parameter([1.0, 2.0])
    >>> vjp(x * x, x, np.array([1.0, 10.0])).forward().tolist()
    [2.0, 40.0]
    """
    _check_output(output)
    return _gradients_by(output, weights_of(output, cotangent, "cotangent"), wrt, allow_unused)


@overload
def jvp(output: Tensor[*First], wrt: Node, tangent: Direction) -> Tensor[*First]: ...
@overload
def jvp(output: Tensor[*First], wrt: Sequence[Node], tangent: Sequence[Direction]) -> Tensor[*First]: ...
def jvp(output: Tensor[*First], wrt: Any, tangent: Any) -> Tensor[*First]:
    """Return the Jacobian-vector product: the directional derivative of `output` along `tangent`, a change of `wrt`.

    A vector-Jacobian product is linear in its cotangent; its gradient with respect to the cotangent is this product.
    `tangent` matches `wrt`: one for a node, a sequence for several.

    >>> x = wy.Parameter([1.0, 2.0])
    >>> jvp(x * x, x, np.array([1.0, 10.0])).forward().tolist()
    [2.0, 40.0]
    """
    _check_output(output)
    nodes: list[Any] = [wrt] if isinstance(wrt, BaseNode) else list(wrt)
    tangents = [tangent] if isinstance(wrt, BaseNode) else list(tangent)
    if len(nodes) != len(tangents):
        raise ShapeError(f"jvp: {len(tangents)} tangents for {len(nodes)} nodes")
    directions = [weights_of(node, t, "tangent") for node, t in zip(_check_wrt(nodes), tangents, strict=True)]
    order = topological_order([output])
    reached = set(order)
    unused = [node for node in nodes if not forms_among(node, reached)]
    if unused:
        raise UnusedParameter(f"{describe(output)} does not depend on {', '.join(map(describe, unused))}; leave it out")
    return with_sizes(push_forward([output], nodes, directions), [output], order)[0]


def push_forward(outputs: Sequence[Node], wrt: Sequence[Node], directions: Sequence[Node]) -> list[Node]:
    """Return the directional derivatives of the outputs along changes of the nodes of `wrt`; see `jvp`."""
    # The products are linear in these, so their gradients do not depend on these values: zeros will do.
    cotangents = [zeros_like(x) for x in outputs]
    gradients = pull_back(outputs, cotangents, wrt)
    pairs = [(g, d) for g, d in zip(gradients, directions, strict=True) if g is not None]
    results = pull_back([g for g, _ in pairs], [d for _, d in pairs], cotangents)
    return [zeros_like(x) if change is None else change for x, change in zip(outputs, results, strict=True)]
