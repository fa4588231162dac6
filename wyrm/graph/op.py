"""`Op`, what the author of an op defines; and `Stateful`, what the engine that runs nodes keeps in them.

Every op has axes and a dtype, a meaning, and a gradient: `shape_rule` and `dtype_rule`, a `formula` or `evaluate`, and
`vjp`. A family gives most of them: an elementwise op is a class of `Unary` or `Binary` with a formula. The other
members say more about some ops; each has a default that is right for an op that says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.axes import Dim, Dims
from wyrm.graph.typing import Array, BoolArray, DTypeLike, FloatArray, IntegerArray, Number
from wyrm.support.memory import with_collector_paused

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode, Gradient
    from wyrm.graph.index_operands import IndexOperand
    from wyrm.graph.node import Node

# The element type of an array, and of a function's result.
Element = TypeVar("Element", bound=np.generic)
# An axis, several, or all of them.
Axes = int | Sequence[int] | None


class ArrayNamespace(Protocol):
    """The functions that `evaluate` may call; a module such as `numpy` has them."""

    float64: type[np.float64]
    uint32: type[np.uint32]

    @property
    def inf(self) -> float: ...
    def abs(self, x: NDArray[Element], /) -> NDArray[Element]: ...
    def arange(self, stop: int, /, *, dtype: DTypeLike = ...) -> IntegerArray: ...
    def argmax(self, x: Array, /, *, axis: int | None = ...) -> IntegerArray: ...
    def argsort(self, x: Array, /, *, axis: int, stable: bool) -> IntegerArray: ...
    def asarray(self, x: Array | Number | Sequence[Number], /, *, dtype: DTypeLike = ...) -> FloatArray: ...
    def astype(self, x: Array, dtype: DTypeLike, /) -> FloatArray: ...
    def broadcast_to(self, x: NDArray[Element], /, shape: tuple[int, ...]) -> NDArray[Element]: ...
    def concat(self, arrays: Sequence[Array], /, *, axis: int = ...) -> FloatArray: ...
    def cumprod(self, x: Array, /, *, axis: int) -> FloatArray: ...
    def cumsum(self, x: Array, /, *, axis: int) -> FloatArray: ...
    def einsum(self, subscripts: str, /, *operands: Array) -> FloatArray: ...
    def exp(self, x: Array, /) -> FloatArray: ...
    def flip(self, x: NDArray[Element], /, axis: int) -> NDArray[Element]: ...
    def isfinite(self, x: Array, /) -> BoolArray: ...
    def log(self, x: Array, /) -> FloatArray: ...
    def matmul(self, x: Array, y: Array, /) -> FloatArray: ...
    def max(self, x: NDArray[Element], /, *, axis: Axes = ..., keepdims: bool = ...) -> NDArray[Element]: ...
    def mean(self, x: Array, /, *, axis: Axes = ..., keepdims: bool = ...) -> FloatArray: ...
    def min(self, x: NDArray[Element], /, *, axis: Axes = ..., keepdims: bool = ...) -> NDArray[Element]: ...
    def moveaxis(self, x: NDArray[Element], /, source: int, destination: int) -> NDArray[Element]: ...
    def ones(self, shape: tuple[int, ...], /, *, dtype: type[bool]) -> BoolArray: ...
    def ones_like(self, x: NDArray[Element], /) -> NDArray[Element]: ...
    def permute_dims(self, x: NDArray[Element], /, axes: tuple[int, ...]) -> NDArray[Element]: ...
    def prod(self, x: Array, /, *, axis: Axes = ..., keepdims: bool = ...) -> FloatArray: ...
    def reshape(self, x: NDArray[Element], /, shape: tuple[int, ...]) -> NDArray[Element]: ...
    def searchsorted(self, x: Array, values: Array, /, *, side: Literal["left", "right"]) -> IntegerArray: ...
    def sqrt(self, x: Array, /) -> FloatArray: ...
    def stack(self, arrays: Sequence[NDArray[Element]], /, axis: int = ...) -> NDArray[Element]: ...
    def sum(self, x: Array, /, *, axis: Axes = ..., keepdims: bool = ...) -> FloatArray: ...
    def take(self, x: NDArray[Element], /, indices: IntegerArray, *, axis: int) -> NDArray[Element]: ...
    def take_along_axis(self, x: NDArray[Element], /, indices: IntegerArray, *, axis: int) -> NDArray[Element]: ...
    def tanh(self, x: Array, /) -> FloatArray: ...
    def where(self, condition: Array, x: Array | Number | np.bool_, y: Array | Number | np.bool_, /) -> FloatArray: ...
    def zeros(self, shape: int | tuple[int, ...], /, dtype: DTypeLike = ...) -> FloatArray: ...
    def zeros_like(self, x: NDArray[Element], /) -> NDArray[Element]: ...


# NumPy as a namespace, for calls of `evaluate`: pyright compares a module with the protocol anew for every `np`.
NUMPY: ArrayNamespace = np


class Op:
    """The members of a class of nodes that its author overrides."""

    __slots__ = ()

    # --- every op -------------------------------------------------------------------------------------------------

    formula: ClassVar[str] = ""
    """The meaning as an expression of the operands; empty for an op that has `evaluate`."""
    method: ClassVar[str] = ""
    """The name of the method that constructs the op; empty without one."""
    operator: ClassVar[str] = ""
    """The name of Python's operator, such as `add`, that constructs the op; empty without one."""
    only_method: ClassVar[bool] = False
    """Whether the method is no function, as `x.silu()` is, of which there is no `wy.silu(x)`."""

    def __init_subclass__(cls, **keywords: bool) -> None:
        super().__init_subclass__(**keywords)
        if "vjp" in cls.__dict__ and "vjp_by" not in cls.__dict__:
            cls.vjp_by = Op.vjp_by  # type: ignore[method-assign]  # not that of a base class with another `vjp`

    def shape_rule(self) -> Dims:
        """Return the axes of the result from the parents and attributes; raise `ShapeError` with the reason."""
        raise NotImplementedError

    def dtype_rule(self) -> np.dtype:
        """Return the dtype of the result; raise `DTypeError` with the reason."""
        raise NotImplementedError

    # Type checkers let a subclass name the operands: `def evaluate(self, xp, x, *, shape)`.
    def evaluate(self, xp: ArrayNamespace, *operands: Any, **shape: Any) -> Any:
        """Compute the value with the functions of the array namespace `xp`; `shape` is the result's in this run."""
        raise NotImplementedError

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        """Return for each parent a node with its gradient, `ZERO`, or `Undefined(reason)`."""
        raise NotImplementedError

    # --- some ops -------------------------------------------------------------------------------------------------

    declaration: ClassVar[str] = ""
    """The declaration of the method for type checkers, with fields {method} and {op}; see `wyrm.declare`."""
    takes_rows: ClassVar[bool] = False
    """Whether the op's `evaluate` accepts row-sparse operands; other ops get dense arrays."""
    gives_rows: ClassVar[bool] = False
    """Whether the op's value is row-sparse."""
    holds_bits: ClassVar[bool] = False
    """Whether elements of the value are parts of numbers of other types: a NaN among them says nothing."""
    same_elements: ClassVar[bool] = False
    """Whether the result has all elements of the only operand in the same row-major order, under other axes."""
    adds_rows: ClassVar[bool] = False
    """Whether the value is a sum over an axis that all operands have and it lacks.

    The values for parts of the operands, divided along that axis, add up to it.
    """
    averages_rows: ClassVar[bool] = False
    """Whether the value is a mean over an axis that all operands have and it lacks: that of means of equal parts."""
    is_view: ClassVar[bool] = False
    """Whether the value may be a view into the memory of the first operand."""
    shape_only: ClassVar[bool] = False
    """Whether the value depends only on the operands' shapes."""
    residual_parents: ClassVar[frozenset[int]] = frozenset()
    """The positions of parents that are functions of other parents, whose gradient covers theirs."""

    def evaluate_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., Any]:
        """Return `evaluate` for a run that has bound `sizes`, of an op that needs more of them than the result's."""
        return self.evaluate

    def composition(self) -> Composition | None:
        """Return the graph of other ops that is the value; None for an op with a meaning of its own."""
        return None

    def counted_dims(self) -> Dims | None:
        """Return the axes whose elements an op that is `shape_only` counts; None if its value is another one."""
        return None

    def vjp_by(self, gradient: Node, wanted: Sequence[bool]) -> tuple[Gradient, ...]:
        """Return the result of `vjp`; entries for parents that are not `wanted` are ignored, so an op may skip them."""
        return self.vjp(gradient)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> BaseNode | None:
        """Return this op on a batch of operands: the `mapped` ones and the result have a new first axis.

        Return None if the op has no batched form for these operands; a loop then computes one row at a time.
        """
        return None

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        """Raise an error if sizes that come from data do not match: the parents' `shapes`, or the result's `shape`.

        Every engine calls it when it binds data, before anything is computed.
        """

    def check_sizes_for(self, sizes: Mapping[type[Dim], int]) -> Callable[..., None]:
        """Return `check_sizes` for a run that has bound `sizes`, of an op that needs more of them than the shapes'."""
        return self.check_sizes

    def index_operands(self) -> tuple[IndexOperand, ...]:
        """Return the operands whose integers index an axis; see `HasIndexOperands`."""
        return ()

    def weight_of_rows(self) -> Node | None:
        """Return the sum of the weights of its rows as a node, for an op that is a mean over rows with weights.

        A mean over all rows of a data set then follows from those over batches, as for labels that are ignored. It is 0
        where the sum is 0.
        """
        return None

    @classmethod
    def check_registration(cls) -> None:
        """Raise `RegistrationError` if the class cannot be an op; called before it is registered."""

    @classmethod
    def _bind_members(cls) -> None:
        """Make a class of this family a method or an operator of nodes; called when the class is defined."""


class HeldValue(Protocol):
    """The place of a value; the plans that compute it share it."""

    value: Any

    def plans(self) -> Any:
        """Return the live plans that compute the value."""
        ...


class Composition(Protocol):
    """A graph of other ops from `inputs`, leaves in place of an op's operands, to one output, the op's value.

    `checked`: whether the op checks all indices that the graph uses.
    """

    checked: bool
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def order(self) -> Sequence[BaseNode]:
        """The nodes in the order of computation."""
        ...


class Runner(Protocol):
    """What an engine makes for a node whose `forward` or `backward` is called.

    The NumPy engine registers its own (`NodeRunner`) with `runs_nodes`.
    """

    @property
    def rows(self) -> Any:
        """The last value of a node with a `Ragged` axis, as a `RaggedArray`; None without one."""
        ...

    def current_value(self) -> Any:
        """Return the value if no leaf has changed since the last run; None if the node must run."""
        ...

    def forward(self, node: Any, /) -> Any:
        """Compute the value, and return it (read-only)."""
        ...

    def backward(self, node: Any, start: Any, /) -> None:
        """Add the gradient of `(node * start).sum()` to each parameter's gradient."""
        ...

    def parameters(self) -> Sequence[Any] | None:
        """Return the parameters that the node depends on, if a backward pass has found them."""
        ...


class Stateful:
    """The slots of that state, the only mutable part of a node; only engines write them."""

    __slots__ = ("_cell", "_runner")
    _cell: HeldValue | None
    _runner: Runner | None


N = TypeVar("N", bound=Stateful)
R = TypeVar("R", bound="type[Runner]")
# The slots' own accessors, for speed: every new node sets its slots to None, and every call of `forward` reads one.
_cell, _runner = Stateful.__dict__["_cell"], Stateful.__dict__["_runner"]
# Get and set the cell that holds the node's value, once a plan computes it.
cell_of: Final[Callable[[Stateful], Any]] = _cell.__get__
set_cell: Final[Callable[[Stateful, Any], None]] = _cell.__set__
# Get and set the runner of the node, once it has run.
runner_of: Final[Callable[[Stateful], Any]] = _runner.__get__
set_runner: Final[Callable[[Stateful, Runner | None], None]] = _runner.__set__

_kinds: list[type[Runner]] = []


def runs_nodes(kind: R) -> R:
    """Make this class, called with a node, the one whose instances run nodes."""
    _kinds[:] = [kind]
    return kind


def new_runner(node: BaseNode) -> Any:
    """Give a node its runner."""
    (kind,) = _kinds
    runner = with_collector_paused(kind, node)
    set_runner(node, runner)
    return runner


def set_cells(nodes: Mapping[N, int], cells: Sequence[HeldValue | None]) -> bool:
    """Set the cells of nodes, given the nodes' positions; return whether one replaces the cell of a live plan.

    Nodes at a position without a cell keep theirs.
    """
    taken = False
    for node, position in nodes.items():
        cell = cells[position]
        held = node._cell
        if held is not cell and cell is not None:
            if held is not None and not taken:
                taken = bool(held.plans())
            set_cell(node, cell)
    return taken
