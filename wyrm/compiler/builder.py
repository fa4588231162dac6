"""Where the statements of a function go while it is compiled."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from wyrm.compiler.values import ZERO, Num
from wyrm.ir.program import (
    Assign,
    Expression,
    Fail,
    For,
    If,
    Load,
    Number,
    Operation,
    Select,
    Statement,
    Variable,
)
from wyrm.ir.types import BOOL, INT64

OUT_OF_BOUNDS = "index is out of bounds"


class Builder:
    """The block that statements are added to, and names that nothing else has."""

    def __init__(self, errors: dict[int, str], checked: bool) -> None:
        self.statements: list[Statement] = []
        self._errors, self.checked = errors, checked
        self.fails = False
        self._count = 0

    def add(self, statement: Statement) -> None:
        """One more statement."""
        self.statements.append(statement)

    def fresh(self, name: str) -> str:
        """A name of its own."""
        self._count += 1
        return f"{name}.{self._count}"

    @contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Within it, statements go into a block of their own, which it gives."""
        around, self.statements = self.statements, []
        try:
            yield self.statements
        finally:
            self.statements = around

    def let(self, value: Expression, name: str = "t") -> Expression:
        """A variable for a value, which is computed here; a variable or constant is left as it is."""
        if isinstance(value, Variable | Number):
            return value
        variable = Variable(self.fresh(name), value.type)
        self.add(Assign(variable, value))
        return variable

    def held(self, value: Num) -> Num:
        """A number whose expression reads nothing any more."""
        return Num(self.let(value.expression), value.weak, value.natural) if reads(value.expression) else value

    def fail(self, message: str) -> None:
        """End with an error."""
        code = zlib.crc32(message.encode()) & 0x7FFFFFFF | 1  # the same in every program
        self._errors[code] = message
        self.fails = True
        self.add(Fail(code))

    def check(self, index: Expression, size: Expression) -> None:
        """In debug mode, end where an index is not below a size."""
        if self.checked:
            inside = Operation(
                "and",
                (Operation("greater_equal", (index, ZERO), BOOL), Operation("less", (index, size), BOOL)),
                BOOL,
            )
            with self.block() as body:
                self.fail(OUT_OF_BOUNDS)
            self.add(If(Operation("not", (inside,), BOOL), tuple(body)))

    @contextmanager
    def loop(self, count: Expression, name: str = "i") -> Iterator[Variable]:
        """Within it, statements go into a loop with this index."""
        count = self.let(count, "n")
        index = Variable(self.fresh(name), INT64)
        with self.block() as body:
            yield index
        self.add(For(index, count, tuple(body)))


def reads(expression: Expression) -> bool:
    """Whether an expression reads memory or variables, so that its value may change."""
    match expression:
        case Number():
            return False
        case Variable() | Load():
            return True
        case Operation(_, operands, _):
            return any(map(reads, operands))
        case Select(condition, chosen, otherwise, _):
            return any(map(reads, (condition, chosen, otherwise)))
        case _:
            return True


def smaller(x: Expression, y: Expression) -> Expression:
    """The smaller of two integers."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(min(x.value, y.value), INT64)
    return Select(Operation("less", (x, y), BOOL), x, y, INT64)


def larger(x: Expression, y: Expression) -> Expression:
    """The larger of two integers."""
    if isinstance(x, Number) and isinstance(y, Number):
        return Number(max(x.value, y.value), INT64)
    return Select(Operation("greater", (x, y), BOOL), x, y, INT64)
