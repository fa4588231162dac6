"""What a loop program is made of. Printed, it reads like code; every class is frozen and says its type."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wyrm.ir.types import BOOL, INT64, PointerType, ScalarType, Type

# --- expressions: without effects, and all operands are evaluated ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter, a variable that statements assign, or the index of a loop."""

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of a type."""

    value: float | int | bool
    type: ScalarType

    def __str__(self) -> str:
        return str(self.value) if self.type in (INT64, BOOL) else f"{self.type}({self.value})"


@dataclass(frozen=True, slots=True)
class Load:
    """The element at an index, counted in elements."""

    pointer: Expression
    index: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.pointer}[{self.index}]"


_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "and": "&", "or": "|", "xor": "^", "left": "<<",
    "right": ">>", "step": "+", "stride": "*",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """A function of numbers by its name.

    `step` and `stride` add and multiply integers that stay inside an array, so they do not overflow; `accumulate` adds
    a term to a sum whose terms may be added in any order. `left` and `right` move by fewer bits than there are. The
    quotient of integers that `divide` gives is rounded towards zero, and `remainder`, of floats too, has the sign of
    what is divided; no integer is divided by zero. `round` takes a half to the even integer. All others mean what
    NumPy's function of the name does. `greater` compares pointers too.
    """

    name: str
    operands: tuple[Expression, ...]
    type: ScalarType

    def __str__(self) -> str:
        if self.name in _SIGNS:
            return f"({self.operands[0]} {_SIGNS[self.name]} {self.operands[1]})"
        return f"{self.name}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A number as one of another type. A float that is too large for an integer, or a NaN, becomes some integer."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.type}({self.operand})"


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits of a number as a number of another type, which is as long."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.operand}.view({self.type})"


@dataclass(frozen=True, slots=True)
class Select:
    """One of two numbers, both of which are evaluated."""

    condition: Expression
    chosen: Expression
    otherwise: Expression
    type: Type

    def __str__(self) -> str:
        return f"({self.chosen} if {self.condition} else {self.otherwise})"


@dataclass(frozen=True, slots=True)
class Offset:
    """A pointer to the element at an index."""

    pointer: Expression
    index: Expression
    type: PointerType

    def __str__(self) -> str:
        return f"{self.pointer} + {self.index}"


Expression = Variable | Number | Load | Operation | Conversion | Bits | Select | Offset

# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """A variable has a value from now on."""

    variable: Variable
    value: Expression

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"{self.variable} = {self.value}"


@dataclass(frozen=True, slots=True)
class Store:
    """Write an element."""

    pointer: Expression
    index: Expression
    value: Expression

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"{self.pointer}[{self.index}] = {self.value}"


@dataclass(frozen=True, slots=True)
class For:
    """The body for every index below a count."""

    index: Variable
    count: Expression
    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"for {self.index} in range({self.count}):"
        yield from _indented(self.body)


@dataclass(frozen=True, slots=True)
class While:
    """The statements `before` and the condition they make, and the body as long as it holds."""

    before: tuple[Statement, ...]
    condition: Expression
    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield "while True:"
        yield from _indented(self.before)
        yield f"    if not {self.condition}: break"
        yield from _indented(self.body)


@dataclass(frozen=True, slots=True)
class If:
    """One of two bodies."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"if {self.condition}:"
        yield from _indented(self.body)
        if self.otherwise:
            yield "else:"
            yield from _indented(self.otherwise)


@dataclass(frozen=True, slots=True)
class Leave:
    """Go on after the loop, or with its next turn."""

    next: bool = False

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield "continue" if self.next else "break"


@dataclass(frozen=True, slots=True)
class Return:
    """End the function with these results."""

    values: tuple[Expression, ...] = ()

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"return {', '.join(map(str, self.values))}".rstrip()


@dataclass(frozen=True, slots=True)
class Fail:
    """End the program with an error, a code above 0."""

    code: int

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"fail {self.code}"


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call a function of the program; its results become the values of variables."""

    results: tuple[Variable, ...]
    function: str
    arguments: tuple[Expression, ...]

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        call = f"{self.function}({', '.join(map(str, self.arguments))})"
        yield f"{', '.join(map(str, self.results))} = {call}" if self.results else call


@dataclass(frozen=True, slots=True)
class Gemm:
    """Call the BLAS for the product of two column-major matrices: `c = kept * c + a @ b`.

    The operands are those of `gemm`: whether a and b are transposed, three sizes, a and its leading dimension, b and
    its own, whether c is kept, and c and its own.
    """

    operands: tuple[Expression, ...]
    type: ScalarType

    def lines(self) -> Iterator[str]:
        """The statement as lines of text."""
        yield f"gemm({', '.join(map(str, self.operands))})"


Statement = Assign | Store | For | While | If | Leave | Return | Fail | Invoke | Gemm


def _indented(body: tuple[Statement, ...]) -> Iterator[str]:
    for statement in body:
        for line in statement.lines():
            yield f"    {line}"


def every(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Statements and all that stand inside them, from the first to the last."""
    for each in statements:
        yield each
        for body in ("before", "body", "otherwise"):
            yield from every(getattr(each, body, ()))


def called(statements: Sequence[Statement]) -> list[str]:
    """The names of the functions that statements call, each as often as it stands there."""
    return [each.function for each in every(statements) if isinstance(each, Invoke)]


# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """A function: `results` are the types of what it returns.

    `cleared`: variables that may be read before they are assigned; they begin as zero. `distinct`: what is written
    through a pointer among its parameters is not read or written through another. `inlined`: it becomes a part of those
    that call it. `fused`: a product may be rounded together with the sum that takes it in.
    """

    name: str
    parameters: tuple[Variable, ...]
    results: tuple[Type, ...]
    body: tuple[Statement, ...]
    cleared: tuple[Variable, ...] = ()
    distinct: bool = False
    inlined: bool = False
    fused: bool = False
    fails: bool = False

    def __str__(self) -> str:
        head = f"def {self.name}({', '.join(f'{each}: {each.type}' for each in self.parameters)}):"
        return "\n".join([head, *_indented(self.body)])


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Functions, each after those that it calls; the last is called from outside."""

    functions: tuple[LoopFunction, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.functions))
