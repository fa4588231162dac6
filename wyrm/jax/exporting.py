"""Graphs and programs as files for other runtimes: StableHLO, and what exports to ONNX share with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from wyrm.engines.jax.lower import Lowerer, Sizes
from wyrm.engines.jax.sharding import unique_names
from wyrm.errors import DTypeError, OptionError, WyrmError
from wyrm.graph.axes import Dim, class_text, distinct_names, open_axes, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.modes import modes_of, warn_of_training
from wyrm.graph.schedule import Schedule
from wyrm.jax.lowering import LoweredFunction, checked_inputs, checked_sizes, require_jax
from wyrm.support.imports import jax
from wyrm.train.arguments import checked_outputs
from wyrm.train.program import Program

T = TypeVar("T")


class ExportLowerer(Lowerer):
    """Lowers ops without blocks of rows: those need the number of rows, and runtimes divide the work themselves.

    A file has no NumPy to call.
    """

    calls_numpy = False

    def blocks(self, rows: int, size: int) -> tuple[int, int]:
        """Return one block on one device."""
        return 1, 1


class ExportedFunction(LoweredFunction):
    """The function of a graph with the present values of parameters as constants, which need not be differentiated."""

    def __init__(
        self,
        target: Program | BaseNode | Sequence[BaseNode],
        inputs: Sequence[BaseNode] | None,
        who: str,
    ) -> None:
        nodes = list(target.outputs) if isinstance(target, Program) else checked_outputs(target, who)
        warn_of_training(modes_of(nodes), any(node.dims for node in nodes))
        if inputs is None:
            inputs = [leaf for leaf in Schedule(nodes).leaves if isinstance(leaf, Input | IndexInput)]
        super().__init__(nodes, checked_inputs(inputs, who), len(nodes) == 1, None)
        self._values = self.parameters()

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        return ExportLowerer(sizes)

    def of_inputs(self, *inputs: Any) -> Any:
        """Return the value of the outputs."""
        return self(self._values, *inputs)

    def input_names(self) -> list[str]:
        """Return a name for each input."""
        return list(unique_names(self.inputs).values())


def export(
    target: Program | BaseNode | Sequence[BaseNode],
    inputs: Sequence[BaseNode] | None = None,
    *,
    sizes: Mapping[type[Dim], int] | None = None,
    platforms: Sequence[str] | None = None,
) -> Any:
    """Return the outputs of a program or graph as a `jax.export.Exported`, which holds StableHLO.

    `exported.call(*inputs)` computes an array for one output, a list for several. `exported.serialize()` is the content
    of a file, which `jax.export.deserialize` reads without wyrm. The parameters' present values are part of it.
    `inputs` are by default all inputs in order of first use. An open axis takes any size of at least 1 unless `sizes`
    has its size, as `{Batch: 32}`. `platforms`, such as `["cpu", "cuda"]`, are by default the one that JAX runs on.
    Random nodes draw the numbers of step 0.

    Raise `OptionError` for a graph that needs the size of an open axis, and the errors of `lower`.

    >>> class Batch(wy.Dim): ...
    >>> x = wy.Input(dims=(Batch(), 3), name="x")
    >>> exported = wy.jax.export(wy.compile(x.sum(axis=1)))
    >>> exported.call(np.ones((2, 3), np.float32)).tolist(), exported.in_avals
    ([3.0, 3.0], (ShapedArray(float32[batch,3]),))
    """
    require_jax("wy.jax.export")

    if platforms is not None and (isinstance(platforms, str) or not isinstance(platforms, Sequence)):
        raise DTypeError(
            f"wy.jax.export: platforms must be a list of names, such as ['cpu', 'cuda'], not {platforms!r}"
        )
    function = ExportedFunction(target, inputs, "wy.jax.export")
    arguments, names = arguments_of(function.inputs, checked_sizes(sizes, "wy.jax.export"))
    exporter = jax.export.export(jax.jit(function.of_inputs), platforms=platforms)
    return _traced(lambda: exporter(*arguments), names)


def _traced(build: Callable[[], T], names: Sequence[type[Dim]]) -> T:
    """Return the result of `build`, which traces a graph with symbolic sizes for open axes of these names."""
    try:
        return build()
    except (WyrmError, ImportError):
        raise
    except Exception as error:  # of many types, from JAX and from ops that compute with sizes
        if not names:
            raise
        raise OptionError(f"the graph cannot be exported with open axes: {error}\n{for_fixed_sizes(names)}") from error


def for_fixed_sizes(names: Sequence[type[Dim]]) -> str:
    """Return how to export for fixed sizes of open axes, or nothing without such."""
    given = ", ".join(f"{class_text(name)}: 32" for name in names)
    return f"To export it for fixed sizes, give sizes={{{given}}}. " if names else ""


def arguments_of(inputs: Sequence[BaseNode], sizes: Mapping[type[Dim], int]) -> tuple[list[Any], list[type[Dim]]]:
    """Return the shapes and dtypes of inputs, with a symbol for each open axis that has no size, and these axes."""
    from jax.dtypes import canonicalize_dtype

    names = [
        name for name in dict.fromkeys(open_axes(axis for leaf in inputs for axis in leaf.dims)) if name not in sizes
    ]
    texts = distinct_names([name.__name__.lower().strip("_") for name in names])
    symbols = jax.export.symbolic_shape(", ".join(texts)) if names else ()
    known = {**sizes, **dict(zip(names, symbols, strict=True))}
    return [jax.ShapeDtypeStruct(resolve(leaf.dims, known), canonicalize_dtype(leaf.dtype)) for leaf in inputs], names
