"""Ops that draw random numbers, each a function of a key and the element's position in row-major order.

The key comes from `RandomKey`, a function of the seed, the step and the node's stream. Compiled loops compute a number
where they read it, in the backward pass as well, and store none. Compiled code and the reference engine draw the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims
from wyrm.graph.base import ZERO, BaseNode, Gradient, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByFlatIndex, ByKernel, Decomposed, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.integers import IndexAdd
from wyrm.ops.random import draws_jax
from wyrm.ops.random.dropout import RandomKey, check_key, key_for_rows, positions_of
from wyrm.ops.random.philox import STEP, Draws, philox_block
from wyrm.ops.random.philox_jax import LoopStepsForm, SumOfStepsForm
from wyrm.ops.random.standard_draws import exponential_at, gumbel_at, integer_at, laplace_at, normal_at, uniform_at

# Other ops use smaller counters.
_FIRST_COUNTER = 2**62


def loop_step(step: Any, position: Any) -> Any:
    """Return a number in [0, 2**62), a hash of the step and a position."""
    first, second, _, _ = philox_block(_FIRST_COUNTER + position, step, 0, 0)
    return np.int64((np.uint64(first) << np.uint64(30)) ^ np.uint64(second))


def loop_step_words(position: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """Return the two words of `loop_step`, of a step that is given as two words."""
    number = np.uint64(loop_step(np.uint64(low) | np.uint64(high) << np.uint64(32), np.int64(position)))
    return np.uint32(number & np.uint64(0xFFFFFFFF)), np.uint32(number >> np.uint64(32))


def loop_steps_kernel(step: IntegerArray, out: IntegerArray) -> None:
    """Fill `out` with `loop_step` of all positions."""
    for i in range(out.size):
        out[i] = loop_step(step[0], i)


class LoopSteps(Draws, IndexNode[Axes]):
    """The step that the first iteration of a loop draws for, or those of the rows of `vmap`.

    They are hashes of the step outside, far from it and from each other. Each further iteration adds 1.
    """

    __slots__ = ("to",)
    to: Dims

    def __init__(self, step: IndexNode, to: Dims = ()) -> None:
        self._construct((step,), to=to)

    def shape_rule(self) -> Dims:
        (step,) = self.parents
        if step.dims:
            raise ShapeError(f"the step must be a scalar, not {label(step)}")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        positions = np.arange(math.prod(shape), dtype=np.int64)
        return xp.asarray(loop_step(int(operands[0]) % 2**64, positions).reshape(shape))

    def drawn_by_rows(self, operands: Sequence[Any], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        return LoopSteps(operands[0], (axis, *self.to))


@LOOPS.register(LoopSteps)
class _LoopStepsLoops(ByKernel):
    kernel = staticmethod(loop_steps_kernel)

    def kernel_arguments(self, node: LoopSteps, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


JAX.register(LoopSteps)(LoopStepsForm(loop_step_words))
JAX.register(IndexAdd)(SumOfStepsForm)


def draws_now(node: BaseNode) -> bool:
    """Return whether a node draws for the current step, which it has as a parent."""
    return any(parent is STEP for parent in node.parents)


def draws_among(outputs: Sequence[BaseNode], built: Collection[BaseNode]) -> bool:
    """Return whether a node of `built` that the outputs depend on draws for the current step."""
    drawing = {node for node in built if draws_now(node)}
    return bool(drawing) and not drawing.isdisjoint(topological_order(outputs))


def drawn_for(outputs: Sequence[BaseNode], built: Collection[BaseNode], step: BaseNode) -> list[Any]:
    """Return the outputs with the nodes of `built` rebuilt to draw for `step`; other nodes draw as before."""
    own = set(built)
    replacements: dict[BaseNode, BaseNode] = {STEP: step}
    for node in topological_order(outputs):
        if node in own and not replacements.keys().isdisjoint(node.parents):
            # pyright says of `get` that it may be None.
            parents = tuple(replacements[x] if x in replacements else x for x in node.parents)  # noqa: SIM401
            with located_at(node.origin):
                replacements[node] = node.rebuild(parents)
    return [replacements.get(output, output) for output in outputs]


class KeyedDraws(Draws, abstract=True):
    """Base class of the ops whose elements are drawn from a key; `to` are the axes of the result."""

    __slots__ = ("to",)
    to: Dims

    def shape_rule(self) -> Dims:
        check_key(self.parents[0])
        return self.to

    def drawn_by_rows(self, operands: Sequence[Node], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        return self.rebuild(operands, to=(axis, *self.to))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


class KeyedLoops(Decomposed):
    """The part of their loop forms that counts the rows before, where threads divide a batch."""

    counts_rows = True

    def decompose(self, node: KeyedDraws) -> BaseNode | None:
        key: Any = node.parents[0]
        counting = key_for_rows(key, node.to) if isinstance(key, RandomKey) else key
        return None if counting is key else node.rebuild((counting, *node.parents[1:]))


class _StandardDraw(KeyedDraws, Node[tuple[Node], Axes], abstract=True):
    """Base class of the draws from a distribution without parameters; `float_dtype` is the dtype of the result."""

    __slots__ = ("float_dtype",)
    float_dtype: np.dtype

    def __init__(self, key: Node, to: Dims, float_dtype: np.dtype) -> None:
        self._construct((key,), to=to, float_dtype=float_dtype)

    def dtype_rule(self) -> np.dtype:
        return self.float_dtype

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        number: Any = LOOPS.of(self).by_flat_index
        return xp.asarray(number(*positions_of(operands[0], shape), self.dtype.type(0)).reshape(shape))


class StandardNormal(_StandardDraw[Axes]):
    """Draws of the normal distribution of mean 0 and variance 1."""

    __slots__ = ()


class StandardUniform(_StandardDraw[Axes]):
    """Draws of the uniform distribution over [0, 1)."""

    __slots__ = ()


class StandardExponential(_StandardDraw[Axes]):
    """Draws of the exponential distribution of mean 1."""

    __slots__ = ()


class StandardGumbel(_StandardDraw[Axes]):
    """Draws of the Gumbel distribution of location 0 and scale 1."""

    __slots__ = ()


class StandardLaplace(_StandardDraw[Axes]):
    """Draws of the Laplace distribution of location 0 and scale 1."""

    __slots__ = ()


class _StandardDrawLoops(KeyedLoops, ByFlatIndex):
    """The draws of a distribution, by the function of a position."""

    def __init__(self, number_at: Callable[..., object]) -> None:
        self.by_flat_index = number_at

    def flat_index_arguments(self, node: _StandardDraw) -> tuple[np.floating]:
        like: np.floating = node.dtype.type(0)
        return (like,)


for _op, _number_at in (
    (StandardNormal, normal_at),
    (StandardUniform, uniform_at),
    (StandardExponential, exponential_at),
    (StandardGumbel, gumbel_at),
    (StandardLaplace, laplace_at),
):
    LOOPS.register(_op)(_StandardDrawLoops(_number_at))
    JAX.register(_op)(draws_jax.FlatIndexForm)


class RandomInteger(KeyedDraws, IndexNode[Axes]):
    """Draws of integers in [low, low + count), all equally likely."""

    __slots__ = ("count", "low")
    low: int
    count: int

    def __init__(self, key: Node, to: Dims, low: int, count: int) -> None:
        self._construct((key,), to=to, low=low, count=count)

    @property
    def within(self) -> int | None:
        """The upper bound of the values; None if some are negative."""
        return self.low + self.count if self.low >= 0 else None

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        positions = positions_of(operands[0], shape)
        return xp.asarray(integer_at(*positions, self.low, self.count).reshape(shape))


@LOOPS.register(RandomInteger)
class _RandomIntegerLoops(KeyedLoops, ByFlatIndex):
    by_flat_index = staticmethod(integer_at)

    def flat_index_arguments(self, node: RandomInteger) -> tuple[int, int]:
        return node.low, node.count


JAX.register(RandomInteger)(draws_jax.RandomIntegerForm)


def shuffle(others: IntegerArray, out: IntegerArray) -> None:
    """Fill each row of `out` with the permutation that exchanges each position i, in order, with `others[row, i]`."""
    for row in range(out.shape[0]):
        for i in range(out.shape[1]):
            other = min(max(others[row, i], 0), i)
            out[row, i] = out[row, other]
            out[row, other] = i


def permutation_kernel(key: IntegerArray, out: IntegerArray, elements: int) -> None:
    """Fill each row of `out` with a permutation of its positions: the shuffle of Fisher and Yates.

    `elements` is the number of elements for each row that the key counts.
    """
    rows, count = out.shape
    first = np.int64(key[2]) * elements if key.size == 3 else 0
    for row in range(rows):
        for i in range(count):
            other = integer_at(first + row * count + i, key[0], key[1], 0, i + 1)
            out[row, i] = out[row, other]
            out[row, other] = i


class RandomPermutation(KeyedDraws, IndexNode[Axes]):
    """Random permutations of the positions of the last axis, one for each index of the other axes."""

    __slots__ = ()

    def __init__(self, key: Node, to: Dims) -> None:
        self._construct((key,), to=to)

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        return self.to[-1]

    def shape_rule(self) -> Dims:
        if not self.to:
            raise ShapeError("a permutation needs an axis")
        return super().shape_rule()

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        positions, first, second = positions_of(operands[0], shape)
        column = positions.reshape(shape) % max(shape[-1], 1)
        others = integer_at(positions, first, second, 0, column.reshape(-1) + np.uint64(1))
        result = np.zeros((math.prod(shape[:-1]), shape[-1]), np.int64)
        # Column by column, all rows at once.
        for i, other in enumerate(others.reshape(result.shape).T if result.size else ()):
            rows = np.arange(len(result))
            result[:, i] = result[rows, other]
            result[rows, other] = i
        return xp.asarray(result.reshape(shape))


@LOOPS.register(RandomPermutation)
class _RandomPermutationLoops(KeyedLoops, ByKernel):
    kernel = staticmethod(permutation_kernel)

    def kernel_arguments(
        self, node: RandomPermutation, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        count = out.shape[-1]
        return operands[0], out.reshape(out.size // count if count else 0, count), math.prod(out.shape[1:])


JAX.register(RandomPermutation)(draws_jax.RandomPermutationForm(integer_at, shuffle))


def key_for(seed: int, stream: int) -> RandomKey[Any]:
    """Return the key of a node that draws in each step."""
    return RandomKey(STEP, seed, stream)


__all__ = [
    "KeyedDraws",
    "KeyedLoops",
    "LoopSteps",
    "RandomInteger",
    "RandomPermutation",
    "StandardExponential",
    "StandardGumbel",
    "StandardLaplace",
    "StandardNormal",
    "StandardUniform",
    "drawn_for",
    "draws_among",
    "key_for",
]
