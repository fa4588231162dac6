"""Kernels of a batch whose rows threads share: each row is a call of the kernel, on a batch of one row.

The rows are in slots, as many for any number of threads: what is summed over rows is summed in each slot, and then over
the slots, so a result does not depend on the threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any

from wyrm.graph.typing import Array
from wyrm.ops.adjoints.plans import GradientPlan, Memory, Plan, Sizes, ValuePlan, filled, made, memory_of
from wyrm.ops.adjoints.program import Kind
from wyrm.ops.kernels.native import scratch
from wyrm.ops.kernels.sums import shared_turns

SLOTS = 16
# What the kernels take beside the arrays: the number of slots, and the elements that each computes.
_NUMBERS = "slots", "work"


def _shared(
    name: str, plan: RowsPlan, inner: Callable[..., Any], arguments: Mapping[str, str], before: Sequence[str] = ()
) -> Callable[..., Any]:
    """Return the kernel whose threads share slots, and which calls another one for each row with these arguments."""
    rows = f"{plan.batch}.shape[0]"
    body = [
        "for slot in shared_turns(slots, work):",
        *(f"    {line}" for text in before for line in text.splitlines()),
        f"    for row in range({rows} * slot // slots, {rows} * (slot + 1) // slots):",
        f"        {inner.__name__}({', '.join(arguments.values())})",
    ]
    return made(name, [*arguments, *_NUMBERS], body, {inner.__name__: inner, "shared_turns": shared_turns}, plan.module)


class RowsPlan(Plan):
    """The results of a kernel for each row of a batch: the first axis of the operands `parts` and of the results.

    `function` is a loop over the rows, which the next derivatives are made of.
    """

    def __init__(self, row: ValuePlan, parts: frozenset[str]) -> None:
        self.row, self.parts = row, parts
        self.name, self.operands, self.outputs, self.room = row.name, row.operands, row.outputs, row.room
        self.names_of_outputs, self.type, self.fixed = row.names_of_outputs, row.type, row.fixed
        self.tape_limit = row.tape_limit
        # The operand that tells the number of rows.
        self.batch: str = next(each.name for each in row.operands if each.name in parts)

    def __reduce__(self) -> tuple[object, ...]:
        return rows_of, (self.row, self.parts)

    @property
    def module(self) -> str:
        return self.row.module

    @property
    def kinds(self) -> dict[str, Kind]:
        return self.row.kinds

    def of_row(self, text: str) -> str:
        """Return the argument of a call for one row."""
        return f"{text}[row:row + 1]" if text in self.parts or text in self.names_of_outputs else text

    @cached_property
    def function(self) -> Callable[..., Any]:
        inner = self.row.function
        call = f"{inner.__name__}({', '.join(map(self.of_row, self.kinds))})"
        body = [f"for row in range({self.batch}.shape[0]):", f"    {call}"]
        return made(f"{self.name}_of_rows", list(self.kinds), body, {inner.__name__: inner}, self.module)

    def memory(self, shapes: Sizes) -> list[Memory]:
        return self.row.memory(self.shapes_of_row(shapes))

    def shapes_of_row(self, shapes: Sizes) -> list[tuple[int, ...]]:
        """Return the shapes of the operands of a call for one row."""
        named = zip(self.operands, shapes, strict=False)
        return [(1, *shape[1:]) if operand.name in self.parts else tuple(shape) for operand, shape in named]

    def rows(self, shapes: Sizes) -> int:
        """Return the number of rows."""
        places = [each.name for each in self.operands]
        return int(shapes[places.index(self.batch)][0])

    def numbers(self, shapes: Sizes, memory: Sequence[Memory]) -> dict[str, int]:
        """Return the arguments that tell threads what there is to do."""
        of_row = sum(math.prod(shape) for shape in self.shapes_of_row(shapes)) + sum(math.prod(x.shape) for x in memory)
        return {"slots": SLOTS, "work": max(1, self.rows(shapes) * of_row // SLOTS)}

    @cached_property
    def kernel(self) -> Callable[..., Any]:
        arguments = {each: self.of_row(each) for each in self.kinds}
        arguments |= {each: f"{each}[slot]" for each in self.row.derived.scratch}
        return _shared(f"{self.name}_rows", self, self.row.function, arguments)

    def kernel_arguments(self, operands: Sequence[Array], outputs: Sequence[Array]) -> list[Any]:
        shapes = [x.shape for x in operands]
        memory = self.memory(shapes)
        found = {**self.given(operands, outputs), **self.numbers(shapes, memory)}
        found |= {each.name: scratch((SLOTS, *each.shape), each.dtype) for each in memory}
        return [found[each] for each in (*self.kinds, *_NUMBERS)]

    def _gradient_at(self, levels: int) -> RowsGradientPlan:
        return RowsGradientPlan(self, levels)


@cache
def rows_of(row: ValuePlan, parts: frozenset[str]) -> RowsPlan:
    """Return the plan of the rows of a batch, for the plan of one row."""
    return RowsPlan(row, parts)


class RowsGradientPlan(GradientPlan):
    """The gradients of a kernel of rows; those that sum over rows are sums of each slot, along a first axis."""

    plan: RowsPlan

    def __init__(self, plan: RowsPlan, levels: int = 0) -> None:
        self.plan, self._row, self.levels = plan, plan.row.gradient_at(levels), levels
        row = self._row
        self.name, self.order, self.room, self.type, self.fixed = row.name, row.order, row.room, row.type, row.fixed
        self.tape_limit = row.tape_limit
        self.operands, self.outputs, self.names_of_outputs = row.operands, row.outputs, row.names_of_outputs
        self.wanted, self.seeded = row.wanted, row.seeded
        names = [plan.operands[i].name for i in self.wanted]
        self.summed = frozenset(i for i, each in enumerate(names) if each not in plan.parts)

    # --- for the next derivative, rows are in a loop ------------------------------------------------------------------

    @cached_property
    def _of_loop(self) -> GradientPlan:
        return GradientPlan(self.plan)

    @property
    def function(self) -> Callable[..., Any]:
        return self._of_loop.function

    def gradient_at(self, levels: int) -> GradientPlan:
        return self._of_loop.gradient_at(levels)

    @property
    def has_gradient(self) -> bool:
        return False  # residuals of the next derivative hold sums over all rows

    # --- two calls ----------------------------------------------------------------------------------------------------

    def in_value(self, sizes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
        return [(SLOTS, *shape) if i in self.summed else shape for i, shape in enumerate(self.shapes(sizes))]

    @property
    def has_known_tapes(self) -> bool:
        return self._row.has_known_tapes

    def tapes(self, shapes: Sizes) -> list[Memory]:
        rows = self.plan.rows(shapes)
        found = self._row.tapes(self.plan.shapes_of_row(shapes))
        return [Memory(each.name, each.type, (rows, *each.shape)) for each in found]

    def work(self, shapes: Sizes) -> list[Memory]:
        found = self._row.work(self.plan.shapes_of_row(shapes))
        return [Memory(each.name, each.type, (SLOTS, *each.shape)) for each in found]

    def residuals(self, shapes: Sizes) -> list[Memory]:
        rows = self.plan.rows(shapes)
        return [
            Memory(each.name, each.type, (rows, *each.shape))
            for each in self._row.residuals(self.plan.shapes_of_row(shapes))
        ]

    @property
    def forward_names(self) -> list[str]:
        return [*self._row.forward_names, *_NUMBERS]

    @cached_property
    def forward(self) -> Callable[..., Any]:
        arguments = {each: self.plan.of_row(each) for each in self.plan.kinds}
        arguments |= {each: f"{each}[{self._place(each)}]" for each in self.plan.row.derived.scratch}
        arguments |= {text: f"{text}[row]" for text, _ in self._row.first.tapes}
        return _shared(f"{self.plan.name}_forward_rows", self.plan, self._row.forward, arguments)

    def _place(self, memory: str) -> str:
        """Return where memory of the kernel is: each row has its own where the gradient reads it."""
        return "row" if memory in self._row.read else "slot"

    def forward_arguments(
        self, operands: Sequence[Array], outputs: Sequence[Array], residuals: Mapping[str, Array]
    ) -> list[Any]:
        shapes = [x.shape for x in operands]
        memory = self.plan.memory(shapes)
        found = {**self.plan.given(operands, outputs), **self.plan.numbers(shapes, memory), **residuals}
        for each in memory:
            if each.name not in residuals:
                found[each.name] = scratch((SLOTS, *each.shape), each.dtype)
        return [found[each] for each in self.forward_names]

    @cached_property
    def backward(self) -> Callable[..., Any]:
        plan, row = self.plan, self._row
        summed = {self.names_of_outputs[i] for i in self.summed}
        arguments = {each: plan.of_row(each) for each in plan.kinds}
        arguments |= {each: f"{each}[{self._place(each)}]" for each in plan.row.derived.scratch}
        arguments |= {each: f"{each}[row:row + 1]" for each in row.seeds.values()}
        arguments |= {
            each: f"sum_{each}" if each in summed
            else f"{each}[row:row + 1]" if each in self.names_of_outputs
            else f"{each}[slot]"
            for each in row.d.values()
        }  # fmt: skip
        arguments |= {text: f"{text}[row]" for text, _ in row.second.tapes}
        arguments |= {each.name: f"{each.name}[slot]" for each in row.second.work}
        inner = row.with_cotangents(row.second, f"{self.name}_op", frozenset(summed))
        axes = {each: len(self.outputs[i]) or 1 for i, each in enumerate(self.names_of_outputs)}
        zeros = [f"sum_{each} = {each}[slot]\n{filled(f'sum_{each}', axes[each], '0.0')}" for each in sorted(summed)]
        return _shared(f"{self.name}_rows", plan, inner, arguments, zeros)

    def backward_arguments(
        self, operands: Sequence[Array], residuals: tuple[Sequence[Array], Mapping[str, Array]],
        outputs: Sequence[Array],
    ) -> list[Any]:  # fmt: skip
        plan, row, (results, memory) = self.plan, self._row, residuals
        count = len(plan.operands)
        shapes = [x.shape for x in operands[:count]]
        own = plan.memory(shapes)
        found = {**plan.given(operands[:count], results), **self.given(operands, outputs), **memory}
        # A number has one axis in kernels.
        found |= {
            self.names_of_outputs[i]: outputs[i].reshape(SLOTS, *(outputs[i].shape[1:] or (1,))) for i in self.summed
        }
        for each in own:  # what the backward sweep does not read
            if each.name not in memory:
                found[each.name] = scratch((SLOTS, *(0,) * len(each.shape)), each.dtype)
        for each in row.own_cotangents(plan.shapes_of_row(shapes)):
            found[each.name] = scratch((SLOTS, *each.shape), each.dtype)
        found |= {each.name: each.made() for each in self.work(shapes)}
        found |= plan.numbers(shapes, own)
        names = [*plan.kinds, *row.seeds.values(), *row.d.values(), *memory_of(row.second)]
        return [found[each] for each in (*names, *_NUMBERS)]
