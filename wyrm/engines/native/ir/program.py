"""The loop program: typed expressions, statements and functions. Its text reads like code. Every class is frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wyrm.engines.native.ir.types import BOOL, INT64, PointerType, ScalarType, Type

# --- expressions: free of side effects; all operands are evaluated ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter, an assigned variable or a loop index."""

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Number:
    """A typed constant."""

    value: float | int | bool
    type: ScalarType

    def __str__(self) -> str:
        return str(self.value) if self.type in (INT64, BOOL) else f"{self.type}({self.value})"


@dataclass(frozen=True, slots=True)
class Load:
    """A read of the element at an index from a pointer, counted in elements."""

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
    """A scalar function applied to operands; `name` selects the function.

    `step` and `stride` add and multiply array offsets, which never overflow. `accumulate` adds a term to a sum whose
    order of additions is free. `left` and `right` shift by less than the bit width. Integer `divide` rounds towards
    zero; `remainder` has the sign of the dividend, for floats too; integer divisors are never zero. `round` rounds
    halves to even. `greater` also compares pointers. All other names mean what they mean in NumPy.
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
    """A conversion to another type. A NaN, or a float out of the integer's range, becomes an unspecified integer."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.type}({self.operand})"


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits of a scalar reinterpreted as another type of the same width."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.operand}.view({self.type})"


@dataclass(frozen=True, slots=True)
class Select:
    """The ternary `chosen if condition else otherwise`, with both operands evaluated."""

    condition: Expression
    chosen: Expression
    otherwise: Expression
    type: Type

    def __str__(self) -> str:
        return f"({self.chosen} if {self.condition} else {self.otherwise})"


@dataclass(frozen=True, slots=True)
class Offset:
    """The address of the element at an index from a pointer."""

    pointer: Expression
    index: Expression
    type: PointerType

    def __str__(self) -> str:
        return f"{self.pointer} + {self.index}"


Expression = Variable | Number | Load | Operation | Conversion | Bits | Select | Offset

# --- statements ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Assign:
    """An assignment of a value to a variable."""

    variable: Variable
    value: Expression

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"{self.variable} = {self.value}"


@dataclass(frozen=True, slots=True)
class Store:
    """A write to the element at an index from a pointer."""

    pointer: Expression
    index: Expression
    value: Expression

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"{self.pointer}[{self.index}] = {self.value}"


@dataclass(frozen=True, slots=True)
class For:
    """A loop whose index runs from 0 to `count - 1`."""

    index: Variable
    count: Expression
    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"for {self.index} in range({self.count}):"
        yield from _indented(self.body)


@dataclass(frozen=True, slots=True)
class While:
    """A loop: run `before`, evaluate `condition`, leave if it is false, else run `body` and repeat."""

    before: tuple[Statement, ...]
    condition: Expression
    body: tuple[Statement, ...]

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield "while True:"
        yield from _indented(self.before)
        yield f"    if not {self.condition}: break"
        yield from _indented(self.body)


@dataclass(frozen=True, slots=True)
class If:
    """A branch: `body` if the condition holds, else `otherwise`."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"if {self.condition}:"
        yield from _indented(self.body)
        if self.otherwise:
            yield "else:"
            yield from _indented(self.otherwise)


@dataclass(frozen=True, slots=True)
class Leave:
    """A `break` out of the innermost loop, or a `continue` with its next iteration."""

    next: bool = False

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield "continue" if self.next else "break"


@dataclass(frozen=True, slots=True)
class Return:
    """A return from the function with its results."""

    values: tuple[Expression, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"return {', '.join(map(str, self.values))}".rstrip()


@dataclass(frozen=True, slots=True)
class Fail:
    """A return from the whole program with an error code above 0."""

    code: int

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"fail {self.code}"


@dataclass(frozen=True, slots=True)
class Invoke:
    """A call of another function of the program; its results are assigned to variables."""

    results: tuple[Variable, ...]
    function: str
    arguments: tuple[Expression, ...]

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        call = f"{self.function}({', '.join(map(str, self.arguments))})"
        yield f"{', '.join(map(str, self.results))} = {call}" if self.results else call


@dataclass(frozen=True, slots=True)
class Gemm:
    """A BLAS call that multiplies two column-major matrices: `c = beta * c + a @ b`.

    The operands are those of BLAS `gemm` without alpha: whether a and b are transposed, the sizes m, n and k, a and its
    leading dimension, b and its leading dimension, beta as a bool, c and its leading dimension.
    """

    operands: tuple[Expression, ...]
    type: ScalarType

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"gemm({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of a BLAS or LAPACK function, such as "dpotrf". Fortran takes all arguments by address.

    A pointer is passed as it is, and a scalar by the address of a copy. The function may write to all arrays.
    """

    name: str
    arguments: tuple[Expression, ...]

    def lines(self) -> Iterator[str]:
        """Yield the statement as lines of text."""
        yield f"{self.name}({', '.join(map(str, self.arguments))})"


Statement = Assign | Store | For | While | If | Leave | Return | Fail | Invoke | Gemm | LibraryCall


def _indented(body: tuple[Statement, ...]) -> Iterator[str]:
    for statement in body:
        for line in statement.lines():
            yield f"    {line}"


def every(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements and all nested ones in program order."""
    for each in statements:
        yield each
        for body in ("before", "body", "otherwise"):
            yield from every(getattr(each, body, ()))


def called(statements: Sequence[Statement]) -> list[str]:
    """Return the name of the function in each call of the statements, duplicates included."""
    return [each.function for each in every(statements) if isinstance(each, Invoke)]


# --- functions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """A function with its parameters, the types of its results, and its body.

    `cleared`: variables that may be read before they are assigned; they start as zero. `distinct`: pointer parameters
    do not alias (LLVM's noalias). `inlined`: always inlined into its callers. `fused`: a multiplication and an addition
    may be contracted into one fused multiply-add. `fails`: it may return an error code.
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
    """Functions in call order, callees first; the last one is the entry point."""

    functions: tuple[LoopFunction, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.functions))
