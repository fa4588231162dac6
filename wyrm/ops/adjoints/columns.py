"""Columns of the tape: the values that the turns of a loop record, each in an array of its own.

Of a place on the tape that moves in each turn, compilers cannot tell that turns write apart, nor check all at once. So
a loop whose number of turns is known before it, and in whose inner blocks nothing is recorded, has a view of the tape
for each value, `column[i]`.

Where a turn reads `x[i]` and `x[i + 1]`, and writes `x[i]` alone, the next turn reads the second one again: both share
a column, which has one element more than the loop has turns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from wyrm.ops.adjoints.elements import Elements
from wyrm.ops.adjoints.program import (
    Block,
    Let,
    Loop,
    Put,
    Store,
    Turns,
    base,
    blocks_of,
    every,
    indices,
    names,
    replaced,
    same,
    statements_of,
    text_of,
)
from wyrm.ops.adjoints.values import Kernel


@dataclass
class Tape:
    """The memory of values that the backward sweep cannot compute: an array, and how many numbers are in it."""

    array: str
    place: str
    used: bool = False

    def at(self, i: int) -> str:
        """Return the text of the element so many places behind the last number."""
        return f"{self.array}[{self.place}{f' + {i}' if i else ''}]"


@dataclass
class Columns:
    """The columns of a loop.

    `turns`: how many turns it has, as a text. `places`: where its turns write each value. `made`: the columns on each
    tape, by its array, and how many elements more than turns each has. `first`: what is written for a value before the
    first turn, in place of each turn.
    """

    tapes: Sequence[Tape]
    turns: str
    places: dict[str, str] = field(default_factory=dict)
    made: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def more(self, tape: Tape) -> int:
        """Return how many elements beyond those of turns the loop needs on a tape."""
        return sum(more for _, more in self.made[tape.array])

    def size(self, tape: Tape) -> str:
        """Return how many elements the loop needs on a tape, as a text."""
        return self._elements(len(self.made[tape.array]), self.more(tape))

    def _elements(self, columns: int, more: int) -> str:
        if not columns:
            return str(more)
        turns = self.turns if columns == 1 else f"{columns} * {self.turns}"
        return f"{turns} + {more}" if more else turns

    def views(self) -> list[ast.stmt]:
        """Return the statements that name the columns."""
        out: list[ast.stmt] = []
        for tape in self.tapes:
            more = 0
            for i, (column, own) in enumerate(self.made[tape.array]):
                first, more = self._elements(i, more), more + own
                start = tape.place if first == "0" else f"{tape.place} + {first}"
                out += statements_of(f"{column} = {tape.array}[{start}:{tape.place} + {self._elements(i + 1, more)}]")
        return out

    def at_first(self) -> list[ast.stmt]:
        """Return the statements before the first turn of the call that records."""
        text = "\n".join(f"    {each}" for each in self.first.values())
        return statements_of(f"if {self.turns} > 0:\n{text}") if text else []

    def moved(self, sign: str) -> list[ast.stmt]:
        """Return the statements that move the places on the tapes past the columns, or back with "-"."""
        sizes = [(tape.place, self.size(tape)) for tape in self.tapes]
        return [each for place, size in sizes if size != "0" for each in statements_of(f"{place} {sign}= {size}")]


def columns_of(
    kernel: Kernel, elements: Elements, tapes: Sequence[Tape], recorded: Callable[[Tape, Block], list[str]]
) -> dict[int, Columns]:
    """Return the columns of the loops that have some, by their blocks; `recorded` are the values of a block."""
    found: dict[int, Columns] = {}
    for loop in every(kernel.body):
        if not isinstance(loop, Turns) or not any(recorded(tape, loop.body) for tape in tapes):
            continue
        turns, least = _turns(loop, elements)
        inner = [block for each in every(loop.body) for block in blocks_of(each)]
        divided = any(isinstance(each, Loop) and each.blocks is not None for each in every(loop.body))
        if turns and not divided and not any(recorded(tape, block) for tape in tapes for block in inner):
            values = {tape.array: recorded(tape, loop.body) for tape in tapes}
            found[id(loop.body)] = _of_loop(kernel, elements, loop, Columns(tapes, turns), values, least)
    return found


def _turns(loop: Turns, elements: Elements) -> tuple[str, int]:
    """Return the number of turns of a loop, and the least value of its variable, which it begins or ends with.

    The number is empty for a loop of another form.
    """
    start, stop, step = loop.bounds
    if loop.stop is not None or loop.trips:
        return "", 0
    match start, stop, step:
        case ast.Constant(value=0), _, ast.Constant(value=1):
            return (text_of(stop) if elements.is_natural(stop) else f"max({ast.unparse(stop)}, 0)"), 0
        case ast.Constant(value=int() as least), _, ast.Constant(value=1):
            return f"max({text_of(stop)} - {least}, 0)", least
        case _, ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)), ast.UnaryOp(operand=ast.Constant(value=1)):
            return f"max({ast.unparse(start)} + 1, 0)", 0
        case _, ast.Constant(value=int() as below), ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)):
            return f"max({text_of(start)} - {below}, 0)", below + 1
    return "", 0


def _of_loop(
    kernel: Kernel, elements: Elements, loop: Turns, found: Columns, values: Mapping[str, list[str]], least: int
) -> Columns:
    for array, mine in values.items():
        ahead = _read_again(kernel, elements, loop, mine) if not least else {}
        found.made[array] = []
        for each in mine:
            if each in ahead.values():
                continue
            column = kernel.fresh("column")
            found.made[array].append((column, least + (each in ahead)))
            found.places[each] = f"{column}[{loop.name}]"
            if each in ahead:
                found.places[ahead[each]] = f"{column}[{loop.name} + 1]"
                load = replaced(kernel.definitions[each].value, {loop.name: ast.Constant(0)})
                found.first[each] = f"{column}[0] = {ast.unparse(load)}"
    return found


def _read_again(kernel: Kernel, elements: Elements, loop: Turns, mine: Sequence[str]) -> dict[str, str]:
    """Return the values of elements `x[i]` that are those of `x[i + 1]` in the turn before, with the latter."""
    if ast.unparse(loop.bounds[2]) != "1" or any(isinstance(each, Loop) for each in loop.body):
        return {}
    assigned = {each.name for each in every(loop.body) if isinstance(each, Let | Put)}
    loads: dict[str, tuple[int, ast.Subscript]] = {}
    for each in mine:
        let = kernel.definitions.get(each)
        if (
            let is None
            or let not in loop.body
            or not isinstance(let.value, ast.Subscript)
            or names(let.value) & assigned
        ):
            continue
        if all(map(elements.is_natural, indices(let.value))):
            loads[each] = loop.body.index(let), let.value
    found: dict[str, str] = {}
    for each, (place, load) in loads.items():
        root = kernel.root(base(load))
        writes = [s for s in every(loop.body) if isinstance(s, Store) and kernel.root(base(s.target)) == root]
        for other, (later, ahead) in loads.items():
            taken = {*found, *found.values()}
            if other == each or taken & {each, other} or not is_next(load, ahead, loop.name):
                continue
            if all(
                s in loop.body and loop.body.index(s) > max(place, later) and ast.unparse(s.target) == ast.unparse(load)
                for s in writes
            ):
                found[each] = other
    return found


def is_next(x: ast.Subscript, y: ast.Subscript, turn: str, by: int = 1) -> bool:
    """Return whether one index of an element is more by `by` than that of another, and both use a loop's variable."""
    first, second = indices(x), indices(y)
    if len(first) != len(second) or not same(x.value, y.value):
        return False
    moved = 0
    for a, b in zip(first, second, strict=True):
        one, two = _added_to(a, turn), _added_to(b, turn)
        if one is not None and two is not None and two - one == by:
            moved += 1
        elif turn in names(a, b) or not same(a, b):
            return False
    return moved == 1


def _added_to(e: ast.expr, turn: str) -> int | None:
    """Return what an index adds to the variable of a loop; None for another expression."""
    match e:
        case ast.Name(id=text) if text == turn:
            return 0
        case ast.BinOp(left=ast.Name(id=text), op=ast.Add(), right=ast.Constant(value=int() as value)) if text == turn:
            return value
        case ast.BinOp(left=ast.Name(id=text), op=ast.Sub(), right=ast.Constant(value=int() as value)) if text == turn:
            return -value
    return None
