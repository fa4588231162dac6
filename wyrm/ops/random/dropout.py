"""Dropout. The backward pass draws the same mask again, so the forward pass stores none.

Philox gives each (seed, step, stream) a key of two 32-bit words. The random word of an element is a hash of the key and
the element's position in row-major order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, unify
from wyrm.graph.base import ZERO, Gradient, explain, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByFlatIndex, ByKernel, Decomposed, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, BoolArray, FloatArray, IntegerArray, Shaped
from wyrm.ops.elementwise.comparison import Where
from wyrm.ops.elementwise.elementwise import (
    Axes,
    L,
    Left_co,
    R,
    Right_co,
    S,
    common_dtype,
    constant_like,
    method,
    operand,
)
from wyrm.ops.random.draws_jax import DropoutForm, FlatIndexForm, RandomKeyForm
from wyrm.ops.random.dropout_mask import check_rate, drop_threshold, is_kept
from wyrm.ops.random.philox import STEP, WORD, Draws, philox_block, places_before, stream_or_next
from wyrm.support.foreign_names import explains_keywords


def _key_words(xp: ArrayNamespace, step: Array, seed: int, stream: int) -> Array:
    """Return the two words of a key."""
    words: Array = xp.stack(philox_block(0, int(step) % 2**64, seed & WORD, stream & WORD)[:2])
    return words


def _kept_elements(xp: ArrayNamespace, key: Array, rate: float, shape: tuple[int, ...]) -> BoolArray:
    """Return the mask of a shape: true where an element is kept."""
    array: Any = xp.asarray(is_kept(*positions_of(key, shape), drop_threshold(rate, 2**32)).reshape(shape))
    mask: BoolArray = array
    return mask


def random_key_kernel(step: IntegerArray, rows_before: IntegerArray, out: IntegerArray, seed: int, stream: int) -> None:
    """Fill `out` with the two words of a key, and its third element, if it has one, with the number of rows before."""
    first, second, _, _ = philox_block(0, step[0], seed, stream)
    out[0] = first
    out[1] = second
    if out.size == 3:
        out[2] = rows_before[0]


class RandomKey(Node[tuple[IndexNode, ...], Axes]):
    """Two random 32-bit words for each (seed, step, stream).

    A second parent becomes a third element: the number of rows of the batch before the first row to draw for, or that
    of their entries. Threads that divide a batch then draw what one thread draws.
    """

    __slots__ = ("seed", "stream")
    seed: int
    stream: int

    def __init__(self, step: IndexNode, seed: int, stream: int, *rows_before: IndexNode) -> None:
        self._construct((step, *rows_before), seed=seed, stream=stream)

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.uint32)

    def shape_rule(self) -> Dims:
        for parent in self.parents:
            if parent.dims:
                raise ShapeError(f"the step must be a scalar, not {label(parent)}")
        return (1 + len(self.parents),)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        step, *rows_before = operands
        words = _key_words(xp, step, self.seed, self.stream)
        return xp.concat([words, *(xp.reshape(xp.asarray(rows, dtype=words.dtype), (1,)) for rows in rows_before)])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return tuple(ZERO for _ in self.parents)


@LOOPS.register(RandomKey)
class _RandomKeyLoops(ByKernel):
    kernel = staticmethod(random_key_kernel)

    def kernel_arguments(self, node: RandomKey, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), operands[-1].reshape(-1), out, node.seed & WORD, node.stream & WORD


JAX.register(RandomKey)(RandomKeyForm)


def key_for_rows(key: RandomKey[Any], to: Dims) -> RandomKey[Any]:
    """Return the key for draws of the axes `to`, which also counts places if the data decides the first axis."""
    step, *counted = key.parents
    if counted or not to or axis_size(to[0]) is not None:
        return key
    return RandomKey(step, key.seed, key.stream, places_before(to[0]))


def check_key(key: Node) -> None:
    """Raise `ShapeError` unless a node is a key, with or without a number of rows."""
    if key.dims not in ((2,), (3,)) or key.dtype != np.uint32:
        raise ShapeError(f"the key must have two or three numbers, like a RandomKey, not {label(key)}")


def positions_of(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return the positions of all elements and the two words of the key, as arrays."""
    words = np.asarray(key)
    first = int(words[2]) * math.prod(shape[1:]) if words.size == 3 else 0
    return np.arange(first, first + math.prod(shape)).astype(np.uint32), words[:1], words[1:2]


class DropoutMask(Node[tuple[Node], Axes]):
    """A mask of the axes `to`, true where dropout at `rate` keeps an element; the parent is a `RandomKey`."""

    __slots__ = ("rate", "to")
    rate: float
    to: Dims

    def __init__(self, key: Node, rate: float, to: Dims) -> None:
        self._construct((key,), rate=rate, to=to)

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.bool_)

    def shape_rule(self) -> Dims:
        check_key(self.parents[0])
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return _kept_elements(xp, operands[0], self.rate, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


@LOOPS.register(DropoutMask)
class _DropoutMaskLoops(ByFlatIndex):
    by_flat_index = staticmethod(is_kept)
    counts_rows = True

    def flat_index_arguments(self, node: DropoutMask) -> tuple[int]:
        return (drop_threshold(node.rate, 2**32),)


JAX.register(DropoutMask)(FlatIndexForm)


class _Dropout(Draws, Node[Any, Axes], abstract=True):
    """Base class of the dropout ops; the first parent is the operand to drop from, the last one the step."""

    __slots__ = ("rate", "seed", "stream")
    rate: float
    seed: int
    stream: int

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents[:-1])
        if dtype.kind != "f":
            raise DTypeError("dropout scales numbers, not masks; convert the mask with mask.astype(np.float32)")
        return dtype

    def _dims_with_rate_checked(self) -> Dims:
        """Return the axes of the operand to drop from; raise `ShapeError` for a rate outside [0, 1)."""
        if not 0.0 <= self.rate < 1.0:
            raise ShapeError(f"rate must be in [0, 1), not {self.rate}")
        dims: Dims = self.parents[0].dims
        return dims

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        # All rows have the mask of this node; `drawn_by_rows` has a mask for each row.
        if mapped[-1]:
            return None
        x, one = operands[0], self.parents[0]
        factors = self.dropped(constant_like(1.0, one).broadcast_to(one.dims))
        return self.added(x * factors, operands)

    def added(self, dropped: Node, operands: Sequence[Node]) -> Node:
        """Return the value of the op for the operand after dropout."""
        return dropped

    def dropped(self, x: Node) -> Node:
        """Return dropout of `x` with the mask of this node."""
        return Dropout.construct((x, self.parents[-1]), self.attribute_values())

    def _dropped(self, xp: ArrayNamespace, x: FloatArray, step: IntegerArray, shape: tuple[int, ...]) -> FloatArray:
        mask = _kept_elements(xp, _key_words(xp, step, self.seed, self.stream), self.rate, shape)
        return xp.where(mask, x * x.dtype.type(1.0 / (1.0 - self.rate)), x.dtype.type(0.0))


class Dropout(_Dropout[Axes], Generic[Left_co, Axes]):
    """The operand with elements set to zero with probability `rate` and the rest divided by `1 - rate`.

    It is linear in its operand and its own transpose: the gradient draws the same mask again.
    """

    __slots__ = ()
    _own: Dropout[Any, Axes]
    parents: tuple[Left_co, IndexNode]

    def __init__(self, x: Shaped[Left_co, Axes], rate: float, seed: int, stream: int) -> None:
        self._construct((x, STEP), rate=float(rate), seed=seed, stream=stream)

    def shape_rule(self) -> Dims:
        return self._dims_with_rate_checked()

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, step = operands
        return self._dropped(xp, x, step, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.dropped(gradient), ZERO

    def drawn_by_rows(self, operands: Sequence[Node], mapped: Sequence[bool], axis: Axis) -> Node:
        x = operands[0] if mapped[0] else operands[0].broadcast_to((axis, *operands[0].dims))
        return self.rebuild((x, operands[1]))


@LOOPS.register(Dropout)
class _DropoutLoops(Decomposed):
    def decompose(self, node: _Dropout) -> Node:
        x, *_, step = node.parents
        key: RandomKey[Any] = RandomKey(step, node.seed, node.stream)
        mask: Node = DropoutMask(key_for_rows(key, x.dims), node.rate, x.dims)
        return Where(mask, x * (1.0 / (1.0 - node.rate)), constant_like(0.0, x))


class AddDropout(_Dropout[Axes], Generic[Left_co, Right_co, Axes]):
    """`residual + dropout(x)` in one pass over two operands of the same axes; the parents are `x` and the residual."""

    __slots__ = ()
    _own: AddDropout[Any, Any, Axes]
    parents: tuple[Right_co, Left_co, IndexNode]

    def __init__(self, x: Node, residual: Node, rate: float, seed: int, stream: int) -> None:
        self._construct((x, residual, STEP), rate=float(rate), seed=seed, stream=stream)

    def shape_rule(self) -> Dims:
        x, residual = self._dims_with_rate_checked(), self.parents[1].dims
        if len(x) != len(residual):
            raise ShapeError("both operands must have the same axes; add_dropout does not broadcast")
        return tuple(map(unify, residual, x))

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> FloatArray:
        x, residual, step = operands
        if x.shape != residual.shape:
            raise ShapeError(explain(self, f"the shapes {x.shape} and {residual.shape} differ in the data of this run"))
        total: FloatArray = residual + self._dropped(xp, x, step, shape)
        return total

    def added(self, dropped: Node, operands: Sequence[Node]) -> Node:
        return operands[1] + dropped

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return self.dropped(gradient), gradient, ZERO

    def drawn_by_rows(self, operands: Sequence[Node], mapped: Sequence[bool], axis: Axis) -> Node:
        x, residual = (
            operand if many else operand.broadcast_to((axis, *operand.dims))
            for operand, many in zip(operands[:2], mapped, strict=False)
        )
        return self.rebuild((x, residual, operands[2]))


@LOOPS.register(AddDropout)
class _AddDropoutLoops(_DropoutLoops):
    def decompose(self, node: _Dropout) -> Node:
        residual: Node = node.parents[1]
        return residual + super().decompose(node)


JAX.register(Dropout, AddDropout)(DropoutForm)


@method("dropout", function=False)
@explains_keywords
def dropout(x: Shaped[L, S], rate: float, seed: int = 0, stream: int | None = None) -> Dropout[L, S]:
    """Return `x` with elements set to zero with probability `rate` and the rest divided by `1 - rate`.

    Each `forward()` draws a new mask, a function of `seed`, `stream` and the step (see `wy.random.set_step`). The
    default is a stream that no other node has. Raise `ValueError` for a rate outside [0, 1).

    >>> wy.random.set_step(0)
    >>> sorted(set(wy.Constant(np.ones(100)).dropout(0.5).forward().tolist()))
    [0.0, 2.0]
    """
    check_rate("dropout", x, rate)
    return Dropout(x, rate, seed, stream_or_next(stream))


@method("add_dropout", function=False)
def add_dropout(
    x: Shaped[L, S], addition: Shaped[R, S] | Array, rate: float, seed: int = 0, stream: int | None = None
) -> AddDropout[L, R, S]:
    """Return `x + addition.dropout(rate, seed, stream)`, as at the end of a residual block, in one pass.

    Raise `ShapeError` unless both have the same axes, `ValueError` for a rate outside [0, 1).

    >>> wy.random.set_step(0)
    >>> ones = wy.Constant(np.ones(100))
    >>> sorted(set(ones.add_dropout(ones, 0.5).forward().tolist()))
    [1.0, 3.0]
    """
    check_rate("add_dropout", x, rate)
    residual: Any = x
    return AddDropout(operand(addition, residual), residual, rate, seed, stream_or_next(stream))
