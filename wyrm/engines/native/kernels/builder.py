"""The builder that collects the statements of a function while it is compiled."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from wyrm.engines.native.ir.program import (
    Assign,
    Atomic,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    LibraryCall,
    Load,
    Number,
    Operation,
    Select,
    ShiftedSums,
    Statement,
    StoreAt,
    TiledProduct,
    Variable,
    children,
)
from wyrm.engines.native.ir.types import BOOL, INT32, INT64
from wyrm.engines.native.kernels.values import ZERO, KernelValue, Num, TupleValue, View
from wyrm.support.frozen import frozen

OUT_OF_BOUNDS = "index is out of bounds"
DIFFERENT_SHAPES = "an array cannot be broadcast to the shape that it is copied to"

# The statements that may write to memory.
_WRITES = StoreAt | Invoke | TiledProduct | ShiftedSums | LibraryCall | Atomic


@frozen
class Mark:
    """A position in a block, with the number of memory writes before it."""

    block: list[Statement]
    position: int
    writes: int


class Builder:
    """Appends statements to the current block and generates unique names."""

    def __init__(self, errors: dict[int, str], checked: bool) -> None:
        self.statements: list[Statement] = []
        self._errors = errors
        self.checked = checked
        self.fails: bool = False
        # The line that is being translated, and those of statements by their ids.
        self.line: int | None = None
        self.lines: dict[int, int | None] = {}
        self._count = 0
        self._writes = 0

    def add(self, statement: Statement) -> None:
        """Append a statement."""
        if isinstance(statement, _WRITES):
            self._writes += 1
        self.lines[id(statement)] = self.line
        self.statements.append(statement)

    def fresh(self, name: str) -> str:
        """Return a unique name that no kernel variable can have."""
        self._count += 1
        return f"{name}#{self._count}"

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Collect the statements added inside the `with` block in a list of their own, which it yields."""
        around, self.statements = self.statements, []
        try:
            yield self.statements
        finally:
            self.statements = around

    def let(self, value: Expression, name: str = "t") -> Expression:
        """Compute a value here and return its variable; return a variable or constant unchanged."""
        if isinstance(value, Variable | Number):
            return value
        return self.copy(value, name)

    def copy(self, value: Expression, name: str = "t") -> Expression:
        """Copy a value to a new variable, which later assignments cannot change; return a constant unchanged."""
        if isinstance(value, Number):
            return value
        variable = Variable(self.fresh(name), value.type)
        self.add(Assign(variable, value))
        return variable

    # --- evaluation order -----------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Return the current position."""
        return Mark(self.statements, len(self.statements), self._writes)

    def settled(self, mark: Mark, value: KernelValue) -> KernelValue:
        """Return a value that was computed at the mark as it was then, although memory may have been written since.

        Its loads move to the mark. They are inserted there, so settle marks from the last to the first.
        """
        if self._writes == mark.writes:
            return value

        def early(expression: Expression) -> Expression:
            if not loads(expression):
                return expression
            variable = Variable(self.fresh("t"), expression.type)
            mark.block.insert(mark.position, Assign(variable, expression))
            return variable

        match value:
            case Num(expression, weak, natural):
                return Num(early(expression), weak, natural)
            case View(pointer, element, shape, strides, layout):
                return View(early(pointer), element, tuple(map(early, shape)), tuple(map(early, strides)), layout)
            case TupleValue(items):
                return TupleValue(tuple(self.settled(mark, item) for item in items))
            case _:
                return value

    # --- errors, checks and loops ---------------------------------------------------------------------------------

    def fail(self, message: str) -> None:
        """Add a statement that ends the program with an `IndexError`."""
        code = zlib.crc32(message.encode()) & 0x7FFFFFFF | 1  # stable across programs
        self._errors[code] = message
        self.fails = True
        self.add(Fail(Number(code, INT32)))

    def fail_where(self, condition: Expression, message: str) -> None:
        """End the program with an error if a condition holds."""
        with self.block() as body:
            self.fail(message)
        self.add(If(condition, tuple(body)))

    def check(self, index: Expression, size: Expression) -> None:
        """In debug mode, end the program with an error if an index is out of bounds."""
        if self.checked:
            below, beyond = Operation("less", (index, ZERO), BOOL), Operation("greater_equal", (index, size), BOOL)
            self.fail_where(Operation("or", (below, beyond), BOOL), OUT_OF_BOUNDS)

    @contextmanager
    def loop(self, count: Expression, name: str = "i") -> Iterator[Variable]:
        """Add a loop; statements added inside the `with` block form its body, and it yields the index."""
        count = self.let(count, "n")
        index = Variable(self.fresh(name), INT64)
        with self.block() as body:
            yield index
        self.add(For(index, count, tuple(body)))

    def share_last_loop(self, work: Expression) -> None:
        """Let threads share the turns of the loop that was added last; a turn computes about `work` elements."""
        loop = self.statements[-1]
        assert isinstance(loop, For)
        self.statements[-1] = replace(loop, work=work)


def loads(expression: Expression) -> bool:
    """Return whether an expression reads memory."""
    return isinstance(expression, Load) or any(map(loads, children(expression)))


def smaller(x: Expression, y: Expression) -> Expression:
    """Return the smaller of two integers."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(min(x.value, y.value), INT64)
    return Select(Operation("less", (x, y), BOOL), x, y, INT64)


def larger(x: Expression, y: Expression) -> Expression:
    """Return the larger of two integers."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(max(x.value, y.value), INT64)
    return Select(Operation("greater", (x, y), BOOL), x, y, INT64)
