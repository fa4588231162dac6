"""Graphs and programs as ONNX files."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.engines.jax.lower import Lowerer, Sizes
from wyrm.engines.jax.namespace import JaxNamespace
from wyrm.errors import OptionError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.jax.exporting import ExportedFunction, ExportLowerer, arguments_of, for_fixed_sizes
from wyrm.jax.lowering import checked_path, checked_sizes
from wyrm.jax.onnx_checking import check as check_file
from wyrm.jax.onnx_checking import first_fault
from wyrm.jax.onnx_conversion import adapted
from wyrm.jax.onnx_functions import OnnxNamespace
from wyrm.jax.onnx_refusals import first_refusal
from wyrm.support.imports import unread
from wyrm.support.options import flag
from wyrm.train.program import Program

_WHO = "wy.jax.to_onnx"
_INSTEAD = (
    "wy.jax.export writes StableHLO, and wy.export C or WebAssembly, which have more operations; or write what comes "
    "before, and compute the rest elsewhere"
)
# The most characters that an error repeats of the message of a library.
_LONGEST = 300
# Before the number of a node in the name of the scope of its operations.
_SCOPE = "node_"


class _OnnxLowerer(ExportLowerer):
    """Lowers graphs for ONNX, without loops over equal layers, which its runtimes do not optimize.

    The operations of a node have a scope with its place in `nodes`, which grow.
    """

    uses_tiles = False

    def __init__(self, sizes: Sizes, nodes: list[BaseNode]) -> None:
        super().__init__(sizes, repeats=sys.maxsize)
        self._nodes = nodes

    @property
    def xp(self) -> JaxNamespace:
        """The functions of `jax.numpy`, some of them made of those that ONNX has."""
        return OnnxNamespace()

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        self._nodes.append(node)
        with unread("jax").named_scope(f"{_SCOPE}{len(self._nodes) - 1}"):
            return super().value(node, operands)


class _OnnxFunction(ExportedFunction):
    """The function of a graph in operations for ONNX."""

    nodes: list[BaseNode]

    def _lowerer(self, sizes: Sizes) -> Lowerer:
        self.nodes = []
        return _OnnxLowerer(sizes, self.nodes)

    def traced(self, arguments: Sequence[Any]) -> Callable[..., list[Any]]:
        """Return the function as operations of JAX; raise `OptionError` for the first that ONNX does not have.

        All is traced before jax2onnx replaces functions of `jax.numpy` by its own, some of which take no open axis.
        """
        jax = unread("jax")
        traced = jax.make_jaxpr(self.of_inputs)(*arguments)
        refusal = first_refusal(traced)
        if refusal is not None:
            numbers = [int(scope.removeprefix(_SCOPE)) for scope in refusal.scopes if scope.startswith(_SCOPE)]
            what = describe(self.nodes[numbers[-1]]) if numbers else "the graph"
            raise OptionError(f"{_WHO} cannot write {what}: files of ONNX have no {refusal.what}\n{_INSTEAD}")
        function = unread("jax.extend.core").jaxpr_as_fun(traced)
        return lambda *inputs: _apart(function(*inputs), inputs)


def to_onnx(
    target: Program | BaseNode | Sequence[BaseNode],
    path: str | os.PathLike[str],
    inputs: Sequence[BaseNode] | None = None,
    *,
    sizes: Mapping[type[Dim], int] | None = None,
    check: bool = True,
) -> None:
    """Write the outputs of a program or graph to an ONNX file, by jax2onnx.

    The file's inputs have the names of `inputs`, by default all inputs in order of first use; its outputs are
    `output_0`, `output_1` and so on. Parameters, open axes, `sizes` and random nodes are as in `export`. Integers are
    int32. What common models need can be written; factorizations of a batch of matrices, eigenvalues, singular values
    and some rare functions cannot.

    With `check`, ONNX Runtime loads the file and computes the outputs of drawn numbers, for two sizes of open axes,
    before it stands at its path; without that package, only its types are checked.

    Raise `ImportError` without jax2onnx, and the errors of `lower`. Raise `OptionError`, which names the op, before a
    file is written for what ONNX lacks, and for a file that cannot be loaded or has other shapes or numbers than JAX.

    >>> x = wy.Input(dims=(2, 3), name="x")
    >>> wy.jax.to_onnx(x.tanh(), "tanh.onnx")  # doctest: +SKIP
    """
    if importlib.util.find_spec("jax2onnx") is None:
        raise ImportError(f'{_WHO} needs jax2onnx: pip install "wyrm-autodiff[onnx]"')
    check = flag(f"{_WHO}: check", check)
    file = checked_path(path, _WHO, "path")
    folder = file.absolute().parent
    if not folder.is_dir():
        raise OptionError(f"{_WHO}: there is no folder {str(folder)!r} for the file {file.name!r}")
    function, fixed = _OnnxFunction(target, inputs, _WHO), checked_sizes(sizes, _WHO)
    names = arguments_of(function.inputs, fixed)[1]

    def attempt(node: BaseNode) -> None:
        with tempfile.TemporaryDirectory() as inside:
            _write(_OnnxFunction(node, None, _WHO), Path(inside) / "op.onnx", fixed, check)

    with tempfile.TemporaryDirectory(dir=folder) as inside:
        written = Path(inside) / file.name
        try:
            _write(function, written, fixed, check)
        except (WyrmError, ImportError):
            raise
        except Exception as error:  # of many types, from JAX, jax2onnx and the check
            found = first_fault(function.outputs, attempt)
            what, reason = (describe(found[0]), found[1]) if found else ("the graph", error)
            raise OptionError(
                f"{_WHO} cannot write {what}: {_shortened(str(reason))}\n{for_fixed_sizes(names)}{_INSTEAD}"
            ) from error
        for each in Path(inside).iterdir():
            each.replace(folder / each.name)


@contextmanager
def _types_of_process() -> Iterator[None]:
    """Return a context after which the process has the 64-bit types of JAX, or has them not, as before.

    In a block of `jax.enable_x64`, jax2onnx takes the block's choice for that of the process, and sets it for good.
    """
    jax = unread("jax")
    with ThreadPoolExecutor(1) as threads:  # blocks hold for their own thread alone
        before = threads.submit(jax.config.read, "jax_enable_x64").result()
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)


def _write(function: _OnnxFunction, file: Path, fixed: Mapping[type[Dim], int], check: bool) -> None:
    """Write a function to a file, and check the file; raise errors of many types."""
    import jax2onnx
    import onnx

    arguments, names = arguments_of(function.inputs, fixed)
    traced = function.traced(arguments)
    with adapted(), _types_of_process():
        jax2onnx.to_onnx(
            traced,
            arguments,
            return_mode="file",
            output_path=file,
            input_names=function.input_names(),
            output_names=[f"output_{i}" for i in range(len(function.outputs))],
            enable_double_precision=any(node.dtype == np.float64 for node in function.outputs),
        )
    model = onnx.load(file, load_external_data=False)
    _forget_shapes(model.graph)
    onnx.save(model, file)

    def compute(size: int) -> tuple[Callable[..., Any], Sequence[Any]]:
        shapes, _ = arguments_of(function.inputs, {**dict.fromkeys(names, size), **fixed})
        return function.traced(shapes), shapes

    if check:
        check_file(file, function.input_names(), compute, bool(names))


def _apart(results: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """Return results of which none is an input or another result, since each of them has a name in a file."""
    apart: list[Any] = []
    for result in results:
        if any(result is each for each in (*inputs, *apart)):
            result = ~~result if result.dtype == bool else result + np.zeros((), result.dtype)
        apart.append(result)
    return apart


def _shortened(text: str) -> str:
    """Return the start of a message: some hold a whole graph."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _forget_shapes(graph: Any) -> None:
    """Remove shapes inside of a graph, which runtimes infer: jax2onnx may say 1 for an open axis."""
    import onnx

    del graph.value_info[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _forget_shapes(attribute.g)


__all__ = ["to_onnx"]
