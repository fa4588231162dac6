"""`LoopForm`: the description of an op for an engine that generates loops.

There is a class for each way to define an op's elements: `Decomposed`, `ByFlatIndex`, `Reduced`, `Gathered`,
`Scattered` and `ByKernel`. Each says what a form of its kind must define and what it may define.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from wyrm.errors import RegistrationError
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.registration import Rules
from wyrm.graph.typing import Array

if TYPE_CHECKING:
    from wyrm.graph.axes import Axis
    from wyrm.graph.base import BaseNode
    from wyrm.ops.control.loop_body import Iteration

# An argument of a kernel.
KernelArgument: TypeAlias = "Array | float | np.generic | tuple[KernelArgument, ...]"


def is_njit(function: object) -> bool:
    """Return whether numba compiles a function: one decorated with `numba.njit`. This does not import numba."""
    return type(function).__module__.startswith("numba.") and hasattr(function, "py_func")


def python_function(function: Any) -> Any:
    """Return the Python function that numba compiles; any other function is returned as it is."""
    return function.py_func if is_njit(function) else function


class ScatterTarget(NamedTuple):
    """The index at which an element is written, and whether it is added to the element there."""

    position: IndexMap
    adds: bool = False


class Reducer(NamedTuple):
    """A reduction: `total` begins at `start`, `step` accumulates an element, and `finish` computes the result.

    `step` and `finish` are formulas over the operands (`x`, `y`), `total`, and `count`, the number of elements. With
    `ends`, what comes after a true element `x` changes nothing: a loop may end there.
    """

    start: float
    step: str
    finish: str = ""
    ends: bool = False


class _AnyForm:
    """What the compiler asks of every form, with the answers of a form that does not define it; see the kinds below."""

    reducer: Reducer | None = None
    starts_from_zero: bool = True
    preserves_layout: bool = False
    by_flat_index: Callable[..., object] | None = None
    kernel: Callable[..., None] | None = None
    adding_kernel: Callable[..., None] | None = None
    takes_views: bool = False

    def decompose(self, node: Any) -> BaseNode | None:
        return None

    def flat_index_arguments(self, node: Any) -> tuple[int | float | np.floating, ...]:
        return ()

    def reduce_axes(self, node: Any) -> tuple[int, ...]:
        raise NotImplementedError

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap | None:
        return None

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget | None:
        return None

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return (*operands, out)

    def draws_from(self, node: Any) -> Axis | None:
        return None

    def prepare_stripes(self, arguments: tuple[Any, ...], stripes: int) -> None:
        return None

    def same_indices(self, node: Any) -> Any:
        """Return the operand that indexes the same elements, though negative integers may count from the end; or None.

        An epoch then knows from a column which rows of a table it changes.
        """
        return None


class LoopForm(_AnyForm):
    """The description of an op for an engine that generates loops; it is registered for the op.

    An op with a `formula` needs none: the formula is its meaning in every engine. The form of another op derives from
    the class of the way in which it defines the elements, or from `LoopForm`, and defines the member of that way. An op
    may define several; the first of them is used:

    - `Decomposed`: `decompose`, a graph of simpler ops.
    - `ByFlatIndex`: `by_flat_index`, a function of one element's flat index, computed wherever the element is read.
    - `Reduced`: `reducer`, a reduction over `reduce_axes`.
    - `Gathered`: `gather_index`, for each element of the result, its index in the first operand.
    - `Scattered`: `scatter_index`, for each element of the operands, its index in the result.
    - `ByKernel`: `kernel`, a function that fills the result; `DrawsRows` if it draws rows of a table at random.

    An op that defines none of them is computed in Python, by its `evaluate`.

    A function that is compiled (`kernel`, `adding_kernel`, `by_flat_index`) is static, calls only NumPy, `math` and
    other such functions, and allocates nothing. What these refuse, a function decorated with `numba.njit` may do: it
    may be a kernel, and kernels may call it. If it raises an exception, the program raises it too.

    The arithmetic of kernels runs in the order in which it is written. For a sum of many terms,
    `total = accumulated(total, term)` of `wyrm.ops.kernels.sums` lets the compiler choose a faster order. Threads share
    the turns of a last loop over `shared_turns(count, work)` of that module.

        @wy.LOOPS.register(Flip)
        class FlipLoops(wy.LoopForm):
            @staticmethod
            def kernel(x, out):
                for i in range(x.size):
                    out[i] = x[x.size - 1 - i]

            def kernel_arguments(self, node, operands, out):
                return operands[0].reshape(-1), out.reshape(-1)
    """

    # Whether elements are drawn by their positions in the whole data, not in the batch. If the only parent, a key, has
    # a third number, it is the number of rows before the batch.
    counts_rows: bool = False

    def __init_subclass__(cls) -> None:
        for name in ("kernel", "adding_kernel", "by_flat_index"):
            function: Any = cls.__dict__.get(name)
            if isinstance(function, FunctionType):
                raise RegistrationError(f"{name} of {cls.__name__} is compiled on its own: make it a @staticmethod")
            if is_njit(function):  # a function of numba is a method too, unless it is static
                setattr(cls, name, staticmethod(function))

    def gradient_of_rows(self, node: Any, indices: Any, table: Any) -> Any:
        """Return this value, perhaps in another form, as the gradient with respect to the rows `indices` of a table."""
        return node

    def part_of_residuals(self, node: Any) -> BaseNode | None:
        """Return this value as a part of the residuals that its gradient needs; used if those are computed anyway."""
        return None

    def steps(self, node: Any) -> Iteration | None:
        """Return the steps of a loop whose packed residuals are the node's value; None for any other op."""
        return None


class Decomposed(LoopForm):
    """The form of an op that is a graph of simpler ops, which fuse with the nodes around them."""

    def decompose(self, node: Any) -> BaseNode | None:
        """Return the same value as a graph of simpler ops; None for a node that is compiled in another way."""
        raise NotImplementedError


class ByFlatIndex(LoopForm):
    """The form of an op whose elements are computed from their positions, wherever they are read, and never stored."""

    # Computes one element from its flat row-major index, the numbers in the only parent and the
    # `flat_index_arguments`. It is compiled, so it is static.
    by_flat_index: Callable[..., object] | None = None

    def flat_index_arguments(self, node: Any) -> tuple[int | float | np.floating, ...]:
        """Return the arguments of `by_flat_index` after the flat index and the numbers in the parent.

        A NumPy number keeps its dtype, so that the function may select the precision by it.
        """
        return ()


class Reduced(LoopForm):
    """The form of an op that is a reduction of its broadcast operands."""

    # What is reduced, and how.
    reducer: Reducer | None = None

    def reduce_axes(self, node: Any) -> tuple[int, ...]:
        """Return the axes of the broadcast operands that `reducer` reduces."""
        raise NotImplementedError


class Gathered(LoopForm):
    """The form of an op whose elements are elements of its first operand: readers read them there."""

    # Whether a view is row-major in memory wherever its operand is.
    preserves_layout: bool = False

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap | None:
        """Return the index in the first parent of the result's element at `index`; None if no such map exists."""
        raise NotImplementedError


class SameIndex(Gathered):
    """The form of an op whose elements have the same index in its first operand."""

    preserves_layout = True

    def gather_index(self, node: Any, index: IndexMap) -> IndexMap:
        return index


class Scattered(LoopForm):
    """The form of an op that writes elements of its operands, each at one index of the result, or adds them there."""

    # Whether the result is filled with zeros before elements are written.
    starts_from_zero: bool = True

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget | None:
        """Return where in the result a parent's element at `index` is written; None if that parent is not written."""
        raise NotImplementedError


class ByKernel(LoopForm):
    """The form of an op that a loop of its own computes, written in Python and compiled."""

    # Fills the result; called with the result of `kernel_arguments`. It is compiled, so it is static.
    kernel: Callable[..., None] | None = None
    # The same kernel, except that it adds to `out`: the sum of this node and another, in place.
    adding_kernel: Callable[..., None] | None = None
    # Whether the kernel takes operands of any strides; other kernels get row-major arrays.
    takes_views: bool = False

    def kernel_arguments(self, node: Any, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        """Return the arguments of every call of `kernel`: views of the operands and `out`, numbers, and scratch arrays.

        It is called once for each set of arrays that a program works on; `out` is in row-major order. The operands are
        read-only: a program refuses a kernel that writes to one, with `RegistrationError`.
        """
        return (*operands, out)


class DrawsRows(ByKernel):
    """The form of an op whose kernel draws rows of a table at random.

    The last kernel argument is an array that begins with two numbers: the stripe of the table to draw from, and the
    number of stripes. Threads that draw from different stripes rarely touch the same rows.
    """

    def draws_from(self, node: Any) -> Axis | None:
        """Return the axis of the table's rows, or their number."""
        raise NotImplementedError

    def prepare_stripes(self, arguments: tuple[Any, ...], stripes: int) -> None:
        """Prepare the kernel's arguments for draws from one of so many stripes, above 1."""


# What a form of each kind must define.
_OWED: dict[type[LoopForm], tuple[str, ...]] = {
    Decomposed: ("decompose",),
    ByFlatIndex: ("by_flat_index",),
    Reduced: ("reducer", "reduce_axes"),
    Gathered: ("gather_index",),
    Scattered: ("scatter_index",),
    DrawsRows: ("draws_from",),
    ByKernel: ("kernel",),
}


def _check_kind(form: LoopForm) -> None:
    """Raise `RegistrationError` if a form lacks what its kind must define."""
    for kind, words in _OWED.items():
        for word in words if isinstance(form, kind) else ():
            if vars(form).get(word, getattr(type(form), word)) is getattr(kind, word):
                name = type(form).__name__
                raise RegistrationError(f"{name} is a {kind.__name__} form, which must define {word}: add it to {name}")


_MEMBERS = [word for word in (*vars(_AnyForm), *vars(LoopForm)) if not word.startswith("_")]
LOOPS: Rules[LoopForm] = Rules("LOOPS", LoopForm(), {word: word for word in _MEMBERS}, _check_kind)
"""The loop forms of ops: `@wy.LOOPS.register(MyOp)` above a class registers one."""
