"""The text that accumulates totals: sums keep the digits that one float32 number to add to would lose.

The total of a sum is float64. Where that would halve the numbers that a loop works on at once, and where the totals are
an array, float32 parts are summed, and a part is added to the total before it has grown long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from wyrm.compiler.expressions import FAST, adds_up, float_type, formula_lines, number, scalar_type
from wyrm.compiler.loops import Fold, Loop, Placed, Slot, Statement, Value
from wyrm.node.entries import Position
from wyrm.node.loops import LOOPS
from wyrm.node.loops import Fold as Rule
from wyrm.ops.formula import parse
from wyrm.types.dims import Axis, axis_size

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# So many float32 numbers are one part of a total in a variable: a loop over fewer would begin and end too often.
_PART = 512
# After so many rows are those of an array of parts added to the totals; here numbers are added one after another.
_ROWS = 128
# Functions that are called for one number at a time; a loop that calls them is not slower for a float64 total.
_ONE_BY_ONE = {"cos", "erf", "expm1", "log", "log1p", "power", "sin"}


class Names(Protocol):
    """What the text of a function gives: names of its arguments and of its variables."""

    def use(self, slot: Slot, written: bool = False) -> str:
        """The name of an array."""

    def size(self, axis: Axis) -> str:
        """The name of the size of an axis."""

    def temporary(self) -> str:
        """A new name."""


class Totals:
    """The totals of the folds of one function."""

    def __init__(self, names: Names, named: Callable[[str], str]) -> None:
        self._names, self._named = names, named
        self._variables: dict[Value, str] = {}
        # The part that a loop accumulates of a total in a variable.
        self._parts: dict[Value, str] = {}
        self._parts_in: dict[Loop, list[Value]] = {}
        # Totals in float64 of a fold whose own array holds parts of them, or where there is no count, nothing.
        self._wide: dict[Value, Slot] = {}
        self._counts: dict[Value, str] = {}
        self._rows_in: dict[Loop, list[Fold]] = {}

    # --- before a loop ------------------------------------------------------------------------------------------------

    def start(self, loop: Loop) -> list[str]:
        """The lines before a loop that set its totals to what they start from."""
        lines = []
        for fold in loop.starts:
            lines += self._start(fold)
        if _sums_parts(loop):
            for item in loop.items:
                value = item.value if isinstance(item, Statement) and item.kind == "fold" else None
                sums = value is not None and value.node.dtype == FLOAT32 and adds_up(_rule(value).step)
                if value is not None and sums and value.register and value.chain[-1] is not item:
                    self._parts[value] = f"{value.slot.name}_part__"
                    self._parts_in.setdefault(loop, []).append(value)
        return lines

    def _start(self, fold: Fold) -> list[str]:
        value, node, rule = fold.value, fold.value.node, _rule(fold.value)
        if fold.kept is None:
            self._variables[value] = f"{value.slot.name}_total__"
            return [f"{self._variables[value]} = {number(rule.start, self._total_type(value))}"]
        where = ", ".join(":" if entry is None else str(entry) for entry in fold.kept)
        lines = [f"{self._names.use(value.slot, True)}[{where}] = {number(rule.start, node.dtype)}"]
        if node.dtype == FLOAT32 and adds_up(rule.step) and not _at_most(fold.reduced, _ROWS):
            self._wide[value] = wide = Slot(self._named(f"wide_{value.slot.name}"), value.slot.dims, FLOAT64)
            if fold.inner is None:
                lines = [f"{self._names.use(wide, True)}[{where}] = {number(rule.start, FLOAT64)}"]
            else:
                self._counts[value] = self._names.temporary()
                self._rows_in.setdefault(fold.inner, []).append(fold)
                lines += [f"{self._names.use(wide, True)}[{where}] = 0", f"{self._counts[value]} = 0"]
        return lines

    @staticmethod
    def _total_type(value: Value) -> np.dtype[Any]:
        return FLOAT64 if adds_up(_rule(value).step) else value.node.dtype

    # --- in a loop ----------------------------------------------------------------------------------------------------

    def step(self, statement: Statement, operands: list[str]) -> list[str]:
        """The lines that take one element into a total."""
        value = statement.value
        assert value is not None
        rule, dtype = _rule(value), value.node.dtype
        if statement.place:
            slot = value.slot if value in self._counts else self._wide.get(value, value.slot)
            total = f"{self._names.use(slot, True)}[{', '.join(map(str, statement.place))}]"
        else:
            total = self._parts.get(value, self._variables.get(value, ""))
        lines, text = self.formula(rule.step, operands, dtype, total, "", reordered=adds_up(rule.step))
        return [*lines, f"{total} = {text}"]

    def formula(
        self, formula: str, operands: list[str], dtype: np.dtype[Any], total: str, count: str, reordered: bool = False
    ) -> tuple[list[str], str]:
        """A formula of a fold as text; `reordered` where it adds to the total, in whatever order is fast."""
        attributes = {"total": total, "count": count}.__getitem__
        return formula_lines(formula, operands, attributes, dtype, self._names.temporary, reordered)

    def around(self, loop: Loop, depth: int, body: list[str]) -> list[str]:
        """The lines of a loop around those of its body, in parts where it accumulates parts of totals."""
        size, index = self._names.size(loop.axis), str(Position(depth))
        body = [*body, *(line for fold in self._rows_in.get(loop, []) for line in self._add_rows(fold))]
        parts = self._parts_in.get(loop, [])
        zeros = [f"{self._parts[value]} = {number(0.0, FLOAT32)}" for value in parts]
        sums = [f"{self._variables[value]} = {self._variables[value]} + {self._parts[value]}" for value in parts]
        if not parts or _at_most([loop.axis], _PART):
            return [*zeros, f"for {index} in range({size}):", *_indented(body), *sums]
        first, inner = f"first{depth}__", f"j{depth}__"
        return [
            f"{first} = 0",
            f"while {first} < {size}:",
            *_indented(zeros),
            f"    for {inner} in range(min({_PART}, {size} - natural({first}))):",
            f"        {index} = natural({first} + {inner})",
            *_indented(_indented(body)),
            *_indented(sums),
            f"    {first} += {_PART}",
        ]

    def _add_rows(self, fold: Fold) -> list[str]:
        """Add what an array holds to the totals, at the end of so many rows."""
        value, count = fold.value, self._counts[fold.value]

        def add(index: str) -> list[str]:
            part = f"{self._names.use(value.slot, True)}[{index}]"
            return [
                f"{self._names.use(self._wide[value], True)}[{index}] += {part}",
                f"{part} = {number(0.0, FLOAT32)}",
            ]

        assert fold.kept is not None
        return [f"{count} += 1", f"if {count} == {_ROWS}:", f"    {count} = 0", *_indented(self._each(fold, add))]

    def _each(self, fold: Fold, lines: Callable[[str], list[str]]) -> list[str]:
        """Loops over the totals in an array, with these lines in them."""
        assert fold.kept is not None
        name = self._names.use(fold.value.slot, True)
        index = [f"j{position}" if entry is None else str(entry) for position, entry in enumerate(fold.kept)]
        loops = [
            f"for j{position} in range({name}.shape[{position}]):"
            for position, entry in enumerate(fold.kept)
            if entry is None
        ]
        body = lines(", ".join(index))
        for head in reversed(loops):
            body = [head, *_indented(body)]
        return body

    # --- after a loop -------------------------------------------------------------------------------------------------

    def finish(self, value: Value, total: str, count: str) -> tuple[list[str], str]:
        """What a fold makes of its total."""
        rule = _rule(value)
        return self.formula(rule.finish, [], value.node.dtype, total, count) if rule.finish else ([], total)

    def end(self, fold: Fold, variable: str) -> list[str]:
        """The lines after a loop that make the result of a total: in `variable`, or in its array."""
        value, node = fold.value, fold.value.node
        extents = " * ".join(map(self._names.size, fold.reduced))
        if fold.kept is None:
            dtype = self._total_type(value)
            lines, text = self.finish(value, self._variables[value], f"{scalar_type(dtype)}({extents})")
            return [*lines, f"{variable} = {text if dtype == node.dtype else f'{scalar_type(node.dtype)}({text})'}"]
        wide = self._wide.get(value)
        if wide is None and not _rule(value).finish:
            return []
        count = f"{scalar_type(node.dtype if wide is None else FLOAT64)}({extents})"

        def result(index: str) -> list[str]:
            own = total = f"{self._names.use(value.slot, True)}[{index}]"
            if wide is not None:
                total = f"{self._names.use(wide)}[{index}]"
                total = f"({total} + {own})" if value in self._counts else total
            lines, text = self.finish(value, total, count)
            return [*lines, f"{own} = {text}"]

        return self._each(fold, result)


def _rule(value: Value) -> Rule:
    rule = LOOPS.of(value.node).fold
    assert rule is not None
    return rule


def _sums_parts(loop: Loop) -> bool:
    """Whether a loop is faster with float32 sums: it works on vectors, and is short or does more than to read them."""
    statements = [item for item in loop.items if isinstance(item, Statement)]
    called = {
        call.function
        for each in statements
        if each.node is not None and each.node.formula is not None and float_type(each.node) == FLOAT32
        for call in parse(each.node.formula)
    }
    placed = any(isinstance(operand.target, Placed) for each in statements for operand in each.operands)
    return not called & _ONE_BY_ONE and (_at_most([loop.axis], _PART) or placed or bool(called & FAST.keys()))


def _at_most(axes: Sequence[Axis], size: int) -> bool:
    """Whether axes are known to have no more elements."""
    sizes = [axis_size(axis) for axis in axes]
    return None not in sizes and math.prod(each for each in sizes if each is not None) <= size


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"    {line}" for line in lines]
