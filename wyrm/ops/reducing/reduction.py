"""Reductions over one, several or all axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, One, axis_size, normalize_axis
from wyrm.graph.base import ZERO, BaseNode, Gradient, explain
from wyrm.graph.loop_form import LOOPS, LoopForm, Reducer
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, AtLeast1D, Bs, FloatArray, IntegerArray, M, N, Shaped
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, bind_class, constant_like, method
from wyrm.ops.indexing.along_axis import OneAxis, ReducedAxisLoops, float_dtype
from wyrm.ops.kernels.sums import summed
from wyrm.ops.reducing.keywords import check_keepdims, refuse_keywords
from wyrm.support.foreign_names import answering
from wyrm.support.options import is_integer

AxisLike = int | Sequence[int] | None


def reduced_dims(dims: Dims, axis: tuple[int, ...], keepdims: bool) -> Dims:
    """Return the axes that remain after a reduction over `axis`."""
    if not keepdims:
        return tuple(d for i, d in enumerate(dims) if i not in axis)
    return tuple((1 if isinstance(d, int) else One()) if i in axis else d for i, d in enumerate(dims))


def all_axes(axis: AxisLike, ndim: int) -> tuple[int, ...]:
    """Return `axis` as sorted positions from 0; None means all. Raise `ShapeError` for a missing or repeated axis."""
    if axis is None:
        return tuple(range(ndim))
    positions = [normalize_axis(a, ndim) for a in ([axis] if is_integer(axis) else axis)]
    if len(set(positions)) != len(positions):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(positions))


def _mean(xp: ArrayNamespace, x: Array, axis: tuple[int, ...], keepdims: bool) -> FloatArray:
    count = math.prod(x.shape[a] for a in axis)
    return summed(xp, x, axis, keepdims) / x.dtype.type(count)


class Reduction(Node[tuple[Left_co], Axes], abstract=True):
    """An op that reduces the axes `axis`, stored as sorted positions from 0."""

    declaration = """
@overload
def {method}(self: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False{more}) -> {op}[L, tuple[()]]: ...
@overload
def {method}(self: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False{more}) -> {op}[L]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]{more}) -> {op}[L, tuple[*Bs, One]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[True]{more}) -> {op}[L, tuple[One, *Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[M, *Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[True]{more}) -> {op}[L, tuple[M, One, *Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, M, N]], axis: Literal[-2], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs, N]]: ...
@overload
def {method}(self: Shaped[L, tuple[M, N, *Bs]], axis: tuple[Literal[0], Literal[1]], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[*Bs, M, N]], axis: tuple[Literal[-2], Literal[-1]], keepdims: Literal[False] = False{more}) -> {op}[L, tuple[*Bs]]: ...
@overload
def {method}(self: Shaped[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False{more}) -> {op}[L]: ...
"""  # noqa: E501
    more_arguments: ClassVar[str] = ""

    __slots__ = ("axis", "keepdims")
    axis: tuple[int, ...]
    keepdims: bool
    # The result of reducing no elements; None if that is undefined.
    empty: float | None = None

    def __init_subclass__(cls, **keywords: bool) -> None:
        super().__init_subclass__(**keywords)
        if "method" in cls.__dict__:
            bind_class(cls, cls._of_masks)

    @classmethod
    def _of_masks(cls, x: Node) -> Callable[..., Any]:
        """Return the function that reduces a mask."""
        from wyrm.ops.reducing.counting import OF_MASKS

        return OF_MASKS.get(cls.op_name(), cls)

    def __init__(self, x: Node, axis: AxisLike = None, keepdims: bool = False, **attributes: Any) -> None:
        if attributes.keys() - self.attributes:
            refuse_keywords(f"node.{self.op_name()}", attributes.keys() - self.attributes, self.attributes)
        self._construct((x,), axis=axis, keepdims=check_keepdims(self.op_name(), keepdims), **attributes)

    def shape_rule(self) -> Dims:
        (x,) = self.parents
        object.__setattr__(self, "axis", all_axes(self.axis, len(x.dims)))
        if self.empty is None and any(axis_size(x.dims[a]) == 0 for a in self.axis):
            raise ShapeError("has no value over an axis of size 0")
        return reduced_dims(x.dims, self.axis, self.keepdims)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node:
        axes = tuple(axis + 1 for axis in self.axis)
        return self.rebuild(tuple(operands), self.attribute_values() | {"axis": axes})

    def dtype_rule(self) -> np.dtype:
        return float_dtype(self.parents[0])

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if self.empty is None and any(shapes[0][axis] == 0 for axis in self.axis):
            raise ShapeError(explain(self, "has no value over an axis of size 0, which the data of this run has"))

    def expand(self, reduced: Node) -> Node:
        """Return a node of this op's shape with the reduced axes restored at size 1."""
        return reduced if self.keepdims else reduced.expand_dims(self.axis)

    def spread(self, reduced: Node) -> Node:
        """Return a node of this op's shape broadcast to the operand's axes."""
        (x,) = self.parents
        return self.expand(reduced).broadcast_to(x.dims)

    def count(self, reduced: Node) -> Node:
        """Return the number of elements reduced to one, as a scalar with the dtype of `reduced`."""
        (x,) = self.parents
        sizes = [axis_size(x.dims[a]) for a in self.axis]
        if None in sizes:
            return Count(x, self.axis)
        return constant_like(float(math.prod(size for size in sizes if size is not None)), reduced)


class ReductionLoops(LoopForm):
    """A loop that reduces the axes of a `Reduction`."""

    def __init__(self, reducer: Reducer) -> None:
        self.reducer = reducer

    def reduce_axes(self, node: Reduction) -> tuple[int, ...]:
        return node.axis


class Count(Reduction[Left_co, Axes]):
    """The number of elements along `axis`, as a scalar that depends only on the operand's shape."""

    __slots__ = ()
    _own: Count[Any, Axes]
    empty = 0.0
    shape_only = True

    def shape_rule(self) -> Dims:
        super().shape_rule()
        return ()

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node:
        return super().batched(operands, mapped).broadcast_to((operands[0].dims[0],))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.asarray(math.prod(operands[0].shape[a] for a in self.axis), dtype=self.dtype)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


class Sum(Reduction[Left_co, Axes]):
    """Sum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    The sum of a mask is the number of its true elements, as integers. Raise `ShapeError` for an axis that the operand
    lacks.

    Engines add long axes in parts, in another order than NumPy, and compiled programs all but fewer than eight elements
    of axes with sizes. Such a sum is finite where that of the absolute values is in the range of the dtype; beyond it,
    a part may overflow, such as that of the numbers above 0 in `[3e38, -3e38, 3e38, -3e38, ...]`.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).sum(axis=-1).forward().tolist()
    [3.0, 7.0]
    """

    __slots__ = ()
    _own: Sum[Any, Axes]
    adds_rows = True
    method = "sum"
    # The sum of a mask is a number of elements.
    declaration = f"""
@overload
def {{method}}(self: ShapedMask[S], axis: None = None, keepdims: Literal[False] = False) -> CountTrue[tuple[()]]: ...
@overload
def {{method}}(self: ShapedMask[S], axis: AxisLike = None, keepdims: bool = False) -> CountTrue: ...
{Reduction.declaration}
"""
    empty = 0.0

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return summed(xp, operands[0], self.axis, self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (self.spread(gradient),)


LOOPS.register(Sum)(ReductionLoops(Reducer(0.0, "total + x")))


class Mean(Reduction[Left_co, Axes]):
    """Arithmetic mean over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    For elements near the largest number of the dtype, see `sum`. Raise `ShapeError` over an axis of size 0 or one that
    the operand lacks.

    >>> wy.Constant([1.0, 3.0]).mean().forward().item()
    2.0
    """

    __slots__ = ()
    _own: Mean[Any, Axes]
    method = "mean"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return _mean(xp, operands[0], self.axis, self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (self.spread(gradient / self.count(gradient)),)


LOOPS.register(Mean)(ReductionLoops(Reducer(0.0, "total + x", "total / count")))


class _Extreme(Reduction[Left_co, Axes], abstract=True):
    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        ties = x.equal(self.spread(self)).astype(self.dtype)
        share = gradient / Sum(ties, self.axis, self.keepdims)
        return (ties * self.spread(share),)


class Max(_Extreme[Left_co, Axes]):
    """Maximum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    Equal largest elements share the gradient equally. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1.0, 3.0]).max().forward().item()
    3.0
    """

    __slots__ = ()
    _own: Max[Any, Axes]
    method = "max"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.max(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(Max)(ReductionLoops(Reducer(-math.inf, "maximum(total, x)")))


class Min(_Extreme[Left_co, Axes]):
    """Minimum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    Equal smallest elements share the gradient equally. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1.0, 3.0]).min().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Min[Any, Axes]
    method = "min"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.min(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(Min)(ReductionLoops(Reducer(math.inf, "minimum(total, x)")))


class LogSumExp(Reduction[Left_co, Axes]):
    """`log(sum(exp(x)))` over `axis`, without overflow: an axis, several, or all by default.

    `keepdims=True` keeps them at size 1. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1e4, 1e4]).logsumexp().forward().item() > 1e4
    True
    """

    __slots__ = ()
    _own: LogSumExp[Any, Axes]
    method = "logsumexp"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        top = xp.max(x, axis=self.axis, keepdims=True)
        top = xp.where(xp.isfinite(top), top, 0.0)  # -inf - -inf would be NaN
        total = xp.log(summed(xp, xp.exp(x - top), self.axis, True)) + top
        return total.reshape(shape)

    def _powers(self) -> tuple[Node, Node, Node]:
        """Return the maximum, a constant to differentiation, then `exp(x - maximum)` and its sum, as nodes."""
        (x,) = self.parents
        largest: Node = Max(x, self.axis, keepdims=True)
        top = where(abs(largest) < math.inf, largest, 0.0).stop_gradient()
        powers = (x - top).exp()
        return top, powers, powers.sum(self.axis, keepdims=True)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # Not exp(x - self): where the maximum is large, `self = log(total) + top` has rounded log(total) away.
        _, powers, total = self._powers()
        return (powers / total * self.spread(gradient),)


@LOOPS.register(LogSumExp)
class _LogSumExpLoops(LoopForm):
    def decompose(self, node: LogSumExp[Node]) -> Node:
        top, _, total = node._powers()
        result = total.log() + top
        return result if node.keepdims else result.reshape(node.dims)


class Variance(Reduction[Left_co, Axes]):
    """Variance over `axis`: the sum of squared distances from the mean, divided by `n - ddof`.

    `axis` is an axis, several, or all by default; `keepdims=True` keeps them at size 1. Raise `ShapeError` unless
    `n > ddof`.

    >>> wy.Constant([1.0, 3.0]).var().forward().item()
    1.0
    """

    __slots__ = ("ddof",)
    _own: Variance[Any, Axes]
    method = "var"
    more_arguments = ", ddof: int = 0"
    ddof: int

    def __init__(
        self, x: Node, axis: AxisLike = None, keepdims: bool = False, ddof: int = 0, **attributes: Any
    ) -> None:
        super().__init__(x, axis, keepdims, ddof=ddof, **attributes)

    def shape_rule(self) -> Dims:
        result = super().shape_rule()
        sizes = [axis_size(self.parents[0].dims[a]) for a in self.axis]
        if None not in sizes:
            self._check_freedom(math.prod(size for size in sizes if size is not None))
        return result

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        super().check_sizes(shapes, shape)
        try:
            self._check_freedom(math.prod(shapes[0][axis] for axis in self.axis))
        except ShapeError as error:
            raise ShapeError(explain(self, str(error))) from None

    def _check_freedom(self, count: int) -> None:
        if count - self.ddof <= 0:
            raise ShapeError(f"divides by n - ddof, which must be above 0 but is {count} - {self.ddof}")

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        distance: FloatArray = x - _mean(xp, x, self.axis, True)
        count = math.prod(x.shape[axis] for axis in self.axis) - self.ddof
        variance: FloatArray = summed(xp, distance * distance, self.axis, self.keepdims) / self.dtype.type(count)
        return variance

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        distance = x - Mean(x, self.axis, keepdims=True)
        return (distance * self.spread(gradient * 2.0 / (self.count(gradient) - float(self.ddof))),)


@LOOPS.register(Variance)
class _VarianceLoops(LoopForm):
    def decompose(self, node: Variance[Node]) -> Node:
        (x,) = node.parents
        distance = x - Mean(x, node.axis, keepdims=True)
        total: Node = Sum(distance.square(), node.axis, node.keepdims)
        return total / (node.count(total) - float(node.ddof))


class Std(Variance[Left_co, Axes]):
    """Standard deviation over `axis`: the square root of the variance; `axis`, `keepdims` and `ddof` as in `var`.

    The gradient is not finite where all elements are equal.

    >>> wy.Constant([1.0, 3.0]).std().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Std[Any, Axes]
    method = "std"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.sqrt(super().evaluate(xp, *operands, shape=shape))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return super().vjp(gradient / (self.erase() * 2.0))


@LOOPS.register(Std)
class _StdLoops(LoopForm):
    def decompose(self, node: Std) -> Node:
        variance: Node = Variance(node.parents[0], node.axis, node.keepdims, node.ddof)
        return variance.sqrt()


class ReducedAxis(OneAxis[Any, Axes], IndexNode[Axes], abstract=True):
    """An op that reduces one axis to integers."""

    __slots__ = ("keepdims",)
    keepdims: bool
    # Whether the op has a value over an axis of size 0.
    of_none: ClassVar[bool] = False

    def __init__(self, x: BaseNode, axis: int, keepdims: bool = False) -> None:
        self._construct((x,), axis=axis, keepdims=keepdims)

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        if not self.of_none and axis_size(dims[self.axis]) == 0:
            raise ShapeError("has no value over an axis of size 0")
        return reduced_dims(dims, (self.axis,), self.keepdims)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        if not self.of_none and shapes[0][self.axis] == 0:
            raise ShapeError(explain(self, "has no value over an axis of size 0, which the data of this run has"))


class ArgMax(ReducedAxis[Axes]):
    """The index of the maximum along one axis, the first of equal ones; the result holds integers, without gradient."""

    __slots__ = ()
    method = "argmax"

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.parents[0].dims[self.axis]
        return axis

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.argmax(operands[0], axis=self.axis).reshape(shape)


@LOOPS.register(ArgMax)
class _ArgMaxLoops(ReducedAxisLoops):
    @staticmethod
    def kernel(x: FloatArray, out: IntegerArray) -> None:
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                best = 0
                for j in range(x.shape[1]):
                    if x[i, j, k] > x[i, best, k] or (x[i, j, k] != x[i, j, k] and x[i, best, k] == x[i, best, k]):
                        best = j
                out[i, k] = best


@overload
def argmax(x: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> ArgMax[tuple[()]]: ...
@overload
def argmax(x: Shaped[L, AtLeast1D], axis: int | None = None, keepdims: bool = False) -> IndexNode: ...
@overload
def argmax(x: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False) -> ArgMax[tuple[*Bs]]: ...
@overload
def argmax(x: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False) -> ArgMax[tuple[*Bs]]: ...
@overload
def argmax(
    x: Shaped[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[False] = False
) -> ArgMax[tuple[M, *Bs]]: ...
@overload
def argmax(x: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]) -> ArgMax[tuple[*Bs, One]]: ...
@overload
def argmax(x: Shaped[L, tuple[N, *Bs]], axis: int, keepdims: bool = False) -> ArgMax: ...
@overload
def argmax(x: Shaped[L, tuple[N, *Bs]], axis: None = None, *, keepdims: bool) -> IndexNode: ...
@method("argmax")
@answering
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> IndexNode:
    """Return the index of the maximum along `axis`, or among all elements in row-major order if it is None.

    Equal elements give the first index; NaN counts as the largest. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([[1.0, 3.0], [2.0, 3.0]]).argmax().forward().item()
    1
    >>> wy.Constant([[1.0, 3.0], [2.0, 3.0]]).argmax(axis=0).forward().tolist()
    [1, 0]
    """
    kept = check_keepdims("argmax", keepdims)
    if axis is not None:
        return ArgMax(x, axis, kept)
    position: IndexNode = ArgMax(x if x.ndim == 1 else x.reshape((-1,)), 0)
    return position.reshape(reduced_dims(x.dims, tuple(range(x.ndim)), True)) if kept else position
