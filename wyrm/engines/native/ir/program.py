"""The loop program: typed expressions, statements and functions. Its text reads like code. Every class is frozen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

from wyrm.engines.native.ir.types import BOOL, INT64, PointerType, ScalarType, Type
from wyrm.support.frozen import frozen

# --- expressions: free of side effects; all operands are evaluated ---------------------------------------------------


@frozen
class Variable:
    """A parameter, an assigned variable or a loop index."""

    name: str
    type: Type


@frozen
class Number:
    """A typed constant."""

    value: float | int | bool
    type: ScalarType


@frozen
class Load:
    """A read of the element at an index from a pointer, counted in elements."""

    pointer: Expression
    index: Expression
    type: Type


@frozen
class Operation:
    """A scalar function applied to operands; `name` selects the function.

    `step` and `stride` add and multiply array offsets, which never overflow. `accumulate` adds a term to a sum whose
    order of additions is free. `left` and `right` shift by less than the bit width. Integer `divide` rounds towards
    zero; `remainder` has the sign of the dividend, for floats too; integer divisors are never zero. `round` rounds
    halves to even. `greater` also compares pointers. `quotient` divides within 2 ulp by a finite number that is neither
    zero nor denormal. All other names mean what they mean in NumPy.
    """

    name: str
    operands: tuple[Expression, ...]
    type: ScalarType


@frozen
class Conversion:
    """A conversion to another type; a pointer becomes its address, and an integer the pointer to that address.

    A NaN, or a float out of the integer's range, becomes an unspecified integer.
    """

    operand: Expression
    type: Type


@frozen
class Bits:
    """The bits of a scalar reinterpreted as another type of the same width."""

    operand: Expression
    type: ScalarType


@frozen
class Select:
    """The ternary `chosen if condition else otherwise`, with both operands evaluated."""

    condition: Expression
    chosen: Expression
    otherwise: Expression
    type: Type


@frozen
class Offset:
    """The address of the element at an index from a pointer."""

    pointer: Expression
    index: Expression
    type: PointerType


@frozen
class Symbol:
    """The address of an array outside of the program, by its symbol."""

    name: str
    type: PointerType


Expression = Variable | Number | Load | Operation | Conversion | Bits | Select | Offset | Symbol

# --- statements ------------------------------------------------------------------------------------------------------


@frozen
class Assign:
    """An assignment of a value to a variable."""

    variable: Variable
    value: Expression


@frozen
class StoreAt:
    """A write to the element at an index from a pointer."""

    pointer: Expression
    index: Expression
    value: Expression


@frozen
class For:
    """A loop whose index runs from 0 to `count - 1`.

    With `work`, about the number of elements of a turn, threads may share the turns as those of a `divided` function.
    """

    index: Variable
    count: Expression
    body: tuple[Statement, ...]
    work: Expression | None = None


@frozen
class While:
    """A loop: run `before`, evaluate `condition`, leave if it is false, else run `body` and repeat."""

    before: tuple[Statement, ...]
    condition: Expression
    body: tuple[Statement, ...]


@frozen
class If:
    """A branch: `body` if the condition holds, else `otherwise`."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@frozen
class Leave:
    """A `break` out of the innermost loop, or a `continue` with its next iteration."""

    next: bool = False


@frozen
class Return:
    """A return from the function with its results."""

    values: tuple[Expression, ...] = ()


@frozen
class Fail:
    """A return from the whole program with an error code other than 0."""

    code: Expression


@frozen
class Invoke:
    """A call of another function of the program; its results are assigned to variables."""

    results: tuple[Variable, ...]
    function: str
    arguments: tuple[Expression, ...]


@frozen
class TiledProduct:
    """A product of two matrices by tiles: `out = beta * out + x @ y`.

    The operands are the sizes of the rows, the columns and the inner axis; x and the strides of its axes in elements; y
    and its strides, one of which is 1; out, whose columns are contiguous, and the stride of its rows; and beta as a
    bool. The numbers of y may be narrower, `right`; see `wyrm.engines.native.products.tiles.Vectors`. `rounds`: the
    operands may be rounded to bfloat16.
    """

    operands: tuple[Expression, ...]
    type: ScalarType
    right: ScalarType
    rounds: bool = False


@frozen
class ShiftedSums:
    """Sums of shifted rows: `out[i, k] = b[i] + sum_j weights[j, i] * box[places[j] + k]`.

    The operands are the rows and the columns of out, and the number of partial sums; weights, and the number of terms;
    steps, and their ends; box, and its stride; masks; out, whose columns are contiguous, and the stride of its rows.
    See `wyrm.engines.native.products.shifted.text`.
    """

    operands: tuple[Expression, ...]
    type: ScalarType


@frozen
class LibraryCall:
    """A call of a function outside of the program, by its symbol or its address; `result` is what it returns.

    A pointer is passed as it is. A scalar is passed `by_value` to C, and to Fortran by the address of a copy. The
    function may write to all arrays.
    """

    function: str | Expression
    arguments: tuple[Expression, ...]
    by_value: bool = False
    result: Variable | None = None


@frozen
class Table:
    """A table of 64-bit words on the stack: those of the values, and `room` more. The variable is its address."""

    variable: Variable
    values: tuple[Expression, ...]
    room: int = 0


@frozen
class AddressOf:
    """An assignment of the address of a function of the program, for a caller outside of it."""

    variable: Variable
    function: str


@frozen
class Atomic:
    """An access to a word that other threads may access: all threads see all such accesses in one order.

    `load` and `store` read and write it. `add` adds; its result is the word before. `compare_exchange` writes the
    second value if the word is the first one; its result is whether it was.
    """

    name: Literal["load", "store", "add", "compare_exchange"]
    word: Expression
    values: tuple[Expression, ...]
    result: Variable | None = None


Statement = (
    Assign | StoreAt | For | While | If | Leave | Return | Fail | Invoke | TiledProduct | ShiftedSums | LibraryCall
    | Table | AddressOf | Atomic
)  # fmt: skip


def word_at(table: Expression, place: int | Expression, type: Type) -> Load:
    """Return the value of a type that a word of a table holds."""
    word = Number(place, INT64) if isinstance(place, int) else place
    return Load(Offset(table, word, PointerType(INT64)), Number(0, INT64), type)


def every(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Yield the statements and all nested ones in program order."""
    stack = list(reversed(statements))
    while stack:
        each = stack.pop()
        yield each
        match each:
            case For():
                stack += reversed(each.body)
            case While():
                stack += reversed(each.before + each.body)
            case If():
                stack += reversed(each.body + each.otherwise)


def children(item: Expression | Statement) -> Iterator[Any]:
    """Yield the expressions and statements directly inside an expression or a statement."""
    for name in item.__dataclass_fields__:
        found = getattr(item, name)
        for each in found if isinstance(found, tuple) else (found,):
            if type(each) in CODE:
                yield each


def called(statements: Sequence[Statement]) -> list[str]:
    """Return the name of the function in each call of the statements, duplicates included."""
    return [each.function for each in every(statements) if isinstance(each, Invoke | AddressOf)]


def assigned(statement: Statement) -> tuple[Variable, ...]:
    """Return the variables that a statement assigns."""
    match statement:
        case Assign(variable) | Table(variable) | AddressOf(variable):
            return (variable,)
        case Invoke(results):
            return results
        case LibraryCall(result=Variable() as result) | Atomic(result=Variable() as result):
            return (result,)
        case _:
            return ()


# The classes of expressions and statements.
CODE = frozenset(get_args(Expression) + get_args(Statement))


# --- functions -------------------------------------------------------------------------------------------------------


@frozen
class LoopFunction:
    """A function with its parameters, the types of its results, and its body.

    `cleared`: variables that may be read before they are assigned; they start as zero. `distinct`: pointer parameters
    do not alias (LLVM's noalias); `alone`: those with these names do not. `inlined`: always inlined into its callers.
    `fused`: a multiplication and an addition may be contracted into one fused multiply-add. `fails`: it may return an
    error code. `divided`: threads may share the turns of its last statement, a loop, if only scalars stand before it.
    """

    name: str
    parameters: tuple[Variable, ...]
    results: tuple[Type, ...]
    body: tuple[Statement, ...]
    cleared: tuple[Variable, ...] = ()
    distinct: bool = False
    alone: frozenset[str] = frozenset()
    inlined: bool = False
    fused: bool = False
    fails: bool = False
    divided: bool = False

    def __str__(self) -> str:
        head = f"def {self.name}({', '.join(f'{each.name}: {each.type}' for each in self.parameters)}):"
        return "\n".join([head, *_lines(self.body, "    ")])


@frozen
class LoopProgram:
    """Functions in call order, callees first; the last one is the entry point."""

    functions: tuple[LoopFunction, ...]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.functions))


# --- text ------------------------------------------------------------------------------------------------------------

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "and": "&", "or": "|", "xor": "^", "left": "<<",
    "right": ">>", "step": "+", "stride": "*",
}  # fmt: skip


def _expression_text(expression: Expression) -> str:
    match expression:
        case Variable(name):
            return name
        case Number(value, type):
            return str(value) if type in (INT64, BOOL) else f"{type}({value})"
        case Load(pointer, index):
            return f"{_expression_text(pointer)}[{_expression_text(index)}]"
        case Operation(name, operands) if name in _SIGNS:
            return f"({_expression_text(operands[0])} {_SIGNS[name]} {_expression_text(operands[1])})"
        case Operation(name, operands):
            return f"{name}({_list(operands)})"
        case Conversion(operand, type):
            return f"{type}({_expression_text(operand)})"
        case Bits(operand, type):
            return f"{_expression_text(operand)}.view({type})"
        case Select(condition, chosen, otherwise):
            return f"({_expression_text(chosen)} if {_expression_text(condition)} else {_expression_text(otherwise)})"
        case Offset(pointer, index):
            return f"{_expression_text(pointer)} + {_expression_text(index)}"
        case Symbol(name):
            return name


def _list(expressions: Sequence[Expression]) -> str:
    return ", ".join(map(_expression_text, expressions))


def _lines(body: Sequence[Statement], indent: str) -> Iterator[str]:
    """Yield the lines of statements."""
    deeper = f"{indent}    "
    for statement in body:
        match statement:
            case Assign(variable, value):
                yield f"{indent}{variable.name} = {_expression_text(value)}"
            case StoreAt(pointer, index, value):
                yield f"{indent}{_expression_text(pointer)}[{_expression_text(index)}] = {_expression_text(value)}"
            case For(index, count, inner):
                yield f"{indent}for {index.name} in range({_expression_text(count)}):"
                yield from _lines(inner, deeper)
            case While(before, condition, inner):
                yield f"{indent}while True:"
                yield from _lines(before, deeper)
                yield f"{deeper}if not {_expression_text(condition)}: break"
                yield from _lines(inner, deeper)
            case If(condition, inner, otherwise):
                yield f"{indent}if {_expression_text(condition)}:"
                yield from _lines(inner, deeper)
                if otherwise:
                    yield f"{indent}else:"
                    yield from _lines(otherwise, deeper)
            case Leave(next):
                yield f"{indent}{'continue' if next else 'break'}"
            case Return(values):
                yield f"{indent}return {_list(values)}".rstrip()
            case Fail(code):
                yield f"{indent}fail {_expression_text(code)}"
            case Invoke(_, function, arguments):
                yield f"{indent}{_assigning(statement)}{function}({_list(arguments)})"
            case TiledProduct(operands, type, right, rounds):
                types = "rounded to bfloat16" if rounds else f"{type} @ {right}"
                yield f"{indent}product({_list(operands)})  # {types}"
            case ShiftedSums(operands):
                yield f"{indent}shifted_sums({_list(operands)})"
            case LibraryCall(function, arguments):
                name = function if isinstance(function, str) else _expression_text(function)
                yield f"{indent}{_assigning(statement)}{name}({_list(arguments)})"
            case Table(_, values, room):
                yield f"{indent}{_assigning(statement)}[{', '.join([*map(_expression_text, values), *['0'] * room])}]"
            case AddressOf(_, function):
                yield f"{indent}{_assigning(statement)}address of {function}"
            case Atomic(name, word, values):
                yield f"{indent}{_assigning(statement)}{name}({_list((word, *values))})"


def _assigning(statement: Statement) -> str:
    variables = assigned(statement)
    return f"{_list(variables)} = " if variables else ""
