"""What an evaluation plan is made of: cells that hold node values, and calls of NumPy, on whole arrays or by blocks."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from wyrm.engines.evaluated import evaluate_into, read_only
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.index_operands import check_index_operands
from wyrm.graph.leaves import Input
from wyrm.graph.op import NUMPY
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.formula import MASKS, FormulaCall, array_function, interpret, numpy_call, parse

if TYPE_CHECKING:
    from wyrm.engines.numpy.plan import EvaluationPlan

# A function and its arguments: two tuples of objects that are in no cycle, which the garbage collector leaves alone.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]
Owners: TypeAlias = "tuple[weakref.ref[EvaluationPlan], ...]"


class Cell:
    """The value of a node, the time of its last possible change, and the plans that compute it."""

    __slots__ = ("owners", "stamp", "value")

    def __init__(self, value: Any, owners: Owners) -> None:
        self.value: Any = value
        self.stamp: int = 0
        self.owners: Owners = owners

    def plans(self) -> list[EvaluationPlan]:
        """Return the owners that still exist."""
        return [plan for owner in self.owners if (plan := owner()) is not None]


class CheckIndices:
    """A call that checks the bounds of an op's index operands."""

    __slots__ = ("node", "operands", "sizes")

    def __init__(self, node: BaseNode, operands: list[Cell], sizes: dict[type[Dim], int]) -> None:
        self.node: BaseNode = node
        self.operands: list[Cell] = operands
        self.sizes: dict[type[Dim], int] = sizes

    def __call__(self) -> None:
        check_index_operands(self.node, [operand.value for operand in self.operands], self.sizes)


class Evaluate:
    """A call that evaluates an op with a row-sparse result and stores it in the op's cell."""

    __slots__ = ("cell", "node", "operands", "shape")

    def __init__(self, node: BaseNode, operands: list[Cell], shape: tuple[int, ...], cell: Cell) -> None:
        self.node: BaseNode = node
        self.operands: list[Cell] = operands
        self.shape: tuple[int, ...] = shape
        self.cell: Cell = cell

    def __call__(self) -> None:
        self.cell.value = self.node.evaluate(NUMPY, *[operand.value for operand in self.operands], shape=self.shape)


class EvaluateInto:
    """A call that evaluates an op and copies the result to the op's array."""

    __slots__ = ("evaluate", "node", "out")

    def __init__(self, node: BaseNode, operands: list[Cell], sizes: Mapping[type[Dim], int], out: np.ndarray) -> None:
        self.node: BaseNode = node
        self.out: np.ndarray = out
        self.evaluate: Callable[[], Any]
        evaluate = node.evaluate_for(sizes)
        if node.takes_rows:  # each run replaces row-sparse values, while arrays stay the same objects
            self.evaluate = lambda: evaluate(NUMPY, *[operand.value for operand in operands], shape=out.shape)
        else:
            self.evaluate = partial(evaluate, NUMPY, *[read_only(each.value) for each in operands], shape=out.shape)

    def __call__(self) -> None:
        evaluate_into(self.node, self.evaluate, self.out)


T = TypeVar("T")

# A positional `out` is faster, but NumPy deprecates it for these two functions.
_KEYWORD_OUT = frozenset(["maximum", "minimum"])


class Scratch:
    """Intermediate arrays, one per shape, dtype and position in a formula, which all nodes of a plan share."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[Any, ...], np.ndarray] = {}

    def array(self, shape: tuple[int, ...], dtype: np.dtype, position: int) -> np.ndarray:
        key = (shape, dtype, position)
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, dtype)
        return self._arrays[key]


@cache
def single_call(formula: str) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """Return the NumPy function and operand positions of a formula that is one call of operands, else None.

    The function takes the array for the result as its last argument.
    """
    function = parse(formula)[-1].function
    return None if function == "where" or function in _KEYWORD_OUT else numpy_call(formula)


def formula_calls(
    node: BaseNode,
    operands: Sequence[T],
    number: np.dtype,
    constant: Callable[[np.ndarray], T],
    result: Callable[[int, str, Sequence[T]], T],
) -> list[tuple[str, tuple[T, ...], T]]:
    """Return the calls of a node's formula, as NumPy's name, operands and result; the last result is the node's value.

    `constant` returns what stands for a number of dtype `number`, `result` what stands for the result of a call.
    """
    calls: list[tuple[str, tuple[T, ...], T]] = []

    def scalar(value: float) -> T:
        return constant(np.asarray(value, number))

    def apply(position: int, call: FormulaCall, arguments: list[T]) -> T:
        made = result(position, call.function, arguments)
        calls.append((call.function, tuple(arguments), made))
        return made

    interpret(node.formula, operands, lambda name: scalar(getattr(node, name)), scalar, apply)
    return calls


def bound_calls(node: BaseNode, operands: list[np.ndarray], out: np.ndarray, scratch: Scratch) -> list[Call]:
    """Return calls that evaluate the node's formula on `operands` and write the result to `out`."""
    floats = [operand.dtype for operand in operands if operand.dtype.kind == "f"]
    number = node.dtype if node.dtype.kind == "f" else floats[0] if floats else np.dtype(np.float32)
    last = len(parse(node.formula)) - 1

    def result(position: int, name: str, arguments: Sequence[np.ndarray]) -> np.ndarray:
        if position == last:
            return out
        shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
        return scratch.array(shape, np.dtype(np.bool_) if name in MASKS else number, position)

    bound: list[Call] = []
    for name, arguments, into in formula_calls(node, operands, number, lambda array: array, result):
        if name == "where":
            condition, chosen, other = arguments
            bound += [(np.copyto, (into, other)), (partial(np.copyto, where=condition), (into, chosen))]
        elif name in _KEYWORD_OUT:
            bound.append((partial(array_function(NUMPY, name), out=into), arguments))
        else:
            bound.append((array_function(NUMPY, name), (*arguments, into)))
    return bound


# Elements per block, so that intermediate arrays stay in the cache. Measured on Adam with a million elements: blocks of
# 65536 to 262144 are equally fast, 4096 is half as fast, a single block is a third slower, and allocating a new array
# for every result is 16 times slower.
BLOCK = 65536

_Call = tuple[Callable[..., Any], tuple[int, ...], int]


class BlockPlan:
    """The calls that compute `outputs` from `arrays`, inputs with one axis, and `scalars`, inputs without axes.

    The outputs replace the first arrays. Values are numbered: first the arrays, then scalars, constants and results.
    An intermediate result takes the memory of a value that is no longer read, so a run allocates nothing. (An
    `EvaluationPlan` keeps all values, and copies inputs.)
    """

    def __init__(self, arrays: Sequence[Input], scalars: Sequence[Input], outputs: Sequence[BaseNode]) -> None:
        self._dtype, self._targets = outputs[0].dtype, range(len(outputs))
        # None for arrays, which `run` takes, and for blocks.
        self._values: list[Any] = [None] * len(arrays) + [np.zeros((), self._dtype) for _ in scalars]
        number: dict[BaseNode, int] = {leaf: i for i, leaf in enumerate([*arrays, *scalars])}
        self._masks: set[int] = set()
        # `calls` run for each block, `_once` before all blocks: their results have no axes.
        calls: list[_Call] = []
        self._once: list[_Call] = []
        schedule = Schedule(outputs)
        for node in schedule.nodes:
            if node.is_leaf and node not in number:
                number[node] = self._constant(bound_array(node))
            elif not node.is_leaf:
                operands = [number[parent] for parent in schedule.parents(node)]
                result = self._scalar if not node.dims else self._block
                found = formula_calls(node, operands, self._dtype, self._constant, result)
                (calls if node.dims else self._once).extend(
                    (_where_into if name == "where" else array_function(NUMPY, name), arguments, into)
                    for name, arguments, into in found
                )
                number[node] = found[-1][2]
        self._assign([number[output] for output in schedule.outputs], calls)

    def _constant(self, array: np.ndarray) -> int:
        self._values.append(array)
        return len(self._values) - 1

    def _scalar(self, _: int, name: str, operands: Sequence[int]) -> int:
        return self._constant(np.zeros((), np.bool_ if name in MASKS else self._dtype))

    def _block(self, _: int, name: str, operands: Sequence[int]) -> int:
        self._values.append(None)
        if name in MASKS:
            self._masks.add(len(self._values) - 1)
        return len(self._values) - 1

    def _assign(self, outputs: list[int], calls: list[_Call]) -> None:
        """Assign memory to each result: its target array if that is no longer read then, else a reusable block."""
        last_read = {argument: i for i, (_, arguments, _) in enumerate(calls) for argument in arguments}
        made_by = {result: i for i, (_, _, result) in enumerate(calls)}
        home: dict[int, int] = {}
        for target, output in enumerate(outputs):
            unread = target not in outputs and last_read.get(target, -1) <= made_by.get(output, -1)
            if output in made_by and output not in home and unread:
                home[output] = target
        last_read |= {output: len(calls) for output in outputs if output not in home}
        free: dict[bool, list[int]] = {True: [], False: []}
        self._blocks: list[tuple[int, np.dtype]] = []
        self._calls: list[_Call] = []
        for i, (function, arguments, result) in enumerate(calls):
            # Freed before the result is assigned: an elementwise call may overwrite its operand.
            for argument in set(arguments):
                if last_read[argument] == i and argument in made_by and home[argument] not in self._targets:
                    free[argument in self._masks].append(home[argument])
            mask = result in self._masks
            if result not in home and free[mask]:
                home[result] = free[mask].pop()
            elif result not in home:
                self._blocks.append((result, np.dtype(np.bool_) if mask else self._dtype))
                home[result] = result
            self._calls.append((function, tuple([home.get(each, each) for each in arguments]), home[result]))
        places = [(target, home.get(output, output)) for target, output in enumerate(outputs)]
        self._copies = [(target, place) for target, place in places if place != target]
        self._size = -1
        self._scratch = [np.empty(0, dtype) for _, dtype in self._blocks]

    def run(self, targets: Sequence[np.ndarray], other: np.ndarray, scalars: Sequence[float]) -> None:
        """Replace the targets, given the last array and the scalars; all arrays are contiguous and of one size."""
        values = self._values
        for position, scalar in enumerate(scalars, len(targets) + 1):
            values[position][()] = scalar
        for function, arguments, result in self._once:
            function(*[values[argument] for argument in arguments], out=values[result])
        flat = [array.reshape(-1) for array in (*targets, other)]
        size = flat[0].size
        if size <= BLOCK:
            self._run(flat, size)
        else:
            for start in range(0, size, BLOCK):
                self._run([array[start : start + BLOCK] for array in flat], min(BLOCK, size - start))
        values[: len(flat)] = [None] * len(flat)  # keep no reference to the caller's arrays

    def _run(self, arrays: list[np.ndarray], size: int) -> None:
        """Run the calls on one block."""
        values = self._values
        values[: len(arrays)] = arrays
        if size != self._size:  # otherwise the blocks of the last run fit
            for i, (position, dtype) in enumerate(self._blocks):
                if len(self._scratch[i]) < size:
                    self._scratch[i] = np.empty(size, dtype)
                values[position] = self._scratch[i][:size]
            self._size = size
        for function, arguments, result in self._calls:
            if len(arguments) == 2:
                function(values[arguments[0]], values[arguments[1]], out=values[result])
            else:
                function(*[values[argument] for argument in arguments], out=values[result])
        if self._copies:
            # Copy all before writing any, since two outputs may exchange their arrays.
            copies = [values[place].copy() for _, place in self._copies]
            for (target, _), array in zip(self._copies, copies, strict=True):
                np.copyto(values[target], array)


def _where_into(condition: Any, chosen: Any, other: Any, out: np.ndarray) -> None:
    # np.where allocates a result, since `out` may be one of the operands.
    np.copyto(out, np.where(condition, chosen, other))
