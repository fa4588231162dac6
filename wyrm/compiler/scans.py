"""The loops inside a graph as functions of the program around them: a body is lowered like a program of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.collect import OpKernels
from wyrm.compiler.decompose import expand
from wyrm.compiler.differentiate import Wanted
from wyrm.compiler.loops import Slot
from wyrm.compiler.lower import Lowering
from wyrm.compiler.materialize import materialize
from wyrm.compiler.naming import Names
from wyrm.compiler.runtime import added, copied, put, taken
from wyrm.compiler.source import Flat, Source
from wyrm.ir.arrays import (
    Apply,
    ArrayFunction,
    Break,
    Call,
    Convert,
    Element,
    Expression,
    Let,
    Literal,
    Loop,
    Name,
    Statement,
    Store,
    When,
    fill,
)  # fmt: skip
from wyrm.ir.types import INT64
from wyrm.kernels.arrays import ArrayRoutine
from wyrm.node.base import BaseNode
from wyrm.node.loops import LOOPS
from wyrm.ops.scan import Steps
from wyrm.schedule.ranges import Ranges
from wyrm.schedule.schedule import Schedule


class ScanSource(Source):
    """The function of a loop: it goes through the steps, each of which is what a program does for a row of data."""

    def __init__(self, node: BaseNode[Any, Any], names: Names, op_kernels: OpKernels, ranges: Ranges) -> None:
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
        super().__init__(materialize(lowering), (), op_kernels=op_kernels)

    def _routine(self) -> ArrayRoutine:
        steps, lowering = self.steps, self.lowering
        inputs, count = steps.body.inputs, steps.carried
        carried = [self._flat(lowering.leaf(given)) for given in inputs[:count]]
        going, rows, sums = self.made[:count], self.made[count:], list[Slot]()
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
            before.append(Call(copied, (start, given)))
            after.append(Call(copied, (given, last)))
            if steps.keeps:
                each.append(Call(put, (given, history, t)))
                if steps.limited and not steps.reverse:  # what the last step left stands beside what it was given
                    after.append(When(Apply("less", (done, length)), (Call(put, (given, history, done)),)))
        for sequence, given in zip(sequences, inputs[count : count + steps.sequences], strict=True):
            if given in lowering.slots:
                each.append(Call(taken, (sequence, t, self._flat(lowering.leaf(given)))))
        spoiling = self._spoiling()
        for invocation in self.invocations:
            each += [*spoiling.get(id(invocation), []), self._call_of(invocation)]
        for slot in rows:
            kept = self._outer("made")
            histories.append((kept.name, 2))
            each.append(Call(put, (self._flat(slot), kept, t)))
        for slot in sums:
            total = self._outer("total")
            before.append(fill(total.name, 1))
            each.append(Call(added, (self._flat(slot), total)))
        for slot, given in zip(going, carried, strict=True):
            each.append(Call(copied, (self._flat(slot), given)))
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
        body = (*before, Loop("k", Name("count"), (first, *each)), *after)
        return ArrayRoutine(ArrayFunction(self._name, (*self.outer, *self.arguments), body), calls_shared=True)

    def _flat(self, slot: Slot) -> Name:
        return self._use(Flat(self.lowering.name(f"flat_{slot.name}"), slot, 1))

    def _outer(self, name: str) -> Name:
        """An argument that comes from the program around the loop."""
        self.outer.append(self.lowering.name(name))
        return Name(self.outer[-1])

    @property
    def count(self) -> int:
        """How many arguments the function has."""
        return len(self.outer) + len(self.arguments)

    def bound(self, operands: list[NDArray[Any]], out: NDArray[Any]) -> tuple[Any, ...]:
        """The arguments of the function, for operands and a tape."""
        from wyrm.compiler.binding import Binding

        steps, inputs = self.steps, self.steps.body.inputs
        own = inputs[: steps.carried + steps.sequences]
        given = operands[steps.limited :]
        same = dict(zip(inputs[len(own) :], given[len(own) :], strict=True))
        binding = Binding(self, {}, {each: each.shape for each in own}, None, same)
        outer: list[Any] = [operands[0].reshape(-1)] if steps.limited else []
        outer += [array.reshape(-1) for array in given[: steps.carried]]
        outer += [_rows(array) for array in given[steps.carried : len(own)]]
        return (*outer, steps.length, *_parts(steps, out), *binding.values)


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    return array.reshape(array.shape[0], int(np.prod(array.shape[1:])))


def _parts(steps: Steps, tape: NDArray[Any]) -> list[NDArray[Any]]:
    """The parts of a tape, each with one axis, or where there is one for each step with two."""
    found = []
    shapes = [tuple(int(axis) for axis in dims) for dims in steps.axes]
    stacked = len(shapes) - steps.summed - steps.stops
    for position, (start, stop, shape) in enumerate(zip(steps.starts, steps.starts[1:], shapes, strict=False)):
        part = tape[start:stop]
        single = position >= stacked or (position < 2 * steps.carried and position % 2 != steps.reverse)
        found.append(part if single else part.reshape(shape[0], int(np.prod(shape[1:]))))
    return found
