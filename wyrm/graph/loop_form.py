"""`LoopForm`: the description of an op for a backend that generates loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from wyrm.errors import RegistrationError
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.rules import Rules
from wyrm.graph.typing import Array

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode
    from wyrm.ops.control.steps import Steps

# An argument of a kernel.
KernelArgument: TypeAlias = "Array | float | np.generic | tuple[KernelArgument, ...]"


class ScatterTarget(NamedTuple):
    """The index at which an element is written, and whether it is added to the element there."""

    position: IndexMap
    adds: bool = False


class Reducer(NamedTuple):
    """A reduction: `total` begins at `start`, `step` accumulates an element, and `finish` computes the result.

    `step` and `finish` are formulas over the operands (`x`, `y`), `total`, and `count`, the number of elements.
    """

    start: float
    step: str
    finish: str = ""


class LoopForm:
    """The description of an op for a backend that generates loops; it is registered for the op.

    An op with a `formula` needs none: the formula is its meaning in every engine. Another op defines its elements in
    one of these ways; the first that is defined is used:

    - `decompose`: a graph of simpler ops.
    - `by_flat_index`: a function of one element's flat index, which is computed wherever the element is read.
    - `reducer`: a reduction over `reduce_axes`.
    - `gather_index`: for each element of the result, its index in the first operand.
    - `scatter_index`: for each element of the operands, its index in the result.
    - `kernel`: a function that fills the result.

    An op that defines none of them is computed in Python, by its `evaluate`.

    A function that is compiled (`kernel`, `adding_kernel`, `by_flat_index`) is static, calls only NumPy, `math` and
    other such functions, and allocates nothing. Its arithmetic runs in the order in which it is written. For a sum of
    many terms, `total = accumulated(total, term)` of `wyrm.ops.kernels.sums` lets the compiler choose a faster order.

        @wy.LOOPS.register(Flip)
        class FlipLoops(wy.LoopForm):
            @staticmethod
            def kernel(x, out):
                for i in range(x.size):
                    out[i] = x[x.size - 1 - i]

            def kernel_arguments(self, node, operands, out):
                return operands[0].reshape(-1), out.reshape(-1)
    """

    # A reduction of the broadcast operands over `reduce_axes`.
    reducer: Reducer | None = None
    # Whether the result is filled with zeros before `scatter_index` writes elements.
    starts_from_zero: bool = True
    # Whether a view is row-major in memory wherever its operand is.
    preserves_layout: bool = False
    # Computes one element from its flat row-major index, the numbers in the only parent and the
    # `flat_index_arguments`. The element is computed wherever it is read, and never stored.
    by_flat_index: Callable[..., object] | None = None
    # Whether a third number in that parent is a number of rows before the first, which the flat index then counts.
    counts_rows: bool = False
    # A loop that fills the result, called with the result of `kernel_arguments`.
    kernel: Callable[..., None] | None = None
    # The same kernel, except that it adds to `out`: the sum of this node and another, in place.
    adding_kernel: Callable[..., None] | None = None
    # Whether the kernel takes operands of any strides; other kernels get row-major arrays.
    takes_views: bool = False

    def __init_subclass__(cls) -> None:
        for name in ("kernel", "adding_kernel", "by_flat_index"):
            if isinstance(cls.__dict__.get(name), FunctionType):
                raise RegistrationError(f"{name} of {cls.__name__} is compiled on its own: make it a @staticmethod")

    def decompose(self, node: Any) -> BaseNode | None:
        """Return the same value as a graph of simpler ops, which fuse with the nodes around them."""
        return None

    def gradient_of_rows(self, node: Any, indices: Any, table: Any) -> Any:
        """Return this value, perhaps in another form, as the gradient with respect to the rows `indices` of a table."""
        return node

    def part_of_residuals(self, node: Any) -> BaseNode | None:
        """Return this value as a part of the residuals that its gradient needs; used if those are computed anyway."""
        return None

    def reduce_axes(self, node: Any) -> tuple[int, ...]:
        """Return the axes of the broadcast operands that `reducer` reduces."""
        raise NotImplementedError

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap | None:
        """Return the index in the first parent of the result's element at `index`; None if no such map exists."""
        return None

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget | None:
        """Return where in the result a parent's element at `index` is written; None if that parent is not written."""
        return None

    def flat_index_arguments(self, node: Any) -> tuple[int | float | np.floating, ...]:
        """Return the arguments of `by_flat_index` after the flat index and the numbers in the parent.

        A NumPy number keeps its dtype, so that the function may select the precision by it.
        """
        return ()

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        """Return the arguments of every call of `kernel`: views of the operands and `out`, numbers, and scratch arrays.

        It is called once for each set of arrays that a program works on; `out` is in row-major order.
        """
        return (*operands, out)

    def draws_from(self, node: Any) -> int | None:
        """Return the size of the table whose rows the kernel draws at random; None if it draws none.

        The last kernel argument is then an array of two numbers: the stripe of the table to draw from, and the number
        of stripes. Threads that draw from different stripes rarely touch the same rows.
        """
        return None

    def steps(self, node: Any) -> Steps | None:
        """Return the steps of a loop whose packed residuals are the node's value; None for any other op."""
        return None


class SameIndex(LoopForm):
    """The loop form of an op whose elements have the same index in its first operand."""

    preserves_layout = True

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap:
        return index


_MEMBERS = [word for word in vars(LoopForm) if not word.startswith("_")]
LOOPS: Rules[LoopForm] = Rules("LOOPS", LoopForm(), {word: word for word in _MEMBERS})
