"""What the native backend knows of an op: its loop form, in the words of which an engine generates loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from wyrm.errors import RegistrationError
from wyrm.node.index_maps import IndexMap
from wyrm.node.rules import Rules
from wyrm.types.typing import Array

if TYPE_CHECKING:
    from wyrm.node.base import BaseNode
    from wyrm.ops.steps import Steps

# What a kernel is called with.
KernelArgument: TypeAlias = "Array | float | np.generic | tuple[KernelArgument, ...]"


class ScatterTarget(NamedTuple):
    """Where an element goes, and whether it is added to what is there."""

    position: IndexMap
    adds: bool = False


class Reducer(NamedTuple):
    """A reduction: `total` starts from a number, `step` takes in an element, `finish` makes the result of it.

    The last two are formulas over the operands (`x`, `y`), `total`, and `count`, the number of elements taken in.
    """

    start: float
    step: str
    finish: str = ""


class LoopForm:
    """What an engine that generates loops knows of an op; it stands beside the op and is registered for it.

    An op with a `formula` needs none: the formula is its meaning in every engine. Another op defines its elements in
    one of these ways; the first that is defined is used:

    - `decompose`: simpler ops.
    - `reducer`: a reduction over `reduce_axes`.
    - `gather_index`: the index in the first operand of each element of the result.
    - `scatter_index`: the index in the result of each element of the operands.
    - `kernel`: a function that fills the result.

    An op that defines none of them is computed in Python, by its `evaluate`.

    A function that is compiled (`kernel`, `adding_kernel`, `by_flat_index`) is static, calls only NumPy, `math` and
    functions like itself, and allocates nothing. Its arithmetic is done in the order in which it is written; where it
    adds up many terms, `total = accumulated(total, term)` of `wyrm.ops.sums` lets the compiler choose the order, which
    is faster.

        @wy.LOOPS.register(Flip)
        class FlipLoops(wy.LoopForm):
            @staticmethod
            def kernel(x, out):
                for i in range(x.size):
                    out[i] = x[x.size - 1 - i]

            def kernel_arguments(self, node, operands, out):
                return operands[0].reshape(-1), out.reshape(-1)
    """

    # A reduction of the operands, broadcast, over the axes `reduce_axes`.
    reducer: Reducer | None = None
    # Whether the result starts from zeros before `scatter_index` puts elements in their places.
    starts_from_zero: bool = True
    # Whether, for a view, its elements lie in row-major order in memory where those of its operand do.
    preserves_layout: bool = False
    # One element by its place, counted in row-major order: a function of that, of the numbers in the only parent and of
    # the `flat_index_arguments`. It is computed wherever it is read, and never stored.
    by_flat_index: Callable[..., object] | None = None
    # A loop that fills the result. It is called with what `kernel_arguments` gives.
    kernel: Callable[..., None] | None = None
    # The same kernel, but adding to what `out` holds: what a sum of this node and another is computed with.
    adding_kernel: Callable[..., None] | None = None
    # Whether the kernel takes operands of any strides; others get arrays in row-major order.
    takes_views: bool = False

    def __init_subclass__(cls) -> None:
        for name in ("kernel", "adding_kernel", "by_flat_index"):
            if isinstance(cls.__dict__.get(name), FunctionType):
                raise RegistrationError(f"{name} of {cls.__name__} is compiled on its own: make it a @staticmethod")

    def decompose(self, node: Any) -> BaseNode | None:
        """The same value made of simpler ops, which are fused with what is around them."""
        return None

    def gradient_of_rows(self, node: Any, indices: Any, table: Any) -> Any:
        """This value, or another form of it, where it is the gradient by the rows of a table that `indices` choose."""
        return node

    def part_of_residuals(self, node: Any) -> BaseNode | None:
        """This value as a part of one that its gradient needs: used where that is computed anyhow."""
        return None

    def reduce_axes(self, node: Any) -> tuple[int, ...]:
        """The axes of the operands, broadcast, that `reducer` takes to one."""
        raise NotImplementedError

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap | None:
        """Where the first parent has the element that the result has at `index`; None where it is not so simple."""
        return None

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget | None:
        """Where in the result the element goes that a parent has at `index`; None for a parent that gives none."""
        return None

    def flat_index_arguments(self, node: Any) -> tuple[int | float, ...]:
        """What `by_flat_index` is called with after the place and the numbers in the parent."""
        return ()

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        """What `kernel` is called with, each time: views of the operands and of `out`, numbers, and scratch arrays.

        It is asked once for each set of arrays that a program works on; `out` is in row-major order.
        """
        return (*operands, out)

    def draws_from(self, node: Any) -> int | None:
        """The size of the table of which the kernel draws rows at random; None where it draws none.

        The last of its arguments is then an array of two numbers: the stripe of the table to draw from, and how many
        stripes there are. Threads that draw from other stripes rarely meet.
        """
        return None

    def steps(self, node: Any) -> Steps | None:
        """What a loop does of which the node's value is the tape; None for any other op."""
        return None


class SameIndex(LoopForm):
    """The loop form of an op whose elements are where its first operand has them."""

    preserves_layout = True

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap:
        return index


LOOPS: Rules[LoopForm] = Rules(
    "LOOPS",
    LoopForm(),
    {
        word: word
        for word in (
            "adding_kernel", "by_flat_index", "decompose", "flat_index_arguments", "gather_index", "gradient_of_rows",
            "kernel", "kernel_arguments", "part_of_residuals", "preserves_layout", "reduce_axes", "reducer",
            "scatter_index", "starts_from_zero", "takes_views",
        )
    },
)  # fmt: skip
