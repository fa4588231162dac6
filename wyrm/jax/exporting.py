"""Graphs and programs as files for other runtimes: StableHLO, and ONNX."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from wyrm.engines.jax.lower import Lowerer, Sizes
from wyrm.engines.jax.namespace import JaxNamespace
from wyrm.engines.jax.sharding_table import unique_names
from wyrm.errors import DTypeError, OptionError, WyrmError
from wyrm.graph.axes import Dim, open_axes, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.modes import modes_of, warn_of_training
from wyrm.graph.schedule import Schedule
from wyrm.jax.lowering import LoweredFunction, checked_inputs, checked_path, checked_sizes, require_jax
from wyrm.jax.onnx_functions import OnnxNamespace
from wyrm.jax.onnx_rewriting import open_axes as with_open_axes
from wyrm.jax.onnx_rewriting import rewritten
from wyrm.jax.onnx_rules import RULES
from wyrm.train.arguments import checked_outputs
from wyrm.train.program import Program

T = TypeVar("T")


class _ExportLowerer(Lowerer):
    """Lowers ops without blocks of rows: those need the number of rows, and runtimes divide the work themselves.

    A file has no NumPy to call.
    """

    calls_numpy = False

    def blocks(self, rows: int, size: int) -> tuple[int, int]:
        """Return one block on one device."""
        return 1, 1


class _OnnxLowerer(_ExportLowerer):
    """Lowers graphs for ONNX, without loops over equal layers, which its runtimes do not optimize."""

    is_basic = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes, repeats=sys.maxsize)

    @property
    def xp(self) -> JaxNamespace:
        """The functions of `jax.numpy`, some of them made of those that ONNX has."""
        return OnnxNamespace()


class _Exported(LoweredFunction):
    """The function of a graph with the present values of parameters as constants, which need not be differentiated."""

    def __init__(
        self,
        target: Program | BaseNode | Sequence[BaseNode],
        inputs: Sequence[BaseNode] | None,
        who: str,
        lowerer: type[_ExportLowerer] = _ExportLowerer,
    ) -> None:
        nodes = list(target.outputs) if isinstance(target, Program) else checked_outputs(target, who)
        warn_of_training(modes_of(nodes), any(node.dims for node in nodes))
        if inputs is None:
            inputs = [leaf for leaf in Schedule(nodes).leaves if isinstance(leaf, Input | IndexInput)]
        super().__init__(nodes, checked_inputs(inputs, who), len(nodes) == 1, None)
        self._values, self._lowerer_of = self.parameters(), lowerer

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        return self._lowerer_of(sizes)

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
    import jax

    if platforms is not None and (isinstance(platforms, str) or not isinstance(platforms, Sequence)):
        raise DTypeError(
            f"wy.jax.export: platforms must be a list of names, such as ['cpu', 'cuda'], not {platforms!r}"
        )
    function = _Exported(target, inputs, "wy.jax.export")
    arguments, names = _arguments(function.inputs, checked_sizes(sizes, "wy.jax.export"))
    exporter = jax.export.export(jax.jit(function.of_inputs), platforms=platforms)
    return _traced(lambda: exporter(*arguments), names)


def to_onnx(
    target: Program | BaseNode | Sequence[BaseNode],
    path: str | os.PathLike[str],
    inputs: Sequence[BaseNode] | None = None,
    *,
    sizes: Mapping[type[Dim], int] | None = None,
) -> None:
    """Write the outputs of a program or graph to an ONNX file, by jax2onnx.

    The file's inputs have the names of `inputs`, by default all inputs in order of first use; its outputs are
    `output_0`, `output_1` and so on. Parameters, open axes, `sizes` and random nodes are as in `export`. Integers are
    int32. What jax2onnx lacks is rewritten first: factorizations of matrices become loops of elementary operations.

    Raise `ImportError` without jax2onnx, `OptionError` for a graph that needs the size of an open axis, and the errors
    of `lower`; jax2onnx raises its own for operations that it does not have.

    >>> x = wy.Input(dims=(2, 3), name="x")
    >>> wy.jax.to_onnx(x.tanh(), "tanh.onnx")  # doctest: +SKIP
    """
    if importlib.util.find_spec("jax2onnx") is None:
        raise ImportError('wy.jax.to_onnx needs jax2onnx: pip install "wyrm-autodiff[onnx]"')
    import jax2onnx

    file = checked_path(path, "wy.jax.to_onnx", "path")
    if not file.absolute().parent.is_dir():
        raise OptionError(
            f"wy.jax.to_onnx: there is no folder {str(file.absolute().parent)!r} for the file {file.name!r}"
        )
    function = _Exported(target, inputs, "wy.jax.to_onnx", _OnnxLowerer)
    arguments, names = _arguments(function.inputs, checked_sizes(sizes, "wy.jax.to_onnx"))
    wide = any(node.dtype == np.float64 for node in function.outputs)

    def build() -> None:
        with with_open_axes():
            jax2onnx.to_onnx(
                rewritten(function.of_inputs, arguments, RULES),
                arguments,
                return_mode="file",
                output_path=file,
                input_names=function.input_names(),
                output_names=[f"output_{i}" for i in range(len(function.outputs))],
                enable_double_precision=wide,
            )

    _traced(build, names)


def _traced(build: Callable[[], T], names: Sequence[type[Dim]]) -> T:
    """Return the result of `build`, which traces a graph with symbolic sizes for open axes of these names."""
    try:
        return build()
    except (WyrmError, ImportError):
        raise
    except Exception as error:  # of many types, from JAX and from ops that compute with sizes
        if not names:
            raise
        given = ", ".join(f"{name.__name__}: 32" for name in names)
        raise OptionError(
            f"the graph cannot be exported with open axes: {error}\nTo export it for fixed sizes, give "
            f"sizes={{{given}}}"
        ) from error


def _arguments(inputs: Sequence[BaseNode], sizes: Mapping[type[Dim], int]) -> tuple[list[Any], list[type[Dim]]]:
    """Return the shapes and dtypes of inputs, with a symbol for each open axis that has no size, and these axes."""
    import jax
    from jax.dtypes import canonicalize_dtype

    names = [
        name for name in dict.fromkeys(open_axes(axis for leaf in inputs for axis in leaf.dims)) if name not in sizes
    ]
    texts = [name.__name__.lower().strip("_") for name in names]
    numbered = [text if texts.count(text) == 1 else f"{text}_{i}" for i, text in enumerate(texts)]
    symbols = jax.export.symbolic_shape(", ".join(numbered)) if names else ()
    known = {**sizes, **dict(zip(names, symbols, strict=True))}
    return [jax.ShapeDtypeStruct(resolve(leaf.dims, known), canonicalize_dtype(leaf.dtype)) for leaf in inputs], names
