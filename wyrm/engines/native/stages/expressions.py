"""Turns elementwise formulas and "element i of the result is element j of the operand" into expressions of code."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from wyrm.engines.native.ir.arrays import Apply, CallResult, Expression, Let, Literal, Name
from wyrm.engines.native.ir.types import ScalarType, scalar_of
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.stages.loops import Checked
from wyrm.engines.native.stages.runtime import checked
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import (
    DifferenceOfIndices,
    IndexExpression,
    IndexLiteral,
    IndexPair,
    LoopIndex,
    ProductOfIndices,
    SumOfIndices,
)
from wyrm.ops.elementwise import incomplete_kernels, special_kernels
from wyrm.ops.elementwise.fast_math import (
    float32_exp,
    float32_log,
    float32_log1p,
    float32_tanh,
    float64_exp,
    float64_log,
    float64_log1p,
    float64_tanh,
)
from wyrm.ops.elementwise.formula import SPECIAL, Attribute, FormulaCall, interpret, parse
from wyrm.ops.elementwise.formula import EarlierCall as Earlier

# Functions written so that LLVM vectorizes the loops that call them, for float32 and for float64.
FAST = {
    "exp": (kernel_of(float32_exp), kernel_of(float64_exp)),
    "log": (kernel_of(float32_log), kernel_of(float64_log)),
    "log1p": (kernel_of(float32_log1p), kernel_of(float64_log1p)),
    "tanh": (kernel_of(float32_tanh), kernel_of(float64_tanh)),
}
# Functions of `scipy.special` that the C math library lacks.
KERNELS = {
    name: kernel_of(getattr(module, name))
    for module in (special_kernels, incomplete_kernels)
    for name in SPECIAL
    if hasattr(module, name)
}


def scalar_type(dtype: np.dtype) -> ScalarType:
    """Return the scalar type of a dtype."""
    found = scalar_of(dtype)
    assert found is not None, f"compiled code has no numbers of {dtype}"
    return found


def number(value: float, dtype: np.dtype) -> Literal:
    """Return a constant of a dtype."""
    return Literal(float(value), None if dtype == np.float64 else scalar_type(dtype))


def float_type(node: BaseNode) -> np.dtype:
    """Return the float type that a node's formula computes in."""
    if node.dtype.kind == "f":
        return node.dtype
    return next((parent.dtype for parent in node.parents if parent.dtype.kind == "f"), np.dtype(np.float32))


def calls_fast(node: BaseNode) -> bool:
    """Return whether a node's formula calls a function that LLVM vectorizes loops with."""
    return any(call.function in FAST for call in parse(node.formula)) if node.formula else False


def adds_up(step: str) -> bool:
    """Return whether the step of a reduction adds a term to the total, and uses the total for nothing else."""
    calls, total = parse(step), Attribute("total")
    return calls[-1].function == "add" and [a for call in calls for a in call.arguments].count(total) == 1


def formula_code(
    formula: str,
    operands: Sequence[Expression],
    attribute: Callable[[str], Expression],
    dtype: np.dtype,
    temporary: Callable[[], str],
    reordered: bool = False,
) -> tuple[list[Let], Expression]:
    """Return assignments of the subexpressions that a formula uses twice, and the expression of its value.

    `attribute` resolves a name that is not an operand; `temporary` returns a new variable name. `reordered` says that
    the value is a sum of a total and a term, which may be accumulated in another order.
    """
    calls = parse(formula)
    uses = Counter(each.position for call in calls for each in call.arguments if isinstance(each, Earlier))
    lets: list[Let] = []

    def apply(position: int, call: FormulaCall, arguments: list[Expression]) -> Expression:
        value: Expression
        if reordered and position == len(calls) - 1:
            total = call.arguments.index(Attribute("total"))
            value = Apply("accumulate", (arguments[total], arguments[1 - total]))
        elif call.function in FAST:
            value = CallResult(FAST[call.function][dtype == np.float64], tuple(arguments))
        elif call.function in KERNELS:
            value = CallResult(KERNELS[call.function], tuple(arguments))
        else:
            value = Apply(call.function, tuple(arguments))
        # Compute both sides of a `where` before it, because LLVM vectorizes loops without branches.
        if uses[position] > 1 or (uses[position] == 1 and _is_chosen(calls, position)):
            variable = temporary()
            lets.append(Let(variable, value))
            value = Name(variable)
        return value

    result = interpret(formula, operands, attribute, lambda value: number(value, dtype), apply)
    return lets, result


def _is_chosen(calls: Sequence[FormulaCall], position: int) -> bool:
    return any(Earlier(position) in call.arguments[1:] for call in calls if call.function == "where")


# The names that `run` and loops inside a graph use for their variables and functions. The forms below also reserve the
# names of loop variables, of op kernels, of functions in `fast_math` and of an optimizer's numbers.
RESERVED = frozenset(
    [
        "first", "steps", "count", "batch", "step", "order", "totals", "hyperparameters", "k", "t", "done", "run",
        "abs", "min", "claim", "release", "checked", "load", "added", "copied", "put", "taken", "accumulate",
        "natural", "check_all", "check_counted", "check_from_end", "fill_with_nan", "fill_with_invalid_indices",
        "fill_with_ones",
    ]
)  # fmt: skip
_RESERVED_FORMS = re.compile(r"[ij]\d+|\w+_kernel(_\d+)?|float32_\w+|(?!update_)\w+_float(32|64)")


def identifier(name: str) -> str:
    """Return a part of a Python identifier made from any text, so that users' names cannot become code.

    It does not end with an underscore, unlike the variables of generated code.
    """
    return re.sub(r"\W", "_", name, flags=re.ASCII)[:24].rstrip("_")


class UniqueNames:
    """The names of one program; a call with a text returns a name that is not taken yet."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        # The last number that a text was given.
        self._counts: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        base = identifier(text) or "value"
        if base[0].isdigit() or keyword.iskeyword(base) or base in RESERVED or _RESERVED_FORMS.fullmatch(base):
            base = f"the_{base}"
        name, count = base, self._counts.get(base, 1)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._taken.add(name)
        return name


_NOTHING: Mapping[IndexExpression, Expression] = MappingProxyType({})
_OPERATORS: dict[type[IndexPair], str] = {
    SumOfIndices: "add",
    DifferenceOfIndices: "subtract",
    ProductOfIndices: "multiply",
}


def expression_of(entry: IndexExpression, leaves: Mapping[IndexExpression, Expression] = _NOTHING) -> Expression:
    """Turn an entry of "element i of the result is element j of the operand" into code.

    `leaves` has the expressions of the sizes and the integers that the entry reads.
    """
    match entry:
        case LoopIndex():
            return Name(str(entry))
        case IndexLiteral(value):
            return Literal(value)
        case Checked(left, right):
            return CallResult(checked, (expression_of(left, leaves), expression_of(right, leaves)))
        case IndexPair(left, right):
            return Apply(_OPERATORS[type(entry)], (expression_of(left, leaves), expression_of(right, leaves)))
        case _:
            return leaves[entry]
