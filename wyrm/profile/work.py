"""`Work`: the operations and bytes of a call, counted in its loop program, which is interpreted without data."""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from wyrm.engines.native.ir.program import (
    Assign,
    Bits,
    Conversion,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    Leave,
    LibraryCall,
    Load,
    LoopFunction,
    LoopProgram,
    Number,
    Offset,
    Operation,
    Return,
    Select,
    ShiftedSums,
    Statement,
    StoreAt,
    TiledProduct,
    Variable,
    While,
    assigned,
    every,
)
from wyrm.engines.native.ir.types import PointerType, ScalarType
from wyrm.engines.native.kernels.values import Kind, types_of


class Unknown(Enum):
    """An unknown value: it depends on data, or on the iteration, in a loop of which one iteration counts for all."""

    DATA = 0
    ITERATION = 1


@dataclass(frozen=True)
class Pointer:
    """A pointer into the array of a parameter."""

    array: str


KnownValue: TypeAlias = int | float | bool | Unknown | Pointer


@dataclass
class Tally:
    """The FLOPs by number of bits, the FLOPs of products, and the bytes read and written by array."""

    flops: dict[int, float] = field(default_factory=dict)
    products: float = 0.0
    read: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    exact: bool = True

    def add(self, other: Tally, times: float) -> None:
        """Add another tally a number of times."""
        for array, count in other.read.items():
            self.read[array] = self.read.get(array, 0.0) + count * times
        for array, count in other.written.items():
            self.written[array] = self.written.get(array, 0.0) + count * times
        for bits, count in other.flops.items():
            self.flops[bits] = self.flops.get(bits, 0.0) + count * times
        self.products += other.products * times
        self.exact = self.exact and other.exact

    @property
    def weight(self) -> float:
        """The sum of all counts: the branch with the larger one is counted."""
        return sum(self.flops.values()) + sum(self.read.values()) + sum(self.written.values())


# Float operations that are not counted: they compare, select or change a sign.
_FREE = frozenset(
    ["negative", "abs", "copysign", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "unordered",
     "select", "maximum", "minimum", "isnan", "isfinite"]
)  # fmt: skip
# The most statements that are interpreted for one function; then the first iterations of a loop stand for all.
_BUDGET = 100_000


class _Unsteady(int):
    """An integer that may differ between the iterations of a loop that is interpreted one by one."""


class _Ended(Exception):  # not an error
    """Raised where a function returns (with its values) or fails, or a loop breaks or continues."""

    def __init__(self, how: str, values: tuple[KnownValue, ...] = ()) -> None:
        self.how, self.values = how, values


class _NeedsIterations(Exception):  # not an error
    """Raised where the work depends on the iteration, in a loop of which one iteration is counted for all."""


class Counter:
    """Interprets a loop program without data, and counts its work in `tally`."""

    def __init__(self, program: LoopProgram, products: Container[str]) -> None:
        self._functions = {each.name: each for each in program.functions}
        self._products = products
        self.tally: Tally = Tally()
        self._variables: dict[str, KnownValue] = {}
        self._left = _BUDGET
        # The work of loops whose work is always the same, and of calls by their arguments.
        self._loops: dict[tuple[int, int], Tally] = {}
        self._calls: dict[object, tuple[Tally, tuple[KnownValue, ...]]] = {}
        # Loops whose iterations differ, by identity.
        self._uneven: set[int] = set()
        # The loops around the current statement: in how many one iteration counts for all, in how many each is run.
        self._once, self._through = 0, 0
        # Whether a `_Unsteady` decided a branch or a size.
        self._decided = False
        # The variables that a loop assigns, by the identity of its body.
        self._assigned: dict[int, tuple[str, ...]] = {}

    # --- functions and statements ---------------------------------------------------------------------------------

    def call(self, function: LoopFunction, arguments: Sequence[KnownValue]) -> tuple[KnownValue, ...]:
        """Count a call of a function; return its results."""
        key = function.name, tuple(arguments)
        if key not in self._calls:
            variables = dict(zip((each.name for each in function.parameters), arguments, strict=True))
            variables |= {each.name: 0 for each in function.cleared}
            around, self._variables = self._variables, variables
            results: tuple[KnownValue, ...] = (Unknown.DATA,) * len(function.results)
            try:
                with self._apart() as tally:
                    self._run(function.body)
            except _Ended as ended:
                if ended.how != "return":
                    raise
                results = ended.values
            finally:
                self._variables = around
            self._calls[key] = tally, results
        tally, results = self._calls[key]
        self.tally.add(tally, 1)
        return results

    @contextmanager
    def _apart(self) -> Iterator[Tally]:
        """Return a context that counts into a new tally."""
        around, self.tally = self.tally, Tally()
        try:
            yield self.tally
        finally:
            self.tally = around

    def _run(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            self._left -= 1
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Assign(variable, value):
                found = self._value(value)
                self._variables[variable.name] = _Unsteady(found) if self._through and isinstance(found, int) else found
            case StoreAt(pointer, index, value):
                array = self._value(pointer)
                self._value(index)
                self._value(value)
                assert isinstance(value.type, ScalarType)
                self._touch(self.tally.written, array, value.type.itemsize)
            case For():
                self._for(statement)
            case While():
                self._while(statement)
            case If():
                self._if(statement)
            case Leave(next):
                raise _Ended("continue" if next else "break")
            case Return(values):
                raise _Ended("return", tuple(map(self._value, values)))
            case Fail():
                raise _Ended("fail")
            case Invoke(_, name, arguments) if name in self._products:
                (element,) = {each.type.element for each in arguments if isinstance(each.type, PointerType)}
                self._product([self._value(each) for each in arguments], element)
            case Invoke(results, name, arguments):
                found_values = self.call(self._functions[name], [self._value(each) for each in arguments])
                self._variables |= dict(zip((each.name for each in results), found_values, strict=True))
            case ShiftedSums(operands, type):
                self._shifted_sums([self._value(each) for each in operands], type)
            case LibraryCall() | TiledProduct():
                self.tally.exact = False  # the number of its operations is not known

    def _for(self, loop: For) -> None:
        count = self._known_integer(self._value(loop.count))
        if count is None:
            count = 1
            self.tally.exact = False
        if count <= 0:
            return
        key = id(loop), count
        if key not in self._loops:
            if count == 1 or id(loop) in self._uneven or not self._count_once(loop, key):
                self._run_through(loop, count)
                return
        else:
            self._forget(loop.body, Unknown.DATA)
        if key in self._loops:
            self.tally.add(self._loops[key], count)

    def _count_once(self, loop: For, key: tuple[int, int]) -> bool:
        """Count one iteration with an unknown index for all; return whether that is possible: all do the same work."""
        before, around, self._decided = dict(self._variables), self._decided, False
        self._forget(loop.body, Unknown.ITERATION)
        self._variables[loop.index.name] = Unknown.ITERATION
        self._once += 1
        try:
            with self._apart() as tally:
                self._run(loop.body)
        except (_NeedsIterations, _Ended) as ended:
            if not (isinstance(ended, _Ended) and ended.how == "continue"):
                if self._once == 1:  # else the work may depend on the iteration of an outer loop
                    self._uneven.add(id(loop))
                self._variables.clear()
                self._variables.update(before)
                return False
        finally:
            self._once -= 1
            decided, self._decided = self._decided, around or self._decided
        self._forget(loop.body, Unknown.DATA)
        if decided:
            self.tally.add(tally, key[1])
        else:
            self._loops[key] = tally
        return True

    def _forget(self, body: Sequence[Statement], unknown: Unknown) -> None:
        """Forget the values of the variables that the statements assign."""
        if id(body) not in self._assigned:
            names = []
            for each in every(body):
                names += [variable.name for variable in assigned(each)]
            self._assigned[id(body)] = tuple(dict.fromkeys(names))
        self._variables |= dict.fromkeys(self._assigned[id(body)], unknown)

    def _run_through(self, loop: For, count: int) -> None:
        """Interpret each iteration, or the first ones if they are too many."""
        done = 0
        self._through += 1
        try:
            with self._apart() as tally:
                while done < count and (done == 0 or self._left > 0):
                    self._variables[loop.index.name] = _Unsteady(done)
                    done += 1
                    try:
                        self._run(loop.body)
                    except _Ended as ended:
                        if ended.how == "break":
                            count = done
                        elif ended.how != "continue":
                            raise
        finally:
            self._through -= 1
        tally.exact = tally.exact and done == count
        self.tally.add(tally, count / done)

    def _while(self, loop: While) -> None:
        self._through += 1
        try:
            while True:
                self._run(loop.before)
                condition = self._known_integer(self._value(loop.condition))
                if condition is None or self._left <= 0:
                    # Data decides the number of iterations: one is counted.
                    self.tally.exact = False
                    self._branch(loop.body)
                    self._forget(loop.body, Unknown.DATA)
                    return
                if not condition:
                    return
                try:
                    self._run(loop.body)
                except _Ended as ended:
                    if ended.how == "break":
                        return
                    if ended.how != "continue":
                        raise
        finally:
            self._through -= 1

    def _if(self, statement: If) -> None:
        condition = self._known_integer(self._value(statement.condition))
        if condition is not None:
            self._run(statement.body if condition else statement.otherwise)
            return
        tallies, states = [], []
        before = dict(self._variables)
        for body in (statement.body, statement.otherwise):
            self._variables.clear()
            self._variables.update(before)
            with self._apart() as tally:
                self._branch(body)
            tallies.append(tally)
            states.append(dict(self._variables))
        larger = max(tallies, key=lambda tally: tally.weight)
        if tallies[0].weight != tallies[1].weight:
            larger.exact = False
        self.tally.add(larger, 1)
        for name in states[0].keys() | states[1].keys():
            first, second = (state.get(name, Unknown.DATA) for state in states)
            self._variables[name] = first if first == second else Unknown.DATA

    def _branch(self, body: Sequence[Statement]) -> None:
        """Run statements that data may skip. If they leave the loop or function, that is assumed not to happen."""
        try:
            self._run(body)
        except _Ended as ended:
            if ended.how != "fail":
                self.tally.exact = False

    def _product(self, values: Sequence[KnownValue], type: ScalarType) -> None:
        """Count a matrix product, given the words of three views, and whether it adds to the third."""
        (x, rows, inner), (y, _, columns), (out, *_), adds = values[:3], values[5:8], values[10:13], values[15]
        sizes = [self._known_integer(size) for size in (rows, inner, columns)]
        if None in sizes:
            self.tally.exact = False
            return
        m, k, n = (int(size or 0) for size in sizes)
        flops = 2.0 * m * n * k
        self._count_flops(flops, type)
        self.tally.products += flops
        self._touch(self.tally.read, x, m * k * type.itemsize)
        self._touch(self.tally.read, y, k * n * type.itemsize)
        if adds is not False and adds != 0:
            self._touch(self.tally.read, out, m * n * type.itemsize)
        self._touch(self.tally.written, out, m * n * type.itemsize)

    def _shifted_sums(self, values: Sequence[KnownValue], type: ScalarType) -> None:
        """Count sums of shifted rows, given the operands of `ShiftedSums`."""
        rows, columns, _, weights, terms, _, _, box, _, _, out, _ = values
        sizes = [self._known_integer(size) for size in (rows, columns, terms)]
        if None in sizes:
            self.tally.exact = False
            return
        m, n, k = (int(size or 0) for size in sizes)
        self._count_flops(2.0 * m * n * k, type)
        self.tally.products += 2.0 * m * n * k
        self._touch(self.tally.read, weights, m * k * type.itemsize)
        self._touch(self.tally.read, box, n * k * type.itemsize)
        self._touch(self.tally.written, out, m * n * type.itemsize)

    # --- expressions ----------------------------------------------------------------------------------------------

    def _known_integer(self, value: KnownValue) -> int | None:
        """Return an integer, or None if it depends on data; raise `_NeedsIterations` if it depends on the iteration."""
        if value is Unknown.ITERATION:
            raise _NeedsIterations
        self._decided = self._decided or isinstance(value, _Unsteady)
        return int(value) if isinstance(value, int | float) else None

    def _count_flops(self, flops: float, type: ScalarType) -> None:
        self.tally.flops[type.bits] = self.tally.flops.get(type.bits, 0.0) + flops

    def _touch(self, counts: dict[str, float], array: KnownValue, size: float) -> None:
        if isinstance(array, Pointer):
            counts[array.array] = counts.get(array.array, 0.0) + size
        else:
            self.tally.exact = False

    def _value(self, expression: Expression) -> KnownValue:
        match expression:
            case Variable(name):
                return self._variables.get(name, Unknown.DATA)
            case Number(value, type):
                return Unknown.DATA if type.kind == "f" else value
            case Load(pointer, index, ScalarType() as type):
                self._value(index)
                self._touch(self.tally.read, self._value(pointer), type.itemsize)
                return Unknown.DATA
            case Offset(pointer, index):
                self._value(index)
                return self._value(pointer)
            case Conversion(operand, ScalarType() as type):
                found = self._value(operand)
                return Unknown.DATA if type.kind == "f" else found
            case Bits(operand):
                self._value(operand)
                return Unknown.DATA
            case Select(condition, chosen, otherwise):
                test, *values = map(self._value, (condition, chosen, otherwise))
                if isinstance(test, Unknown):
                    return next((each for each in values if isinstance(each, Pointer)), test)
                found = values[0] if test else values[1]
                return _Unsteady(found) if isinstance(test, _Unsteady) and isinstance(found, int) else found
            case Operation():
                return self._operation(expression)
            case _:
                return Unknown.DATA

    def _operation(self, operation: Operation) -> KnownValue:
        operands, kind = [self._value(each) for each in operation.operands], operation.operands[0].type
        if isinstance(kind, PointerType):
            return Unknown.DATA
        if kind.kind == "f":
            if operation.name not in _FREE:
                self._count_flops(1.0, kind)
            return Unknown.DATA
        if any(each is Unknown.DATA for each in operands):
            return Unknown.DATA
        if any(each is Unknown.ITERATION for each in operands):
            return Unknown.ITERATION
        function = _INTEGERS.get(operation.name)
        numbers = [int(each) for each in operands if isinstance(each, int | float)]
        if function is None or len(numbers) < len(operands):
            return Unknown.DATA
        # Within 64 bits, as in native code.
        result = (function(*numbers) + 2**63) % 2**64 - 2**63
        return _Unsteady(result) if any(isinstance(each, _Unsteady) for each in operands) else result


def _towards_zero(x: int, y: int) -> int:
    """Return a quotient rounded towards zero."""
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_INTEGERS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "step": operator.add,
    "stride": operator.mul, "accumulate": operator.add, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "left": operator.lshift, "right": operator.rshift,
    "negative": operator.neg, "abs": abs, "not": lambda x: not x, "divide": _towards_zero,
    "remainder": lambda x, y: x - y * _towards_zero(x, y),
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """The work of one call.

    `flops` counts additions, multiplications, divisions and functions of floats, of which `product_flops` are those of
    matrix products, two for each multiply-add. `bytes_read` and `bytes_written` count each element of an array once,
    however often a call touches it. `bits` is the width of most floats. `divided`: threads share its loop.
    """

    flops: float = 0.0
    product_flops: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    bits: int = 32
    exact: bool = True
    divided: bool = False

    @property
    def bytes(self) -> float:
        """The bytes read and written."""
        return self.bytes_read + self.bytes_written

    @property
    def shared(self) -> bool:
        """Whether threads share the call: most of it are products, or it is a large loop of independent turns."""
        return self.divided or 2 * self.product_flops > self.flops


def work_of(program: LoopProgram, products: Container[str], kinds: Sequence[Kind], arguments: Sequence[Any]) -> Work:
    """Return the work of the last function of a loop program, called with arguments of these kinds.

    `products` are the names of functions that multiply matrices.
    """
    from wyrm.engines.native.llvm.calling import words_of
    from wyrm.engines.native.llvm.shared_loops import LEAST_ELEMENTS

    function, sizes = program.functions[-1], dict[str, int]()
    words = [word for each, kind in zip(arguments, kinds, strict=True) for word in words_of(each, kind)]
    types = [type for kind in kinds for _, type in types_of(kind)]
    arrays = iter(_arrays(arguments))
    variables: dict[str, KnownValue] = {}
    for parameter, word, type in zip(function.parameters, words, types, strict=True):
        if isinstance(type, PointerType):
            variables[parameter.name] = Pointer(parameter.name)
            sizes[parameter.name] = next(arrays).nbytes
        else:
            variables[parameter.name] = Unknown.DATA if type.kind == "f" else word
    counter = Counter(program, products)
    counter.call(function, [variables[each.name] for each in function.parameters])
    tally = counter.tally
    return Work(
        sum(tally.flops.values()),
        tally.products,
        sum(min(count, sizes[array]) for array, count in tally.read.items()),
        sum(min(count, sizes[array]) for array, count in tally.written.items()),
        max(tally.flops, key=tally.flops.__getitem__, default=32),
        tally.exact,
        function.divided and any(each.size >= LEAST_ELEMENTS for each in _arrays(arguments)),
    )


def _arrays(arguments: Sequence[Any]) -> Iterator[np.ndarray]:
    for each in arguments:
        if isinstance(each, np.ndarray):
            yield each
        elif isinstance(each, tuple):
            yield from _arrays(each)
