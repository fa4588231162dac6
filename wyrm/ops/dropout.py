"""Dropout: elements set to zero at random, drawn again by whoever needs the mask, in every engine and both passes.

A step has a key of two words from Philox for each stream; the word of an element is a hash of the key and its place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.foreign_names import answering
from wyrm.node.base import ZERO, Gradient, explain, label
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import IndexNode, Node
from wyrm.ops.comparison import Where
from wyrm.ops.dropout_mask import check_rate, drop_threshold, is_kept
from wyrm.ops.elementwise import Axes, L, Left_co, R, Right_co, S, common_dtype, constant_like, method, operand
from wyrm.ops.philox import STEP, WORD, philox_block, stream_or_next
from wyrm.types.dims import Dims, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array, BoolArray, FloatArray, IntegerArray, Shaped


def _key(xp: ArrayNamespace, step: Array, seed: int, stream: int) -> Array:
    """The two words of a key."""
    words: Array = xp.stack(philox_block(0, int(step) & WORD, seed & WORD, stream & WORD)[:2])
    return words


def _mask(xp: ArrayNamespace, key: Array, rate: float, shape: tuple[int, ...]) -> BoolArray:
    """Which elements of an array of this shape are kept."""
    places = xp.arange(math.prod(shape), dtype=xp.uint32)
    mask: BoolArray = is_kept(places, key[:1], key[1:], drop_threshold(rate, 2**32)).reshape(shape)
    return mask


def random_key_kernel(step: IntegerArray, out: IntegerArray, seed: int, stream: int) -> None:
    """Fill `out` with the two words of a key."""
    first, second, _, _ = philox_block(0, step[0], seed, stream)
    out[0] = first
    out[1] = second


class RandomKey(Node[tuple[IndexNode], Axes]):
    """Two 32-bit words for each (seed, step, stream), as unlike each other as random ones."""

    __slots__ = ("seed", "stream")
    seed: int
    stream: int

    def __init__(self, step: IndexNode, seed: int, stream: int) -> None:
        self._construct((step,), seed=seed, stream=stream)

    def _own(self) -> RandomKey[Axes]:
        return self

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.uint32)

    def shape_rule(self) -> Dims:
        (step,) = self.parents
        if step.dims:
            raise ShapeError(f"the number of a step is a scalar, not {label(step)}")
        return (2,)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return _key(xp, operands[0], self.seed, self.stream)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


@LOOPS.register(RandomKey)
class _RandomKeyLoops(LoopForm):
    kernel = staticmethod(random_key_kernel)

    def kernel_arguments(self, node: RandomKey, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out, node.seed & WORD, node.stream & WORD


class DropoutMask(Node[tuple[Node], Axes]):
    """A mask of the axes `to` that is true where an element of a dropout at `rate` is kept, from a `RandomKey`."""

    __slots__ = ("rate", "to")
    rate: float
    to: Dims

    def __init__(self, key: Node, rate: float, to: Dims) -> None:
        self._construct((key,), rate=rate, to=to)

    def _own(self) -> DropoutMask[Axes]:
        return self

    def dtype_rule(self) -> np.dtype:
        return np.dtype(np.bool_)

    def shape_rule(self) -> Dims:
        (key,) = self.parents
        if key.dims != (2,) or key.dtype != np.uint32:
            raise ShapeError(f"a key has two words, as RandomKey has, not {label(key)}")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return _mask(xp, operands[0], self.rate, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


@LOOPS.register(DropoutMask)
class _DropoutMaskLoops(LoopForm):
    by_flat_index = staticmethod(is_kept)

    def flat_index_arguments(self, node: DropoutMask) -> tuple[int]:
        return (drop_threshold(node.rate, 2**32),)


class _Dropout(Node[Any, Axes], abstract=True):
    """What dropout has in common with or without a sum: the operand first among the parents, the step last."""

    __slots__ = ("rate", "seed", "stream")
    rate: float
    seed: int
    stream: int

    def dtype_rule(self) -> np.dtype:
        dtype = common_dtype(self.parents[:-1])
        if dtype.kind != "f":
            raise DTypeError("a mask is not scaled; convert it with mask.astype(np.float32)")
        return dtype

    def _checked(self) -> Dims:
        """The axes of the operand that is dropped from."""
        if not 0.0 <= self.rate < 1.0:
            raise ShapeError(f"rate is at least 0 and below 1, not {self.rate}")
        dims: Dims = self.parents[0].dims
        return dims

    def _dropped(self, xp: ArrayNamespace, x: FloatArray, step: IntegerArray, shape: tuple[int, ...]) -> FloatArray:
        mask = _mask(xp, _key(xp, step, self.seed, self.stream), self.rate, shape)
        return xp.where(mask, x * x.dtype.type(1.0 / (1.0 - self.rate)), x.dtype.type(0.0))


class Dropout(_Dropout[Axes], Generic[Left_co, Axes]):
    """Elements set to zero with probability `rate`, the rest divided by `1 - rate`.

    Linear in its operand, and so its own transpose: the gradient draws the same mask again, nothing is stored.
    """

    __slots__ = ()
    parents: tuple[Left_co, IndexNode]

    def __init__(self, x: Shaped[Left_co, Axes], rate: float, seed: int, stream: int) -> None:
        self._construct((x, STEP), rate=float(rate), seed=seed, stream=stream)

    def _own(self) -> Dropout[Any, Axes]:
        return self

    def shape_rule(self) -> Dims:
        return self._checked()

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        x, step = operands
        return self._dropped(xp, x, step, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return Dropout(gradient, self.rate, self.seed, self.stream), ZERO


@LOOPS.register(Dropout)
class _DropoutLoops(LoopForm):
    def decompose(self, node: _Dropout) -> Node:
        x, *_, step = node.parents
        mask: Node = DropoutMask(RandomKey(step, node.seed, node.stream), node.rate, x.dims)
        return Where(mask, x * (1.0 / (1.0 - node.rate)), constant_like(0.0, x))


class AddDropout(_Dropout[Axes], Generic[Left_co, Right_co, Axes]):
    """`residual + dropout(x)` of two operands of the same axes, in one pass; the parents are `x` and the residual."""

    __slots__ = ()
    parents: tuple[Right_co, Left_co, IndexNode]

    def __init__(self, x: Node, residual: Node, rate: float, seed: int, stream: int) -> None:
        self._construct((x, residual, STEP), rate=float(rate), seed=seed, stream=stream)

    def _own(self) -> AddDropout[Any, Any, Axes]:
        return self

    def shape_rule(self) -> Dims:
        x, residual = self._checked(), self.parents[1].dims
        if len(x) != len(residual):
            raise ShapeError("what is added has the axes of what it is added to, for neither is repeated")
        return tuple(map(unify, residual, x))

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> FloatArray:
        x, residual, step = operands
        if x.shape != residual.shape:
            raise ShapeError(explain(self, f"{x.shape} is added to {residual.shape}, by the data of this run"))
        total: FloatArray = residual + self._dropped(xp, x, step, shape)
        return total

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return Dropout(gradient, self.rate, self.seed, self.stream), gradient, ZERO


@LOOPS.register(AddDropout)
class _AddDropoutLoops(_DropoutLoops):
    def decompose(self, node: _Dropout) -> Node:
        residual: Node = node.parents[1]
        return residual + super().decompose(node)


@method("dropout")
@answering
def dropout(x: Shaped[L, S], rate: float, seed: int = 0, stream: int | None = None) -> Dropout[L, S]:
    """Elements set to zero with probability `rate` (0 <= rate < 1), the rest divided by `1 - rate`.

    Each `forward()` draws a new mask, the same one for the same `seed`, step (see `wy.random.set_step`) and `stream`;
    every dropout of a graph has a stream of its own unless one is given. `ValueError` for a rate outside [0, 1).

    >>> wy.random.set_step(0)
    >>> sorted(set(wy.Constant(np.ones(100)).dropout(0.5).forward().tolist()))
    [0.0, 2.0]
    """
    check_rate("dropout", x, rate)
    return Dropout(x, rate, seed, stream_or_next(stream))


@method("add_dropout")
def add_dropout(
    x: Shaped[L, S], addition: Shaped[R, S] | Array, rate: float, seed: int = 0, stream: int | None = None
) -> AddDropout[L, R, S]:
    """This node plus `addition.dropout(rate, seed, stream)`, as at the end of a residual block, in one pass.

    Both have the same axes, or else a `ShapeError`. `ValueError` for a rate outside [0, 1).

    >>> wy.random.set_step(0)
    >>> ones = wy.Constant(np.ones(100))
    >>> sorted(set(ones.add_dropout(ones, 0.5).forward().tolist()))
    [1.0, 3.0]
    """
    check_rate("add_dropout", x, rate)
    beside: Any = x
    return AddDropout(operand(addition, beside), beside, rate, seed, stream_or_next(stream))
