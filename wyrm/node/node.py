"""`Node`, the floating-point (or mask) value in a graph, and `IndexNode`, the integer one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.node.base import _BASES, BaseNode, P_co, S, describe
from wyrm.node.methods import IndexMethods, Methods
from wyrm.node.operators import Operators

if TYPE_CHECKING:
    from wyrm.ops.shape import Transpose
    from wyrm.types.typing import FloatArray, IntegerArray, Shaped

M = TypeVar("M")
N = TypeVar("N")
OwnL = TypeVar("OwnL", bound="Node[Any, Any]", covariant=True)
Bs = TypeVarTuple("Bs")


class Node(Operators, Methods, BaseNode[P_co, S], Generic[P_co, S], abstract=True):
    """A node of the graph: `Node[Parents, Shape]`. Building one checks shapes and dtypes and computes nothing.

    `Parents` is the tuple of the parents' classes, exact one generation deep; `Shape` the tuple of the axes. Operators
    and methods carry NumPy's names. `==` compares identity, so that nodes can be keys; the elementwise comparison
    is `equal`.
    """

    __slots__ = ()
    __array_ufunc__: None = None  # NumPy's operators leave `array + node` to the node
    dims: S

    def _own(self) -> Node[Any, S]:
        return self

    def erase(self) -> Node[Any, S]:
        """This node with its parents forgotten by the type checker and its shape kept."""
        return self

    if TYPE_CHECKING:  # bound by wyrm._bind to the rooms that stand right of this one

        @property
        def value(self) -> FloatArray:
            """The value that the last `forward()` cached (read-only); `NotSet` where there is none."""

        def forward(self) -> FloatArray:
            """Compute the value, only what changed since the last time, and return it (read-only)."""

        def backward(self: Node[Any, tuple[()]], weight: float = 1.0) -> None:
            """Add `weight` times the gradient of this scalar to each parameter's `gradient`.

            Runs `forward()` first where something changed. `ShapeError` for a node that is not a scalar.
            """

        def zero_gradient(self) -> None:
            """Set the gradients of all parameters of this node to zero."""

        @property
        def T(self: Shaped[OwnL, tuple[M, N]]) -> Transpose[OwnL, tuple[N, M]]:
            """The axes in reverse order."""

        @property
        def mT(self: Shaped[OwnL, tuple[*Bs, M, N]]) -> Transpose[OwnL, tuple[*Bs, N, M]]:
            """The last two axes exchanged."""

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{describe(self)} has no truth value while the graph is built: choose with wy.where(condition, a, b), "
            f"or read the computed number with bool(node.value)"
        )

    def __float__(self) -> float:
        return float(self.value)

    def __len__(self) -> int:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no length")
        return int(dims[0])


class IndexNode(IndexMethods, BaseNode[Any, S], Generic[S], abstract=True):
    """Integers that choose rows, labels or elements. Not a `Node`: it has no arithmetic and no gradient."""

    __slots__ = ()
    __array_ufunc__: None = None
    dims: S

    def dtype_rule(self) -> np.dtype[Any]:
        return np.dtype(np.int64)

    if TYPE_CHECKING:

        @property
        def value(self) -> IntegerArray:
            """The value that the last `forward()` cached (read-only); `NotSet` where there is none."""

        def forward(self) -> IntegerArray:
            """Compute the value, only what changed since the last time, and return it (read-only)."""

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{describe(self)} has no truth value while the graph is built: read what was computed, as in "
            f"node.value.any()"
        )

    def __len__(self) -> int:
        dims: Any = self.dims
        if not dims:
            raise TypeError(f"{describe(self)} is a scalar and has no length")
        return int(dims[0])


_BASES.update((Node, IndexNode, Operators, Methods, IndexMethods))

# Tensor[Batch, Hidden]: parents erased, shape kept; what users write in signatures.
Tensor = Node[Any, tuple[*Bs]]
# Index[Batch]: the same for integers.
IndexTensor = IndexNode[tuple[*Bs]]
