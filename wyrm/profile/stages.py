"""`Stage`: one timed part of a step, with its work and the nodes and lines of code that it comes from."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wyrm.engines.native.ir.types import PointerType
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.values import types_of
from wyrm.engines.native.stages.loops import KernelCall, PythonCall, nodes_of
from wyrm.engines.native.stages.memory import Binding, passed
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode, label
from wyrm.graph.traversal import topological_order
from wyrm.profile.instrument import Site
from wyrm.profile.work import Work, work_of
from wyrm.view.model_summary import multiply_adds

StageKind = Literal["load", "loop", "product", "kernel", "scan", "update", "Python", "wait"]
StepPart = Literal["data", "forward", "backward", "update", ""]
# Below this share of the machine's peaks, neither memory nor arithmetic limits a stage.
_LIMITED = 0.1


@dataclass(frozen=True)
class Stage:
    """A part of a step: a call of a loop, a product or another kernel, work in Python, or a wait.

    `calls` and `seconds` are sums over all recorded steps and threads. `typical_seconds` is the time of a call without
    interruptions, from which rates are computed; 0 if it is too short to measure. `flops`, `bytes_read` and
    `bytes_written` are the work of one call; `flops` is None if unknown. `exact` is false for an estimate, because the
    work depends on data or a loop is too long to count. `least_seconds` is the time of a call at the machine's peaks:
    that of its bytes if it is `memory_bound`, else that of its FLOPs. `nodes` are the operations with their axes, and
    `modules` the paths of the modules that built them; `location` and `source` are the user's line of the first.
    """

    name: str
    kind: StageKind
    part: StepPart
    calls: int
    seconds: float
    typical_seconds: float
    nodes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    location: str = ""
    source: str = ""
    flops: float | None = None
    product_flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    exact: bool = True
    least_seconds: float | None = None
    memory_bound: bool = True

    @property
    def bytes(self) -> float:
        """The bytes that a call reads and writes."""
        return self.bytes_read + self.bytes_written

    @property
    def flops_per_second(self) -> float | None:
        """The floating-point operations that it does a second."""
        return None if self.flops is None else _rate(self.flops, self.typical_seconds)

    @property
    def bytes_per_second(self) -> float | None:
        """The bytes that it reads and writes a second."""
        return _rate(self.bytes, self.typical_seconds) if self.bytes else None

    @property
    def roofline(self) -> float | None:
        """The least time by the machine's peaks, divided by the time: 1 is as fast as the machine can be.

        Above 1, the arrays of the call were in a faster cache than their size suggests.
        """
        return None if self.least_seconds is None else _rate(self.least_seconds, self.typical_seconds)

    @property
    def bound(self) -> Literal["memory", "compute", "overhead", ""]:
        """What limits the stage: memory or arithmetic, or "overhead" if it is far from both; empty if not known."""
        reached = self.roofline
        if reached is None or self.flops is None:
            return ""
        if reached < _LIMITED:
            return "overhead"
        return "memory" if self.memory_bound else "compute"


def _rate(amount: float, seconds: float) -> float | None:
    return amount / seconds if seconds > 0 else None


@dataclass(frozen=True)
class Description:
    """What a stage is, without its times."""

    name: str
    kind: StageKind
    part: StepPart
    nodes: tuple[BaseNode, ...]
    work: Work | None

    @property
    def first(self) -> BaseNode | None:
        """The node whose line stands for the stage: the first one of a module, else the first one."""
        return next((node for node in self.nodes if node.module_path), self.nodes[0] if self.nodes else None)


@dataclass(frozen=True)
class Frame:
    """The arrays by argument that the calls of a program, or of a loop inside it, work on; and the counted work."""

    binding: Binding
    values: Mapping[str, Any]
    forward: Container[BaseNode]
    counted: dict[object, Work]


def frame_of(
    graph: NativeGraph, outputs: Container[BaseNode], binding: Binding, columns: Mapping[BaseNode, np.ndarray]
) -> Frame:
    """Return the arrays of a step; `outputs` are the outputs of the forward pass."""
    computed = zip(graph.outputs, graph.targets.outputs, strict=True)
    results = [target for output, target in computed if output in outputs]
    forward = {graph.schedule.representative[node] for node in topological_order(results)}
    values = dict(zip(binding.source.arguments, binding.values, strict=True))
    names = list(binding.source.arguments)
    values |= {names[position]: columns[leaf] for leaf, position in binding.columns.items()}
    return Frame(binding, values, forward, {})


def described(site: Site, frame: Frame) -> Description:
    """Return the description of a timed call, with its work."""
    binding, values = frame.binding, frame.values
    invocation = site.invocation
    if invocation is None:
        assert site.column is not None
        batch, (column, *_) = binding.array(binding.source.tree.leaf(site.column)), site.call.arguments
        # An input with a column of no rows keeps its data. The 8 bytes a row are those of the order of rows; a row of
        # entries is one of them, and the longest rows are counted.
        rows = (batch.shape[0] if batch.ndim else 1) if values[str(column)].shape[0] else 0
        moved = float(batch.nbytes if rows else 0)
        work = Work(bytes_read=moved + 8.0 * rows, bytes_written=moved)
        return Description(f"load {label(site.column)}", "load", "data", (site.column,), work)
    item, name = invocation.item, invocation.function.__name__
    nodes = () if item is None else tuple(dict.fromkeys(nodes_of(item)))
    part: StepPart = "forward" if any(node in frame.forward for node in nodes) else "backward"
    if isinstance(invocation.function, PythonCall):
        return Description(name, "Python", part, nodes, None)
    if invocation.scan is not None:
        return Description(name, "scan", part, nodes, None)
    work = _work(invocation.function, [passed(each, values) for each in invocation.arguments], frame.counted)
    if item is None:
        updated = () if invocation.updated is None else (invocation.updated,)
        return Description(name, "update", "update", updated, work)
    kind: StageKind = "loop"
    if isinstance(item, KernelCall):
        work = _by_formula(work, item, binding)
        kind = "product" if 2 * work.product_flops > work.flops else "kernel"
    return Description(name, kind, part, nodes, work)


def frame_inside(site: Site, frame: Frame, part: StepPart) -> Frame:
    """Return the arrays of the calls of a loop inside the graph, which are all of one part."""
    assert site.invocation is not None and site.invocation.scan is not None
    loop = site.invocation.scan
    arguments = [passed(each, frame.values) for each in site.invocation.arguments]
    # The function of a loop takes its own arguments last.
    values = dict(zip(loop.arguments, arguments[-len(loop.arguments) :], strict=True))
    nodes = {node for invocation in loop.invocations if invocation.item for node in nodes_of(invocation.item)}
    return Frame(frame.binding, values, nodes if part == "forward" else (), frame.counted)


def _by_formula(work: Work, call: KernelCall, binding: Binding) -> Work:
    """Return a convolution's work by its formula, because its kernel's loops depend on tables of indices."""
    count = None if work.exact or work.product_flops else multiply_adds(call.node, binding.sizes)
    if not count:
        return work
    read, (written,) = (
        [math.prod(resolve(buffer.dims, binding.sizes)) * buffer.dtype.itemsize for buffer in buffers]
        for buffers in (call.operands, [call.out])
    )
    return Work(2.0 * count, 2.0 * count, float(sum(read)), float(written), work.bits, exact=False)


def _work(function: Routine, arguments: list[Any], counted: dict[object, Work]) -> Work:
    """Return the work of a call, counted once for all calls with arguments of the same sizes."""
    from wyrm.engines.native.kernels.translate import Translation
    from wyrm.engines.native.llvm.calling import kind_of_argument, words_of
    from wyrm.engines.native.llvm.multiply import MULTIPLY

    kinds = tuple(map(kind_of_argument, arguments))
    numbers = [
        word
        for each, kind in zip(arguments, kinds, strict=True)
        for word, (_, type) in zip(words_of(each, kind), types_of(kind), strict=True)
        if not isinstance(type, PointerType)
    ]
    key = id(function), kinds, tuple(numbers)
    if key not in counted:
        translation = Translation(checked=False)
        name = translation.specialized(function, kinds).function.name
        products = {each for each, compiled in translation.functions.items() if compiled.source is MULTIPLY}
        counted[key] = work_of(translation.program(name), products, kinds, arguments)
    return counted[key]


def text_of(node: BaseNode, sizes: Mapping[type[Dim], int]) -> str:
    """Return a node as text: its name or operation, and its axes with their sizes."""
    what = label(node) if node.is_leaf else node.op_name()
    axes = [
        f"{type(axis).__name__}={size}" if isinstance(axis, Dim) else str(size)
        for axis, size in zip(node.dims, resolve(node.dims, sizes), strict=True)
    ]
    return f"{what} ({', '.join(axes)})"
