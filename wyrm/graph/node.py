"""`Node`, the floating-point (or mask) value in a graph, and `IndexNode`, the integer one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, overload

import numpy as np

from wyrm.errors import MissingShape, NotDifferentiable
from wyrm.graph import methods, values
from wyrm.graph.base import _BASES, ZERO, BaseNode, Gradient, P_co, S, describe
from wyrm.graph.op import runner_of
from wyrm.graph.registration import OF_INTEGERS, takes_methods
from wyrm.graph.typing import Bs, FloatArray, IntegerArray
from wyrm.support.foreign_names import ForeignName, answers, explains_keywords
from wyrm.support.imports import Late

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wyrm.graph.typing import A, AtLeast1D, AtLeast2D, K, M, N, OfShape, Scalar, Shaped, Values
    from wyrm.ops.elementwise.elementwise import L
    from wyrm.ops.indexing.index_update import Updates
    from wyrm.ops.indexing.slicing import Slice
    from wyrm.ops.shaping.transpose import IndexTranspose, Transpose


class Reversed(Generic[S]):
    """`node.T`, a property with overloads, of a node of shape `S`: the axes in reverse order."""

    @overload
    def __get__(self: Reversed[AtLeast1D], node: Shaped[L, Any], owner: object) -> Transpose[L]: ...
    @overload
    def __get__(self: Reversed[tuple[M, N]], node: Shaped[L, Any], owner: object) -> Transpose[L, tuple[N, M]]: ...
    @overload
    def __get__(
        self: Reversed[tuple[A, M, N]], node: Shaped[L, Any], owner: object
    ) -> Transpose[L, tuple[N, M, A]]: ...
    @overload
    def __get__(self: Reversed[tuple[N]], node: Shaped[L, Any], owner: object) -> Transpose[L, tuple[N]]: ...
    @overload
    def __get__(self: Reversed[tuple[()]], node: Shaped[L, Any], owner: object) -> Transpose[L, tuple[()]]: ...
    @overload
    def __get__(self: Reversed[tuple[A, K, M, N, *Bs]], node: Shaped[L, Any], owner: object) -> Transpose[L]: ...
    def __get__(self, node: Any, owner: object) -> Any:
        return self if node is None else node.transpose()


class MatrixTransposed(Generic[S]):
    """`node.mT`, as `Reversed`: the last two axes exchanged."""

    @overload
    def __get__(self: MatrixTransposed[AtLeast2D], node: Shaped[L, Any], owner: object) -> Transpose[L]: ...
    @overload
    def __get__(
        self: MatrixTransposed[tuple[*Bs, M, N]], node: Shaped[L, Any], owner: object
    ) -> Transpose[L, tuple[*Bs, N, M]]: ...
    def __get__(self, node: Any, owner: object) -> Any:
        if node is None:
            return self
        if node.ndim < 2:
            raise MissingShape(f"{describe(node)} has no mT: it takes two axes or more")
        return node.matrix_transpose()


class IntegersReversed(Generic[S]):
    """`node.T`, as `Reversed`, of an integer node."""

    @overload
    def __get__(self: IntegersReversed[AtLeast1D], node: IndexNode, owner: object) -> IndexTranspose: ...
    @overload
    def __get__(self: IntegersReversed[tuple[M, N]], node: IndexNode, owner: object) -> IndexTranspose[tuple[N, M]]: ...
    @overload
    def __get__(self: IntegersReversed[tuple[N]], node: IndexNode, owner: object) -> IndexTranspose[tuple[N]]: ...
    @overload
    def __get__(self: IntegersReversed[S], node: IndexNode, owner: object) -> IndexTranspose: ...
    def __get__(self, node: Any, owner: object) -> Any:
        return self if node is None else node.transpose()


class Node(methods.Node, values.Node[FloatArray], BaseNode[P_co, S], abstract=True):
    """A node of the graph: `Node[Parents, Shape]`. Building one checks shapes and dtypes and computes nothing.

    `Parents` is the tuple of the parents' classes, exact one generation deep; `Shape` the tuple of the axes. Operators
    and methods have NumPy's names. `==` compares elements, as in NumPy, and returns a mask. Dicts and sets tell nodes
    apart by identity; `is` says whether two names are the same node.
    """

    __slots__ = ()
    dims: S
    """The axes: a number or a `Dim` each, whose class is the axis's name. See `shape` for the sizes."""
    # For type checkers: the class of this node as that of a parent. An op that has type parameters for its parents
    # declares it with `Any` for them, so that types do not grow with the depth of the graph.
    _own: Self
    if TYPE_CHECKING:  # NumPy's operators leave `array + node` to the node
        __array_ufunc__: None = None
    else:
        __array_ufunc__ = Late("wyrm.functions.numpy_protocol", "ufunc")
        __array_function__ = Late("wyrm.functions.numpy_protocol", "array_function")
        at = Late("wyrm.ops.indexing.index_update", "at")

    def erase(self) -> Node[Any, S]:
        """Return this node; type checkers forget its parents and keep its shape."""
        return self

    T: Reversed[S] = Reversed()
    """The node with its axes in reverse order."""
    mT: MatrixTransposed[S] = MatrixTransposed()
    """The node with its last two axes exchanged."""

    if TYPE_CHECKING:

        @property
        def at(self) -> Updates[S]:
            """The elements at a key, `x.at[key]`, whose `set` and `add` return an updated copy; see `Updates`."""
            return Updates(self)

        @overload
        def __iter__(self: Shaped[L, AtLeast1D]) -> Iterator[Slice[L]]: ...
        @overload
        def __iter__(self: OfShape[L, tuple[N, *Bs]]) -> Iterator[Slice[L, tuple[*Bs]]]: ...
        def __iter__(self) -> Any:
            """Iterate over the rows; raise `ShapeError` if their number comes from data."""

    @overload
    def backward(self: Scalar, weight: float = 1.0, *, gradient: Values | None = None) -> None: ...
    @overload
    def backward(self, weight: float = 1.0, *, gradient: Values) -> None: ...
    @explains_keywords
    def backward(self, weight: float = 1.0, *, gradient: object = None) -> None:
        """Add `weight` times the gradient of this node to each parameter's `gradient`.

        For a node that is not a scalar, `gradient` holds a number for each element, in the node's shape: the gradient
        is that of `(node * gradient).sum()`. Runs `forward()` first if something changed.

        Raise `ShapeError` for a node that is not a scalar without `gradient`, and for a `gradient` of another shape;
        `ValueError` for a weight that is not finite.

        >>> x = wy.Parameter([1.0, 2.0])
        >>> (x * x).backward(gradient=np.array([1.0, 10.0]))
        >>> x.gradient.tolist()
        [2.0, 40.0]
        """
        loss: Any = self
        if loss.dtype.kind != "f":
            raise NotDifferentiable(f"{describe(loss)} is {loss.dtype}; only float32 and float64 have gradients")
        start = values.start_of_gradient(loss, weight, gradient)
        values.runner_for(loss).backward(loss, start)

    def zero_gradient(self) -> None:
        """Set the gradients of all parameters that this node depends on to zero."""
        runner = runner_of(self)
        found = None if runner is None else runner.parameters()
        for parameter in self.parameters() if found is None else found:
            parameter.clear_gradient()

    def __bool__(self) -> bool:  # `NoReturn` would make mypy skip what follows `if node:`
        same = "; test with `is` whether two names are the same node" if self.dtype.kind == "b" else ""
        raise TypeError(
            f"{describe(self)} has no truth value while the graph is built: select elements with "
            f"wy.where(condition, a, b), compute one of two branches with wy.cond(condition, true, false), "
            f"or read the computed number with bool(node.value){same}"
        )

    if not TYPE_CHECKING:  # hidden from type checkers, so that they reject it too

        def __index__(self) -> int:
            raise TypeError(
                f"{describe(self)} is not an integer while the graph is built: pass numbers known then by keyword; for "
                f"a loop whose end is computed use wy.while_loop"
            )

    def __float__(self) -> float:
        return float(self.value)

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else repr(self)

    def __len__(self) -> int:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no length")
        return int(dims[0])


class IndexNode(methods.IndexNode, values.Node[IntegerArray], BaseNode[Any, S], abstract=True):
    """Integers of 64 bits, such as rows, labels and counts, with NumPy's names. Not a `Node`: they have no gradient."""

    __slots__ = ()
    dims: S
    if TYPE_CHECKING:  # as for `Node`
        __array_ufunc__: None = None
    else:
        __array_ufunc__ = Late("wyrm.functions.numpy_protocol", "ufunc")
        __array_function__ = Late("wyrm.functions.numpy_protocol", "array_function")
    # The axes in reverse order.
    T: IntegersReversed[S] = IntegersReversed()

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.int64)

    def vjp(self, gradient: Any) -> tuple[Gradient, ...]:
        """Return `ZERO` for every parent: integers do not depend smoothly on anything."""
        return (ZERO,) * len(self.parents)

    def __bool__(self) -> bool:  # as for `Node`
        raise TypeError(
            f"{describe(self)} has no truth value while the graph is built: read the computed value, as in "
            f"node.value.any()"
        )

    def __len__(self) -> int:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no length")
        return int(dims[0])


_BASES.update((Node, IndexNode, methods.Node, methods.IndexNode, values.Node))
for _name in answers("nodes"):  # the answers for `Node` name methods that index nodes lack
    if next(base for base in IndexNode.__mro__ if _name in vars(base)) is BaseNode:
        # On the base class, because tools evaluate annotations such as `int` among the names of the class itself.
        setattr(methods.IndexNode, _name, ForeignName(_name, OF_INTEGERS, "IndexNode"))
takes_methods(Node, IndexNode)

Tensor = Node[Any, tuple[*Bs]]
"""`Tensor[Batch, Hidden]`, for signatures: the parents are erased, the shape is kept."""
IndexTensor = IndexNode[tuple[*Bs]]
"""`IndexTensor[Batch]`: as `Tensor`, of integers."""
