"""`measured_by_xla` makes a `Profile` of a program of the engine "jax", from a trace of `jax.profiler`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np

from wyrm.engines.jax.engine import JaxEngine, refuse_threads
from wyrm.engines.jax.lower import Sizes
from wyrm.engines.jax.repeats import Repeat
from wyrm.engines.native.products.pool import processors
from wyrm.graph.axes import resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.traversal import topological_order
from wyrm.profile.peaks import Peaks, measured_peaks
from wyrm.profile.result import Event, Profile, Wording
from wyrm.profile.stages import Stage, StageKind, StepPart, text_of
from wyrm.profile.steps import Asked, Method, checked, enough_steps, sizes_of, steps_of
from wyrm.profile.work import Work
from wyrm.profile.xla_code import CompiledCode, CompiledOp
from wyrm.profile.xla_memory import MemoryOfXla
from wyrm.profile.xla_trace import OpTime, busy, traced_ops
from wyrm.support.texts import of_all_layers
from wyrm.view.model_summary import multiply_adds

# Operations of a trace: reading one takes some microseconds.
_MOST_EVENTS = 50_000
# Events of the timeline.
_KEPT_EVENTS = 20_000
_FUSIONS = (
    "XLA fuses nodes and does not say what each of them takes: a fusion has the time of all its nodes, and the line of "
    "the first one of a module. Equal layers share code, so they share a line. The FLOPs and bytes are counted in the "
    "compiled code; XLA's own count for one step is {flops:.3g} FLOPs and {bytes:.3g} bytes, with each loop counted "
    "once."
)
_WORDING = Wording(
    "device", "on", "of no node",  # copies, checks and loops of XLA, and Python
    "a trace of {readings:,} operations took {share:.1%} of the time, which is not subtracted",
)  # fmt: skip
_SUMMED = ("sums of gradients and losses",)
_DEVICES = "The time of a collective has the wait for the last device in it."


def measured_by_xla(engine: JaxEngine, columns: Any, **arguments: Any) -> Profile:
    """Return the profile of a program; its parameters and optimizer change, so it must be a copy.

    See `Program.profile` for the arguments; all are checked before anything is compiled.
    """
    graph = engine.graph
    asked = Asked(**arguments)
    method, options, steps = checked(graph, columns, asked)
    refuse_threads(options.threads)
    run, most = steps_of(engine, columns, method, options)
    if steps is None:
        run(2)  # compiles
        before, start = engine.steps, perf_counter_ns()
        events = len(traced_ops(lambda: run(2))) / 2
        a_second = 1e9 * (engine.steps - before) / max(1, perf_counter_ns() - start)
        steps = enough_steps(a_second, min(most, max(3, int(_MOST_EVENTS / max(1.0, events)))))
    run(steps)  # a chunk of so many steps may be compiled anew
    start = perf_counter_ns()
    run(steps)
    plain = perf_counter_ns() - start
    before, spent = engine.steps, list[int]()

    def timed() -> None:
        start = perf_counter_ns()
        run(steps)
        spent.append(perf_counter_ns() - start)

    ops = traced_ops(timed)
    compiled = engine.compiled.lowered().compile()
    sizes = sizes_of(engine, columns, method, options)
    reader = _Reader(engine, CompiledCode(compiled.as_text()), asked.peaks or _peaks_of_device(), sizes)
    return reader.profile(method, engine.steps - before, ops, (plain, spent[0]), compiled, memory=asked.memory)


def _peaks_of_device() -> Peaks | None:
    """Return the peaks of the processor if JAX computes on it."""
    import jax

    return measured_peaks() if jax.default_backend() == "cpu" else None


class _Reader:
    """Makes the stages of a profile from the times of XLA's operations."""

    def __init__(self, engine: JaxEngine, code: CompiledCode, peaks: Peaks | None, sizes: Sizes) -> None:
        graph = engine.graph
        self._engine, self._code, self._peaks, self._sizes = engine, code, peaks, sizes
        self._nodes: Sequence[BaseNode] = graph.schedule.nodes
        results = graph.targets.outputs
        self._forward = {graph.schedule.representative[node] for node in topological_order(results)}
        self._in_layers = {
            position
            for item in engine.functions.plan
            if isinstance(item, Repeat)
            for positions in item.positions
            for position in positions
        }
        named = {scope.position for op in code.ops.values() for scope in op.scopes if scope.kind == "n"}
        self._lost = [
            node
            for position, node in enumerate(self._nodes)
            if position not in named and not node.is_leaf and multiply_adds(node, sizes)
        ]
        self._updated = [graph.parameters[unit[0]] for unit in engine.functions.stacks.units]

    def profile(
        self, method: Method, steps: int, ops: Sequence[OpTime], spent: tuple[int, int], compiled: Any, *, memory: bool
    ) -> Profile:
        """Return the profile; `spent` has the nanoseconds of the steps without the trace and with it."""
        own = [op for op in ops if op.module == self._code.module and op.name in self._code.ops]
        others = [op for op in ops if op.module != self._code.module]
        devices = sorted({op.device for op in ops}) or [0]
        by_name: dict[str, list[float]] = {name: [] for name in self._code.ops}
        for op in own:
            by_name[op.name].append(op.duration)
        stages = [self._stage(self._code.ops[name], times) for name, times in by_name.items() if times]
        positions = {stage.name: position for position, stage in enumerate(stages)}
        if others:
            total = sum(busy([op for op in others if op.device == device]) for device in devices)
            stages.append(Stage("other functions of XLA", "kernel", "", len(others), total / 1e9, 0.0))
        plain, wall = spent
        known = sum(stage.seconds for stage in stages)
        running = sum(busy([op for op in ops if op.device == device]) for device in devices) / 1e9
        waiting = max(0.0, wall / 1e9 * len(devices) - running)
        gaps = max(1, steps)
        stages.append(Stage("between operations of XLA", "Python", "", gaps, waiting, waiting / gaps))
        return Profile(
            stages=tuple(stages),
            method=method,
            steps=steps,
            threads=len(devices),
            seconds=wall / 1e9,
            thread_seconds=known + waiting,
            reading_seconds=max(0, wall - plain) * len(devices) / max(1, len(ops)) / 1e9,
            readings=len(ops),
            peaks=self._peaks,
            events=_events(own, positions, {device: lane for lane, device in enumerate(devices)}, steps),
            memory=MemoryOfXla.of(compiled) if memory else None,
            engine="jax",
            wording=_WORDING,
            notes=_notes(compiled, len(devices)),
        )

    def _stage(self, op: CompiledOp, times: Sequence[float]) -> Stage:
        nodes = self._nodes_of(op)
        first = next((node for node in nodes if node.module_path), nodes[0] if nodes else None)
        kind, part = self._kind(op), self._part(op, nodes)
        typical = float(np.median(times)) / 1e9
        common: dict[str, Any] = {}
        if op.flops is not None:
            work = Work(op.flops, op.product_flops, op.bytes_read, op.bytes_written, op.bits, exact=False)
            common = {
                "flops": op.flops, "product_flops": op.product_flops, "bytes_read": op.bytes_read,
                "bytes_written": op.bytes_written,
            }  # fmt: skip
            if self._peaks is not None and kind != "collective":
                arithmetic = work.flops / self._peaks.flops(work, processors())
                moving = work.bytes / self._peaks.bytes(work, processors())
                common |= {"least_seconds": max(arithmetic, moving), "memory_bound": moving >= arithmetic}
        return Stage(
            op.name, kind, part, len(times), sum(times) / 1e9, typical,
            nodes=_SUMMED if self._sums(op) else tuple(text_of(node, self._sizes) for node in nodes),
            modules=tuple(dict.fromkeys(filter(None, map(self._module, nodes)))),
            location="" if first is None else str(first.location),
            source="" if first is None else first.location.source,
            exact=False,
            **common,
        )  # fmt: skip

    @staticmethod
    def _sums(op: CompiledOp) -> bool:
        """Return whether an operation sums gradients and losses over devices."""
        scopes = op.scopes if op.collective else () if op.own is None else (op.own,)
        return any(scope.kind == "s" for scope in scopes)

    def _nodes_of(self, op: CompiledOp) -> list[BaseNode]:
        if self._sums(op):
            return []
        if op.own is not None and op.own.kind == "u":
            return [self._updated[op.own.position]]
        if op.product_flops and not op.scopes:
            # XLA forgets the name of a product whose rows it divides over devices: it is known by its size, if by that.
            found = [node for node in self._lost if math.prod(resolve(node.dims, self._sizes)) == op.elements]
            return found if len(found) == 1 else []
        return [self._nodes[scope.position] for scope in op.scopes if scope.kind == "n"]

    def _module(self, node: BaseNode) -> str:
        """Return the path of a node's module; that of all layers for code that equal layers share."""
        shared = self._engine.graph.schedule.position.get(node) in self._in_layers
        return of_all_layers(node.module_path) if shared else node.module_path

    @staticmethod
    def _kind(op: CompiledOp) -> StageKind:
        if op.collective:
            return "collective"
        if op.product_flops:
            return "product"
        if op.own is not None and op.own.kind in ("d", "u", "c"):
            return "load" if op.own.kind == "d" else "update"
        return "loop" if op.opcode == "fusion" else "kernel"

    def _part(self, op: CompiledOp, nodes: Sequence[BaseNode]) -> StepPart:
        kind = "" if op.own is None else op.own.kind
        if op.collective or self._sums(op):
            return "collective"
        if nodes and kind != "u":
            last = nodes[-1] if op.own is None or op.own.kind != "n" else self._nodes[op.own.position]
            return "forward" if last in self._forward else "backward"
        return "data" if kind == "d" else "update" if kind in ("u", "c") else ""


def _notes(compiled: Any, devices: int) -> tuple[str, ...]:
    found = compiled.cost_analysis()
    cost: dict[str, float] = (found[0] if isinstance(found, list) else found) or {}
    note = _FUSIONS.format(flops=cost.get("flops", 0.0), bytes=cost.get("bytes accessed", 0.0))
    return (note,) if devices == 1 else (note, _DEVICES)


def _events(ops: Sequence[OpTime], positions: dict[str, int], lanes: dict[int, int], steps: int) -> tuple[Event, ...]:
    """Return what each device did in the last steps, in microseconds; a step is an equal part of the operations."""
    events = []
    for device, lane in lanes.items():
        own = [op for op in ops if op.device == device]
        of_step = max(1, len(own) // max(1, steps))
        count = max(1, min(steps, _KEPT_EVENTS // of_step))
        kept = own[-of_step * count :]
        for first in range(0, len(kept), of_step):
            step = kept[first : first + of_step]
            stop = max(op.start + op.duration for op in step)
            events.append(Event("step", -1, lane, step[0].start / 1e3, (stop - step[0].start) / 1e3))
            events += [Event(op.name, positions[op.name], lane, op.start / 1e3, op.duration / 1e3) for op in step]
    return tuple(sorted(events, key=lambda event: (event.thread, event.start, -event.duration)))
