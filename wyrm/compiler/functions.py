"""The text of the functions that do the work: one for each top-level item of the tree of loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wyrm.compiler.collect import Collection
from wyrm.compiler.expressions import float_type, formula_lines, number, scalar_type
from wyrm.compiler.folds import Totals
from wyrm.compiler.loops import (
    Block,
    Item,
    Loop,
    Placed,
    Read,
    Reference,
    Slot,
    Statement,
    Straight,
    Value,
    loop_index,
)
from wyrm.compiler.lower import Lowering
from wyrm.node.base import format_dims
from wyrm.node.entries import Entry, Index, Size, flat
from wyrm.node.index_leaves import IndexConstant
from wyrm.node.leaves import Constant
from wyrm.node.loops import LOOPS
from wyrm.node.storage import bound_array
from wyrm.types.dims import Axis, Dim


@dataclass(eq=False)
class Extent:
    """The number of elements along an axis, an argument of the functions that loop over it."""

    name: str
    axis: Axis


@dataclass
class Kernel:
    """A function: its text, and the slots and extents that it is called with."""

    name: str
    text: str
    arguments: list[Slot | Extent]
    written: set[Slot] = field(default_factory=set)


# A name, but not that of an attribute; and a variable where it is assigned.
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"^ *(\w+) =", re.MULTILINE)


class Writer:
    """Writes the functions of one program; what they call goes into the collection."""

    def __init__(self, lowering: Lowering, collection: Collection) -> None:
        self.lowering, self.collection = lowering, collection
        self._extents: dict[Any, Extent] = {}

    def extent(self, axis: Axis) -> Extent:
        """The argument for the size of an axis."""
        if axis not in self._extents:
            name = f"n_{type(axis).__name__.lower()}" if isinstance(axis, Dim) else f"n_{axis}"
            self._extents[axis] = Extent(self.lowering.name(name), axis)
        return self._extents[axis]

    def kernels(self, items: Sequence[Loop | Straight]) -> list[Kernel]:
        """The functions that do what each top-level loop, or sequence of scalars, does."""
        functions = [_Function(self, item) for item in items]
        for function in functions:
            function.prepare()
        # Which values have to be kept in arrays is known only when all expressions are.
        written = [function.write() for function in functions]
        # Layers that repeat differ in names alone: they are one function, with arguments of their own.
        first: dict[str, Kernel] = {}
        for kernel in written:
            kernel.name = first.setdefault(_without_names(kernel), kernel).name
        return written


def _without_names(kernel: Kernel) -> str:
    """The text of a function with its own names, its arguments and variables, numbered as they appear."""
    own = {kernel.name, *(argument.name for argument in kernel.arguments), *_ASSIGNED.findall(kernel.text)}
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        return numbers.setdefault(name, f"<{len(numbers)}>") if name in own else name

    lines = (line.partition("  # ") for line in kernel.text.split("\n"))
    return "\n".join(_NAME.sub(number, code) + comment for code, _, comment in lines)


class _Function:
    """The text of one function, made in two passes: expressions first, for they move what they read out of loops."""

    def __init__(self, writer: Writer, item: Loop | Straight) -> None:
        self.writer, self.item = writer, item
        self.lowering = writer.lowering
        self.arguments: dict[Slot | Extent, None] = {}
        self.written: set[Slot] = set()
        self.before: dict[Item, list[str]] = {}
        self.lines_of: dict[Item, list[str]] = {}
        self.loaded: dict[tuple[Item | None, str], str] = {}
        # What the statement that is being written reads first.
        self.pending: list[str] = []
        self._count = 0
        self.totals = Totals(self, self.lowering.name)

    def prepare(self) -> None:
        """Write the expressions."""
        item = self.item
        if isinstance(item, Loop):
            over = type(item.axis).__name__.lower() if isinstance(item.axis, Dim) else str(item.axis)
            self.name = self.lowering.name(f"loop_over_{over}")
            self._prepare(item, [item])
        else:
            self.name = self.lowering.name("scalars")
            self.before[item] = [f"{self.use(slot, True)}[...] = 0" for slot in item.fills]
            self._prepare(item, [])

    def write(self) -> Kernel:
        """Write the function."""
        body: list[str] = []
        if isinstance(self.item, Loop):
            body += [f"    {line}" for line in self._loop(self.item, 0)]
        else:
            body += [f"    {line}" for line in self.before[self.item]]
            for item in self.item.items:
                assert isinstance(item, Statement)
                body += [f"    {line}" for line in self._final(item)]
        arguments = list(self.arguments)
        header = f"def {self.name}({', '.join(argument.name for argument in arguments)}):"
        return Kernel(self.name, "\n".join([header, *body]) + "\n", arguments, self.written)

    # --- names ----------------------------------------------------------------------------------------------------

    def use(self, slot: Slot | Extent, written: bool = False) -> str:
        """The name of an argument, which the function is given from now on."""
        self.arguments[slot] = None
        if written and isinstance(slot, Slot):
            self.written.add(slot)
        return slot.name

    # One underscore ends the variable of a value, two all others: a value may be named `multiply_3` or `t1`.

    def variable(self, value: Value) -> str:
        return f"{value.slot.name}_"

    def size(self, axis: Axis) -> str:
        """The name of the size of an axis."""
        return self.use(self.writer.extent(axis))

    def temporary(self) -> str:
        """A name that no value has."""
        self._count += 1
        return f"t{self._count}__"

    # --- first pass: expressions ----------------------------------------------------------------------------------

    def _prepare(self, block: Block, path: list[Block]) -> None:
        if isinstance(block, Loop):
            lines = self.before.setdefault(block, [])
            for slot in block.fills:
                lines.append(f"{self.use(slot, True)}[...] = 0")
            lines += self.totals.start(block)
        for item in block.items:
            if isinstance(item, Loop):
                self._prepare(item, [*path, item])
            elif isinstance(item, Statement):
                lines = self._statement(item, path)
                self.lines_of[item] = [*self.pending, *lines]
                self.pending = []

    def render(self, reference: Reference, path: list[Block]) -> tuple[str, int]:
        """The text of an element, read outside of the loops that it does not depend on; and how deep it is known."""
        target = reference.target
        depth_here = len(path)
        if isinstance(target, Value) and target.register and self._in_scope(target, path):
            text, depth = self.variable(target), depth_here
        elif isinstance(target, Placed):
            text, depth = self._by_place(target, reference.index, path)
        else:
            slot = target.slot if isinstance(target, Value) else target
            if isinstance(target, Value):
                target.stored = True
            literal = _literal(slot)
            if literal is not None:
                return self._cast(literal, reference), 0
            entries, depth = [], 0
            for entry in reference.index:
                text, deep = self._entry(entry, path)
                entries.append(text)
                depth = max(depth, deep)
            text = f"{self.use(slot)}[{', '.join(entries) or '()'}]"
            text = self._load(text, slot, path, depth)
        return self._cast(text, reference), depth

    def _by_place(self, target: Placed, index: Index, path: list[Block]) -> tuple[str, int]:
        """The text of an element that is computed from its place."""
        node, names, depth = target.node, dict[Entry, str](), 0
        rule = LOOPS.of(node)
        assert rule.by_place is not None
        sizes = [Size(axis) for axis in node.dims]
        for position, (entry, size) in enumerate(zip(index, sizes, strict=True)):
            more, deep = self._leaves(entry, path)
            names |= more
            if position:
                names[size] = self.size(size.axis)
            depth = max(depth, deep)
        arguments = [flat(index, sizes).text(names)]
        for operand in target.operands:
            text, deep = self.render(operand, path)
            arguments.append(text)
            depth = max(depth, deep)
        arguments += map(repr, rule.place_arguments(node))
        function = self.writer.collection.add(rule.by_place, rule.by_place.__name__, float_type(node))
        call = f"{function}({', '.join(arguments)})"
        return self._once(call, target.name, path, depth), depth

    @staticmethod
    def _cast(text: str, reference: Reference) -> str:
        for dtype in reversed(reference.casts):
            text = f"{scalar_type(dtype)}({text})"
        return text

    def _entry(self, entry: Entry, path: list[Block]) -> tuple[str, int]:
        """The text of an entry of an index, and how deep it is known."""
        names, depth = self._leaves(entry, path)
        return entry.text(names), depth

    def _leaves(self, entry: Entry, path: list[Block]) -> tuple[dict[Entry, str], int]:
        """The names of the sizes and integers that an entry is made of, and how deep they are known."""
        leaves, depth = list(entry.leaves()), entry.loops()
        names: dict[Entry, str] = {leaf: self.size(leaf.axis) for leaf in leaves if isinstance(leaf, Size)}
        for leaf in leaves:
            if isinstance(leaf, Read):
                names[leaf], deep = self.render(leaf.reference, path)
                depth = max(depth, deep)
        return names, depth

    def _load(self, text: str, slot: Slot, path: list[Block], depth: int) -> str:
        """A variable for an element, read where all that its index depends on is known."""
        return self._once(text, slot.name, path, depth)

    def _once(self, text: str, name: str, path: list[Block], depth: int) -> str:
        """A variable for the value of an expression, computed once in the block where all that it depends on is known.

        What that block reads it also has for the rest of it, for what is read does not change any more.
        """
        key = path[depth - 1] if depth else None, text
        if key not in self.loaded:
            self.loaded[key] = f"{name}_{len(self.loaded)}__"
            if path and depth == len(path):
                lines = self.pending
            else:
                lines = self.before.setdefault(path[depth] if path else self.item, [])
            lines.append(f"{self.loaded[key]} = {text}")
        return self.loaded[key]

    def _in_scope(self, value: Value, path: list[Block]) -> bool:
        """Whether the variable of a value exists in the blocks of `path`."""
        loops, here = value.chain[:-1], [*path] or [self.item]
        return bool(loops) and list(loops) == list(here[: len(loops)])

    def _statement(self, statement: Statement, path: list[Block]) -> list[str]:
        node, value = statement.node, statement.value
        assert node is not None
        operands = [self.render(operand, path)[0] for operand in statement.operands]
        comment = _comment(f"{node.op_name()} {format_dims(node.dims)}")
        if statement.kind == "rows":
            return self._add_to_rows(statement, operands, path)
        assert value is not None
        if statement.kind == "write":
            place = ", ".join(self._entry(entry, path)[0] for entry in statement.place) or "()"
            return [f"{self.use(value.slot, True)}[{place}] {'+=' if statement.adds else '='} {operands[0]}{comment}"]
        if statement.kind == "fold":
            return self._fold(statement, operands, comment)
        if statement.kind == "copy":
            return [f"{self.variable(value)} = {operands[0]}{comment}"]
        assert node.formula is not None
        dtype = float_type(node)
        lines, text = formula_lines(
            node.formula, operands, lambda name: number(getattr(node, name), dtype), dtype, self.temporary
        )
        return [*lines, f"{self.variable(value)} = {text}{comment}"]

    def _fold(self, statement: Statement, operands: list[str], comment: str) -> list[str]:
        value = statement.value
        assert value is not None
        rule, dtype = LOOPS.of(value.node).fold, value.node.dtype
        assert rule is not None
        if value.chain[-1] is statement:  # of one element each
            lines, text = self.totals.formula(rule.step, operands, dtype, number(rule.start, dtype), "")
            more, text = self.totals.finish(value, f"({text})", number(1.0, dtype))
            return [*lines, *more, f"{self.variable(value)} = {text}{comment}"]
        *lines, last = self.totals.step(statement, operands)
        return [*lines, f"{last}{comment}"]

    def _add_to_rows(self, statement: Statement, operands: list[str], path: list[Block]) -> list[str]:
        rows = statement.rows
        assert rows is not None
        slots, table, count, sums = (self.use(s, True) for s in (rows.slots, rows.rows, rows.count, rows.sums))
        row, depth = self._entry(statement.place[0], path)
        place = self._once(f"claim({row}, {slots}, {table}, {count})", table, path, depth)
        index = [place, *(self._entry(entry, path)[0] for entry in statement.place[1:])]
        comment = _comment(f"into the gradient of {rows.sums.name.removeprefix('sums_of_')}")
        return [f"{sums}[{', '.join(index)}] += {operands[0]}{comment}"]

    # --- second pass: text ----------------------------------------------------------------------------------------

    def _loop(self, loop: Loop, depth: int) -> list[str]:
        body: list[str] = []
        for item in loop.items:
            if isinstance(item, Loop):
                body += self._loop(item, depth + 1)
            elif isinstance(item, Statement):
                body += self._final(item)
        lines = [*self.before.get(loop, []), *self.totals.around(loop, depth, body)]
        for fold in loop.starts:
            value = fold.value
            *more, last = self.totals.end(fold, self.variable(value)) or [""]
            if fold.kept is None:
                lines += [*more, last + _comment(f"{value.node.op_name()} {format_dims(value.node.dims)}")]
                lines += [self._store(value)] if value.stored else []
            elif last:
                lines += [*more, last]
        return lines

    def _final(self, statement: Statement) -> list[str]:
        value = statement.value
        store = value is not None and value.register and value.chain[-1] is statement and value.stored
        return [*self.lines_of[statement], *([self._store(value)] if store and value is not None else [])]

    def _store(self, value: Value) -> str:
        index = ", ".join(map(str, loop_index(value.slot.dims))) or "()"
        return f"{self.use(value.slot, True)}[{index}] = {self.variable(value)}"


def _comment(text: str) -> str:
    """A comment: one line of printable characters, whatever users have named things."""
    return "  # " + re.sub(r"[^\x20-\x7e]", " ", text)


def _literal(slot: Slot) -> str | None:
    """The text of a constant scalar."""
    if not isinstance(slot.leaf, Constant | IndexConstant) or slot.dims:
        return None
    value = bound_array(slot.leaf).item()
    return number(value, slot.dtype) if slot.dtype.kind == "f" else repr(value)
