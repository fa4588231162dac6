"""The loops inside a graph as functions of the program around them: a body is lowered like a program of its own."""

from __future__ import annotations

from wyrm.compiler.decompose import expand
from wyrm.compiler.differentiate import Wanted
from wyrm.compiler.loops import ArrayBuffer
from wyrm.compiler.lower import Lowering
from wyrm.compiler.materialize import materialize
from wyrm.compiler.naming import UniqueNames
from wyrm.compiler.op_kernels import OpKernels
from wyrm.compiler.runtime import added, copied, put, taken
from wyrm.compiler.source import FlatArgument, Source
from wyrm.ir.arrays import (
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
from wyrm.ir.types import INT64
from wyrm.kernels.arrays import ArrayRoutine
from wyrm.node.base import BaseNode
from wyrm.node.index_leaves import IndexInput
from wyrm.node.leaves import Input
from wyrm.node.loop_form import LOOPS
from wyrm.ops.philox import STEP
from wyrm.schedule.ranges import Ranges
from wyrm.schedule.schedule import Schedule


def write(lowering: Lowering) -> Source:
    """The functions that compute what was lowered, with columns of data for all inputs."""
    leaves = lowering.schedule.leaves
    inputs = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput) and leaf is not STEP]
    return Source(lowering, inputs, OpKernels(), ScanSource)


class ScanSource(Source):
    """The function of a loop: it goes through the steps, each of which is what a program does for a row of data."""

    def __init__(self, node: BaseNode, names: UniqueNames, op_kernels: OpKernels, ranges: Ranges) -> None:
        steps = LOOPS.of(node).steps(node)
        assert steps is not None
        self.steps = steps
        standing = expand(steps.body.outputs)
        schedule = Schedule([standing[output] for output in steps.body.outputs])
        made = [schedule.representative[standing[output]] for output in steps.body.outputs]
        lowering = Lowering(schedule, Wanted([]), ranges.inside(node), names)
        self.made = [lowering.own_array(node) for node in made]
        lowering.outputs = self.made
        self.outer: list[str] = []
        self._name = names("scan")
        super().__init__(materialize(lowering), (), op_kernels, ScanSource)

    def _routine(self) -> ArrayRoutine:
        steps, lowering = self.steps, self.lowering
        inputs, count = steps.body.inputs, steps.carried
        carried = [self._flat(lowering.leaf(given)) for given in inputs[:count]]
        going, rows, sums = self.made[:count], self.made[count:], list[ArrayBuffer]()
        going_on = rows.pop() if steps.stops else None
        if steps.summed:
            rows, sums = rows[: -steps.summed], rows[-steps.summed :]
        before, each, after = list[Statement](), list[Statement](), list[Statement]()
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
        histories: list[tuple[str, int]] = []  # and their axes
        for start, given in zip(starts, carried, strict=True):
            named = {
                name: self._outer(name) for name in (("last", "history") if steps.reverse else ("history", "last"))
            }
            last, history = named["last"], named["history"]
            histories.append((history.name, 2))
            before.append(CallStatement(copied, (start, given)))
            after.append(CallStatement(copied, (given, last)))
            if steps.keeps:
                each.append(CallStatement(put, (given, history, t)))
                if steps.limited and not steps.reverse:  # what the last step left stands beside what it was given
                    after.append(When(Apply("less", (done, length)), (CallStatement(put, (given, history, done)),)))
        for sequence, given in zip(sequences, inputs[count : count + steps.sequences], strict=True):
            if given in lowering.buffers:
                each.append(CallStatement(taken, (sequence, t, self._flat(lowering.leaf(given)))))
        spoiling = self._spoiling()
        for invocation in self.invocations:
            each += [*spoiling.get(id(invocation), []), self._call_of(invocation)]
        for buffer in rows:
            kept = self._outer("made")
            histories.append((kept.name, 2))
            each.append(CallStatement(put, (self._flat(buffer), kept, t)))
        for buffer in sums:
            total = self._outer("total")
            before.append(fill(total.name, 1))
            each.append(CallStatement(added, (self._flat(buffer), total)))
        for buffer, given in zip(going, carried, strict=True):
            each.append(CallStatement(copied, (self._flat(buffer), given)))
        if steps.limited and steps.keeps:
            before += [fill(*history) for history in histories]
        if steps.limited:
            each.append(Let("done", Apply("add", (Name("k"), Literal(1)))))
        if going_on is not None:
            after.append(Store(self._outer("steps_done").name, (Literal(0),), done))
            stops = Apply("logical_not", (Element(self._use(going_on).name, ()),))
            each.append(When(stops, (Break(),)))
        last_step = Apply("subtract", (Name("count"), Literal(1)))
        first = Let("t", Apply("subtract", (last_step, Name("k"))) if steps.reverse else Name("k"))
        body = (*before, CountedLoop("k", Name("count"), (first, *each)), *after)
        return ArrayRoutine(ArrayFunction(self._name, (*self.outer, *self.arguments), body), calls_shared=True)

    def _flat(self, buffer: ArrayBuffer) -> Name:
        return self._use(FlatArgument(self.lowering.name(f"flat_{buffer.name}"), buffer, 1))

    def _outer(self, name: str) -> Name:
        """An argument that comes from the program around the loop."""
        self.outer.append(self.lowering.name(name))
        return Name(self.outer[-1])
