"""`JaxForm`: the description of an op for the backend that lowers graphs to JAX.

A form stands beside its op, or in the `jax_form.py` of the op's folder. The names of other modules of JAX code end in
`_jax`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wyrm.graph.registration import Rules

if TYPE_CHECKING:
    from wyrm.graph.axes import Dim
    from wyrm.graph.base import BaseNode


class Unjoined(ABC):
    """A value that an op leaves in several arrays, because those who read it need them one by one.

    Its classes are named tuples, which JAX takes as pytrees, and registered here.
    """

    @property
    @abstractmethod
    def dtype(self) -> np.dtype:
        """The dtype of the value."""

    @abstractmethod
    def flat(self) -> Any:
        """Return the value as one array, as the graph describes it."""


class Lowering(Protocol):
    """The lowering of a graph that is going on: what a `JaxForm` may ask for."""

    @property
    def xp(self) -> Any:
        """The array namespace: `jax.numpy` with the functions of `jax.scipy.special`."""
        ...

    @property
    def uses_tiles(self) -> bool:
        """Whether attention of long sequences is computed in tiles, by loops, which the runtimes of ONNX fail for."""
        ...

    @property
    def calls_numpy(self) -> bool:
        """Whether the program may call code of NumPy and SciPy on the host; a file has none."""
        ...

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of the named axes in this run."""
        ...

    @property
    def differentiable(self) -> bool:
        """Whether JAX may differentiate the function, whose derivatives must then be those of the graph."""
        ...

    def places(self, node: BaseNode) -> Any:
        """Return the place of each index along a node's first axis, if it is another one than the index; else None.

        The entries of rows of different lengths stand apart where devices divide the rows.
        """
        ...

    def attribute(self, node: BaseNode, name: str) -> Any:
        """Return a static attribute; where equal layers share code, a seed or a stream is a traced uint32 scalar."""
        ...

    def dtype(self, node: BaseNode) -> Any:
        """Return the dtype of a node's value: bfloat16 for activations of a program that computes in it."""
        ...

    def inside_op(self) -> Lowering:
        """Return what lowers the nodes that an op is composed of: results between them are wide, in loops too."""
        ...

    def product(self, x: Any, y: Any) -> Any:
        """Return `x @ y`, of operands in the dtype that the program computes in, with sums of float32 or wider."""
        ...

    def elementwise(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function of numbers, in the language of kernels, gives for elements of arrays that broadcast.

        Arguments that are numbers are known to the function. It returns an array, or a tuple of them.
        """
        ...

    def kernel(self, kernel: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
        """Return what a kernel returns, and then the new values of the arrays that it may write to."""
        ...

    def by_kernel(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> Any:
        """Return the value of an op by the kernel of its loop form; NaN, or the largest integer, where it raises."""
        ...

    def arrays_of_kernel(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
        """Return the arguments of the kernel of an op's loop form as it leaves them, for forms that keep several."""
        ...

    def outputs(self, outputs: Sequence[BaseNode], known: Mapping[BaseNode, Any]) -> list[Any]:
        """Return the values of nodes of another graph, such as the body of a loop; `known` has values of its leaves."""
        ...

    def blocks(self, rows: int, size: int) -> tuple[int, int]:
        """Return in how many blocks to compute values of `size` bytes, and over how many devices the rows are sharded.

        Both divide the number of rows; see `wyrm.ops.kernels.loops_jax.in_blocks`.
        """
        ...

    def largest(self, node: BaseNode, x: Any) -> Any:
        """Return the indices of the `node.k` largest elements along `node.axis`, along a last axis, the largest first.

        Where devices divide the axis, each of them sends only the best ones that it has.
        """
        ...

    def row_shards(self, node: BaseNode, array: Any) -> int:
        """Return over how many devices the rows of a value are sharded, if sums over them may stay apart; else 1."""
        ...

    def apart(self, node: BaseNode, array: Any, terms: Any) -> Any:
        """Return the sum over a value's rows of `terms`, one for each of `row_shards` along their first axis."""
        ...


class _Traits:
    """The traits that the engine asks of every form, as most forms have them; only some ops of wyrm have others."""

    # Whether the op sums products of its float operands. These operands are then narrow even for a result of no or one
    # axis, such as a loss, because the sums are in float32. Other ops with such a result are computed in float32.
    sums_products = False
    # Whether the value keeps the dtype of the graph in a program that computes in bfloat16, as integers in floats must.
    exact = False
    # Whether `lower` reads the data of constants among the parents, and not only the operands: equal layers with such
    # an op do not share code.
    reads_constants = False
    # Whether the op is a checkpoint: its value is that of the first parent, which is computed from the other parents,
    # and computed again in the backward pass.
    recomputes = False
    # Whether `lower` takes row-sparse operands as they are, as `wyrm.graph.rows.RowSparse`, and those that are
    # `Unjoined`, such as the residuals of loops.
    takes_rows: bool = False
    # Whether the op looks up rows of its first operand by the indices in its second one, `x[indices]`. Devices that own
    # the rows of a table exchange them.
    looks_up_rows: bool = False
    # Whether the op ranks the elements along its `axis`: programs that do not train divide that axis before others.
    ranks: bool = False
    # Whether an op with `own_gradient` has forward mode too: JAX must be able to differentiate that gradient.
    own_tangent = False


class JaxForm(_Traits):
    """The lowering of an op to JAX; it is registered for the op.

    An op needs none if its `formula`, or its `evaluate` called with the functions of `jax.numpy`, can be traced.
    An op whose `evaluate` cannot be is computed by the kernel of its loop form. Without one that has a form in JAX,
    programs call its `evaluate` with NumPy's arrays (`jax.pure_callback`), and warn once for each op. The gradient of
    both is that of its `vjp`. A form imports JAX inside `lower`, because ops are imported without it.

        @wy.JAX.register(Flip)
        class FlipForm(wy.JaxForm):
            def lower(self, node, operands, shape, lowering):
                import jax.numpy as jnp

                return jnp.flip(operands[0])

    Integers are int32 unless JAX has 64-bit types enabled. The random step, the leaf that random nodes draw for, and
    nodes computed from it have uint32 values with a last axis of two words, the lower one first.
    """

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        """Return the value of a node from those of its parents; `shape` is the result's in this run."""
        return node.evaluate_for(lowering.sizes)(lowering.xp, *operands, shape=shape)

    # Whether the op is computed in bfloat16 in a program that computes in it; other ops are computed in float32.
    # None decides by the op: a formula is.
    narrow: bool | None = None

    def own_gradient(self, node: Any) -> bool:
        """Return whether functions for JAX have the gradient of the node's `vjp`, not that of what `lower` computes."""
        return False


JAX: Rules[JaxForm] = Rules("JAX", JaxForm())
"""The JAX forms of ops: `@wy.JAX.register(MyOp)` above a class registers one."""
