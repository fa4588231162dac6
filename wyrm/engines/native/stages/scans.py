"""Loops inside a graph as functions of the program around them; their bodies are lowered like programs."""

from __future__ import annotations

from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    Break,
    CallStatement,
    Convert,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Statement,
    Store,
    When,
    fill,
)  # fmt: skip
from wyrm.engines.native.ir.types import INT64
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.decompose import expand
from wyrm.engines.native.stages.differentiate import Targets
from wyrm.engines.native.stages.invocations import FlatArgument
from wyrm.engines.native.stages.loops import ArrayBuffer
from wyrm.engines.native.stages.lower import Lowering
from wyrm.engines.native.stages.materialize import materialize
from wyrm.engines.native.stages.naming import UniqueNames
from wyrm.engines.native.stages.op_kernels import OpKernels
from wyrm.engines.native.stages.runtime import added, copied, put, taken
from wyrm.engines.native.stages.source import Source
from wyrm.engines.native.stages.whole_updates import WholeUpdate
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.ranges import Ranges
from wyrm.graph.schedule import Schedule
from wyrm.ops.random.philox import COUNTERS


def write(lowering: Lowering) -> Source:
    """Return the functions of a lowered program, with columns of data for all inputs."""
    leaves = lowering.schedule.leaves
    inputs = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput) and leaf not in COUNTERS]
    return Source(lowering, inputs, OpKernels(), ScanSource, WholeUpdate)


class ScanSource(Source):
    """The function of a loop inside a graph: it runs the body in each step, as a program does for each row of data."""

    def __init__(self, node: BaseNode, names: UniqueNames, op_kernels: OpKernels, ranges: Ranges) -> None:
        steps = LOOPS.of(node).steps(node)
        assert steps is not None
        self.steps = steps
        replacements = expand(steps.body.outputs)
        schedule = Schedule([replacements[output] for output in steps.body.outputs])
        outputs = [schedule.representative[replacements[output]] for output in steps.body.outputs]
        lowering = Lowering(schedule, Targets([]), ranges.inside(node), names)
        self.body_outputs = [lowering.own_array(node) for node in outputs]
        lowering.outputs = self.body_outputs
        self.outer: list[str] = []
        self._name = names("scan")
        super().__init__(materialize(lowering), (), op_kernels, ScanSource, WholeUpdate)

    def _routine(self) -> ArrayRoutine:
        steps, lowering = self.steps, self.lowering
        inputs, count = steps.body.inputs, steps.carried
        carried = [self._flat(lowering.leaf(leaf)) for leaf in inputs[:count]]
        next_carried, rows, sums = self.body_outputs[:count], self.body_outputs[count:], list[ArrayBuffer]()
        condition = rows.pop() if steps.stops else None
        if steps.summed:
            rows, sums = rows[: -steps.summed], rows[-steps.summed :]
        before, per_step, after = list[Statement](), list[Statement](), list[Statement]()
        done, t = Name("done"), Name("t")
        if steps.limited:
            before.append(Let("done", Literal(0)))
        limit = self._outer("limit") if steps.limited else None
        starts = [self._outer("start") for _ in carried]
        sequences = [self._outer("sequence") for _ in range(steps.sequences)]
        length: Expression = self._outer("length")
        if limit is None:
            before.append(Let("count", length))
        else:
            asked = Element(limit.name, (Literal(0),))
            beyond = Apply("greater", (asked, length))
            before.append(Let("count", Apply("where", (beyond, length, Convert(asked, INT64)))))
        histories: list[tuple[str, int]] = []  # (name, number of axes)
        for start, carry in zip(starts, carried, strict=True):
            named = {
                name: self._outer(name) for name in (("last", "history") if steps.reverse else ("history", "last"))
            }
            last, history = named["last"], named["history"]
            histories.append((history.name, 2))
            before.append(CallStatement(copied, (start, carry)))
            after.append(CallStatement(copied, (carry, last)))
            if steps.keeps:
                per_step.append(CallStatement(put, (carry, history, t)))
                if steps.limited and not steps.reverse:  # the carry after the last step is stored too
                    after.append(When(Apply("less", (done, length)), (CallStatement(put, (carry, history, done)),)))
        for sequence, leaf in zip(sequences, inputs[count : count + steps.sequences], strict=True):
            if leaf in lowering.buffers:
                per_step.append(CallStatement(taken, (sequence, t, self._flat(lowering.leaf(leaf)))))
        spoiling = self._invalid_fills()
        for invocation in self.invocations:
            per_step += [*spoiling.get(id(invocation), []), self._call_of(invocation)]
        for buffer in rows:
            stacked = self._outer("made")
            histories.append((stacked.name, 2))
            per_step.append(CallStatement(put, (self._flat(buffer), stacked, t)))
        for buffer in sums:
            total = self._outer("total")
            before.append(fill(total.name, 1))
            per_step.append(CallStatement(added, (self._flat(buffer), total)))
        for buffer, carry in zip(next_carried, carried, strict=True):
            per_step.append(CallStatement(copied, (self._flat(buffer), carry)))
        if steps.limited and steps.keeps:
            before += [fill(*history) for history in histories]
        if steps.limited:
            per_step.append(Let("done", Apply("add", (Name("k"), Literal(1)))))
        if condition is not None:
            after.append(Store(self._outer("steps_done").name, (Literal(0),), done))
            stops = Apply("logical_not", (Element(self._use(condition).name, ()),))
            per_step.append(When(stops, (Break(),)))
        last_step = Apply("subtract", (Name("count"), Literal(1)))
        first = Let("t", Apply("subtract", (last_step, Name("k"))) if steps.reverse else Name("k"))
        body = (*before, CountedLoop("k", Name("count"), (first, *per_step)), *after)
        return ArrayRoutine(ArrayFunction(self._name, (*self.outer, *self.arguments), body), calls_shared=True)

    def _flat(self, buffer: ArrayBuffer) -> Name:
        return self._use(FlatArgument(self.lowering.name(f"flat_{buffer.name}"), buffer, 1))

    def _outer(self, name: str) -> Name:
        """Return a new argument that the program around the loop passes."""
        self.outer.append(self.lowering.name(name))
        return Name(self.outer[-1])
