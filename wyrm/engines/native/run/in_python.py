"""Python in native programs: steps with an op without a native form, and the search for the cause of an error.

`Interpreter` runs array functions statement by statement. Native code reports only the kind of an error, so
`index_error` repeats the step in NumPy to find its cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from wyrm.engines.graph import Targets
from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import ArrayFunction, Callee, Expression, Statement
from wyrm.engines.native.stages.memory import Binding
from wyrm.errors import IndexOutOfRange, KernelError, LinAlgError, WyrmError
from wyrm.graph.axes import Dim, resolve
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS, is_njit
from wyrm.graph.op import NUMPY
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import stored
from wyrm.ops.elementwise.formula import array_function
from wyrm.ops.kernels.native import DEBUG, NO_SOLUTION, OUT_OF_RANGE, RAISED
from wyrm.ops.subgraph import value_of

E = TypeVar("E", bound=Exception)

_BY_NAME: dict[str, Callable[..., Any]] = {
    "abs": abs, "min": min, "erf": math.erf, "natural": lambda index: index,
    "accumulate": lambda total, term: total + term, "quotient": lambda x, y: x / y,
}  # fmt: skip


class _FunctionReturned(Exception):  # not an error
    """Raised where the function returns."""


class _LoopBroken(Exception):  # not an error
    """Raised where a loop breaks."""


class Interpreter:
    """Runs array functions; `call` performs the calls of others, given their arguments and all variables."""

    def __init__(self, call: Callable[[Callee, list[Any], dict[str, Any]], Any]) -> None:
        self._call = call

    def run(self, function: ArrayFunction, arguments: Sequence[Any]) -> Any:
        """Run a function and return its result."""
        variables = dict(zip(function.parameters, arguments, strict=True))
        try:
            self._block(function.body, variables)
        except _FunctionReturned as ended:
            return ended.args[0]
        return None

    def _block(self, body: Sequence[Statement], variables: dict[str, Any]) -> None:
        for statement in body:
            self._statement(statement, variables)

    def _statement(self, statement: Statement, variables: dict[str, Any]) -> None:
        def value(expression: Expression) -> Any:
            return self._value(expression, variables)

        match statement:
            case arrays.Let(variable, given):
                variables[variable] = value(given)
            case arrays.Store(array, index, given, adds):
                position = tuple(slice(None) if each is None else value(each) for each in index)
                variables[array][position] = variables[array][position] + value(given) if adds else value(given)
            case arrays.CountedLoop(index, count, body):
                for variables[index] in range(value(count)):
                    if not self._iterate(body, variables):
                        break
            case arrays.WhileLoop(condition, body):
                while value(condition) and self._iterate(body, variables):
                    pass
            case arrays.When(condition, body):
                if value(condition):
                    self._block(body, variables)
            case arrays.Break():
                raise _LoopBroken
            case arrays.ReturnValue(given):
                raise _FunctionReturned(value(given))
            case arrays.CallStatement(function, arguments):
                self._call(function, [value(each) for each in arguments], variables)

    def _iterate(self, body: Sequence[Statement], variables: dict[str, Any]) -> bool:
        """Run the body of a loop once; return whether the loop continues."""
        try:
            self._block(body, variables)
        except _LoopBroken:
            return False
        return True

    def _value(self, expression: Expression, variables: dict[str, Any]) -> Any:
        match expression:
            case arrays.Name(name):
                return variables[name]
            case arrays.Literal(value, type):
                return value if type is None else type.dtype.type(value)
            case arrays.Element(array, index):
                return variables[array][tuple(self._value(each, variables) for each in index)]
            case arrays.ArraySize(array, axis):
                return variables[array].shape[axis]
            case arrays.Flat(array):
                return variables[array].reshape(1)
            case arrays.Part(array, axis, count):
                return variables[array][(slice(None),) * axis + (slice(self._value(count, variables)),)]
            case arrays.Convert(operand, type):
                return type.dtype.type(self._value(operand, variables))
            case arrays.CallResult(function, arguments):
                return self._call(function, [self._value(each, variables) for each in arguments], variables)
            case arrays.Apply(function, operands):
                named = _BY_NAME.get(function) or array_function(NUMPY, function)
                return named(*(self._value(each, variables) for each in operands))
        raise AssertionError(f"{expression} is not an expression")


def index_error(
    name: str, targets: Targets, binding: Binding, error: IndexError, entries: Mapping[type[Dim], int]
) -> Exception:
    """Return the error to raise for an `IndexError` of native code, which stands for a `LinAlgError` too.

    `entries` are the numbers of entries of the step, where it has fewer than its arrays.

    Debug mode checks every array access; there, an error that no index check raised is an access outside an array.
    """
    if str(error).endswith(RAISED):
        return _raised(name, targets, binding, str(error), entries)
    unsolvable = str(error) == NO_SOLUTION
    if DEBUG and not unsolvable and str(error) != OUT_OF_RANGE:
        return AssertionError(f"{name}: native code reads or writes outside of an array: {error}")
    cause = _cause(targets, binding, entries, WyrmError)
    kind, known = (LinAlgError, NO_SOLUTION) if unsolvable else (IndexOutOfRange, "an index is out of range")
    which = f": {cause}" if isinstance(cause, kind) else ""
    return kind(f"{name}: {known}{which}; no parameter has moved in this step")


def _raised(name: str, targets: Targets, binding: Binding, message: str, entries: Mapping[type[Dim], int]) -> Exception:
    """Return the exception that a function of numba raised in native code, raised again by Python's calls of it."""
    cause = _cause(targets, binding, entries, Exception)
    if cause is None:
        return KernelError(f"{name}: {message}; no parameter has moved in this step")
    cause.add_note(f"{name}: {message}; no parameter has moved in this step")
    return cause


def _cause(targets: Targets, binding: Binding, entries: Mapping[type[Dim], int], kind: type[E]) -> E | None:
    """Return the first error of a kind in the step whose data is bound.

    Errors of this library name the node, the operands and the user's line.
    """
    schedule = Schedule(targets.original or targets.nodes)
    buffers, sizes = binding.source.tree.buffers, {**binding.sizes, **entries}
    values: dict[BaseNode, Any] = {}
    try:
        with np.errstate(all="ignore"):
            for node in schedule.nodes:
                if node.is_leaf:
                    shape = resolve(node.dims, sizes)
                    held = binding.array(buffers[node]) if node in buffers else stored(node).array
                    # Of what native code does not read, the shape alone counts.
                    unread = np.zeros(shape, node.dtype)
                    values[node] = unread if held is None else np.array(held[tuple(map(slice, shape))])
                else:
                    operands = _parent_values(schedule, node, values)
                    _call_njit(node, operands.values(), sizes)
                    values[node] = value_of(NUMPY, node, operands, sizes)
    except kind as error:
        return error
    return None


def _call_njit(node: BaseNode, operands: Iterable[Any], sizes: Mapping[type[Dim], int]) -> None:
    """Call the kernel of a node if numba compiles it: unlike `evaluate`, it raises what native code has raised."""
    form = LOOPS.of(node)
    if is_njit(form.kernel):
        arrays = [np.ascontiguousarray(each, parent.dtype) for each, parent in zip(operands, node.parents, strict=True)]
        out = np.empty(resolve(node.dims, sizes), node.dtype)
        form.kernel(*form.kernel_arguments(node, arrays, out))  # type: ignore[misc]  # it is a function


def _parent_values(schedule: Schedule, node: BaseNode, values: Mapping[BaseNode, Any]) -> dict[BaseNode, Any]:
    """Return the values of the node's parents."""
    return {parent: values[schedule.representative[parent]] for parent in node.parents}
