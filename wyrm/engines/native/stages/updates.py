"""The updates of a step: an optimizer's rules as loops over elements or touched rows, and the order of their calls.

A call of a program with an optimizer computes all gradients and new values of buffers before it updates. It counts
those beyond a limit, and ends there if there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.global_norm import global_norm
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    Convert,
    CountedLoop,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Statement,
    Store,
    When,
)
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.expressions import formula_code, number, scalar_type
from wyrm.engines.native.stages.functions import is_large, small_size
from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    Argument,
    ArrayBuffer,
    CallArgument,
    CountsArgument,
    FlatArgument,
    Invocation,
    OptimizerNumber,
    RowSums,
    StateArgument,
    WholeCall,
)
from wyrm.engines.native.stages.runtime import copied
from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE, Elements, OptimizerInterface, UpdateRule
from wyrm.graph.axes import Dims
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.leaves import Input
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.parameters import Parameter
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.subgraph import Subgraph

if TYPE_CHECKING:
    from wyrm.engines.native.stages.write import Source


# The numbers of a step: the limits that Python sets, of gradients and of other numbers, and the count of those beyond.
GRADIENT_LIMIT, LARGEST, BEYOND = "gradient_limit", "largest", "beyond"
_WIDE = np.dtype(np.float64)
_J, _K, _ROW = Name("j"), Name("k"), Name("row")
# The indices of an element: of a flat array, of a number for each row, or of an array with rows.
_ELEMENT: tuple[tuple[Name, ...], ...] = ((_J,), (_K,), (_K, _J))


class _Code:
    """The statements that compute a graph for one element in a loop, `each`, and those `before` the loop.

    `given` has the values of leaves. All numbers are of the dtype. A reduction is over the turns of the loop.
    """

    def __init__(self, outputs: Sequence[BaseNode], given: Mapping[BaseNode, Expression], dtype: np.dtype) -> None:
        self.before: list[Statement] = []
        self.each: list[Statement] = []
        schedule, values, roots, used = Schedule(outputs), dict(given), _Roots(), count()

        def temporary() -> str:
            return f"t{next(used)}"

        for node in schedule.nodes:
            if node in values:
                continue
            if node.is_leaf:
                values[node] = number(bound_array(node).item(), dtype)
                continue
            operands, reducer = [values[parent] for parent in schedule.parents(node)], LOOPS.of(node).reducer
            formula, attribute = node.formula, _attributes(node, dtype)
            variable = f"{node.op_name()}_{next(used)}"
            values[node] = Name(variable)
            if reducer is not None:
                self.before.append(Let(variable, number(reducer.start, dtype)))
                formula, attribute = reducer.step, {"total": values[node]}.__getitem__
            lets, result = formula_code(formula, operands, attribute, dtype, temporary, reordered=reducer is not None)
            if dtype == np.float32:
                result = roots.seen(variable, result)
            (self.each if node.dims or reducer is not None else self.before).extend([*lets, Let(variable, result)])
        self.outputs: list[Expression] = [values[output] for output in schedule.outputs]


def _read_numbers(names: Iterable[str]) -> list[Statement]:
    """Return the statements that read numbers into variables, whose names end with an underscore."""
    return [Let(f"{name}_", Element(name, ())) for name in names]


def _loop(
    body: Sequence[Statement], array: str, row_axes: int, of_row: Sequence[Statement] = (), row_size: int | None = None
) -> CountedLoop:
    """Return the loop over the elements of a flat array, or over those of its first `count[0]` rows, after `of_row`."""
    if row_axes == 0:
        return CountedLoop("j", ArraySize(array, 0), tuple(body))
    size = ArraySize(array, 1) if row_size is None else Literal(row_size)
    inner = tuple(body) if row_axes == 1 else (CountedLoop("j", size, tuple(body)),)
    return CountedLoop("k", Element("count", (Literal(0),)), (*of_row, *inner))


# --- sums over the elements of arrays ---------------------------------------------------------------------------------


def added_sum(name: str, graph: Subgraph, dtype: np.dtype, row_axes: int = 0, adds: bool = True) -> ArrayFunction:
    """Return the function that adds the sum of a graph over the elements of an array to `total`, or replaces it.

    The array, of this dtype, is the graph's first input; the others are numbers. With `row_axes`, the array has one or
    two axes, and only the first `count[0]` rows belong to it.
    """
    array, *numbers = [str(leaf.name) for leaf in graph.inputs]
    code = _of_element(graph, dtype, _ELEMENT[row_axes])
    added = Store("total", (), code.outputs[0], adds)
    body = (*_read_numbers(numbers), *code.before, _loop(code.each, array, row_axes), added)
    return ArrayFunction(name, (array, *numbers, "total", *(["count"] if row_axes else [])), body)


def sum_of_rows(name: str, graph: Subgraph, dtype: np.dtype) -> ArrayFunction:
    """Return the function that stores in `sums` the sum of a graph over the elements of each row of an array.

    Threads may share the rows.
    """
    array, *numbers = [str(leaf.name) for leaf in graph.inputs]
    code = _of_element(graph, dtype, (_ROW, _J))
    loop = CountedLoop("j", ArraySize(array, 1), tuple(code.each))
    rows = CountedLoop("row", ArraySize(array, 0), (*code.before, loop, Store("sums", (_ROW,), code.outputs[0])))
    return ArrayFunction(name, (array, *numbers, "sums"), (*_read_numbers(numbers), rows))


def _of_element(graph: Subgraph, dtype: np.dtype, index: tuple[Name, ...]) -> _Code:
    """Return the code of a graph over this element of its first input, an array of the dtype."""
    array = graph.inputs[0]
    element: Expression = Element(str(array.name), index)
    if dtype != array.dtype:
        element = Convert(element, scalar_type(array.dtype))
    code = _Code(graph.outputs, {leaf: Name(f"{leaf.name}_") for leaf in graph.inputs}, array.dtype)
    code.each.insert(0, Let(f"{array.name}_", element))
    return code


@cache
def beyond_limit(dtype: np.dtype) -> Subgraph:
    """Return the graph of the number of elements of an array that are beyond a limit, or NaN."""
    array, limit = Input(name="array", dims=(Elements(),), dtype=dtype), Input(name="limit", dtype=dtype)
    within = array.abs() <= limit  # false for NaN
    return Subgraph([array, limit], [where(within, 0.0, 1.0).sum()])


@cache
def plain_sum(dtype: np.dtype) -> Subgraph:
    """Return the graph of the sum of an array."""
    sums = Input(name="sums", dims=(Elements(),), dtype=dtype)
    return Subgraph([sums], [sums.sum()])


def gradient_scale(name: str, max_norm: float, dtype: np.dtype) -> ArrayFunction:
    """Return the function that computes the factor of the gradients from `total`, the sum of their squares."""
    graph = global_norm(_WIDE).limited
    total, limit = graph.inputs
    code = _Code(graph.outputs[1:], {total: Element("total", ()), limit: number(max_norm, _WIDE)}, _WIDE)
    scale = Store("scale", (), Convert(code.outputs[0], scalar_type(dtype)))
    return ArrayFunction(name, ("total", "scale"), (*code.before, scale))


# --- updates ----------------------------------------------------------------------------------------------------------

# The least divisor whose reciprocal is far from the largest number.
_LEAST_DIVISOR = 1e-20


def update(name: str, rule: UpdateRule, row_axes: int, row_size: int | None) -> ArrayFunction:
    """Return the function that updates one parameter: all of it, or with `row_axes` the touched rows.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; for rows also `rows` and `count`. Arrays are flat, or have `row_axes` axes, which is one or two. The
    gradient of rows is reset to zero for the next step. `row_size` specializes the code for rows of that many elements.
    A step in which the rule is idle reads nothing.
    """
    element = [(_J,), (_ROW,), (_ROW, _J)][row_axes]
    state, hyperparameters, dtype = list(rule.state), list(rule.hyperparameters), rule.parameter.dtype
    parameter, gradient = str(rule.parameter.name), str(rule.gradient.name)
    targets = [parameter, *state]
    arrays = {rule.parameter: parameter, rule.gradient: gradient, **{rule.state[key]: key for key in state}}
    given = arrays | {leaf: key for key, leaf in rule.hyperparameters.items()}
    values: dict[BaseNode, Expression] = {leaf: Name(f"{name}_") for leaf, name in given.items()}
    code = _Code(rule.outputs if row_axes else rule.flushing, values, dtype)
    indices = {array: _ELEMENT[row_axes] if array == gradient else element for array in arrays.values()}
    each = [Let(f"{array}_", Element(array, index)) for array, index in indices.items()] + code.each
    each += [Store(target, element, moved) for target, moved in zip(targets, code.outputs, strict=True)]
    if row_axes:
        each.append(Store(gradient, indices[gradient], Literal(0)))
    row = Let("row", Apply("natural", (Element("rows", (_K,)),)))
    over = gradient if row_axes else parameter
    body: tuple[Statement, ...] = (
        *_read_numbers(hyperparameters), *code.before, _loop(each, over, row_axes, [row], row_size)
    )  # fmt: skip
    if rule.idle_at_zero is not None:
        body = (When(Apply("not_equal", (Element(rule.idle_at_zero, ()), number(0.0, dtype))), body),)
    arguments = (parameter, gradient, *state, *hyperparameters, *(["rows", "count"] if row_axes else []))
    return ArrayFunction(name, arguments, body)


class _Roots:
    """The variables of a rule that hold roots of numbers, and those that hold such a root plus a positive number.

    The latter are neither zero nor denormal, so a division by them may be a `quotient`. Processors compute roots and
    divisions one after the other in one unit, which takes most of the time of a step of Adagrad or Adam.
    """

    def __init__(self) -> None:
        self._roots: set[Expression] = set()
        self._divisors: set[Expression] = set()

    def seen(self, variable: str, value: Expression) -> Expression:
        """Return the value that a variable gets: a `quotient` instead of a division, where it may be one."""
        match value:
            case Apply("sqrt", _):
                self._roots.add(Name(variable))
            case Apply("multiply", (x, Name())) if x in self._roots:  # by the correction of Adam's averages
                self._roots.add(Name(variable))
            case Apply("add", (x, Literal(least, _))) if x in self._roots and least >= _LEAST_DIVISOR:
                self._divisors.add(Name(variable))
            case Apply("divide", (x, y)) if y in self._divisors:
                return Apply("quotient", (x, y))
        return value


def _attributes(node: BaseNode, dtype: np.dtype) -> Callable[[str], Expression]:
    return lambda name: number(getattr(node, name), dtype)


def _last_uses(invocations: Sequence[Invocation]) -> dict[ArrayBuffer, int]:
    """Return, for each array, the number of calls after which no call uses it."""
    last: dict[ArrayBuffer, int] = {}
    for position, invocation in enumerate(invocations, 1):
        last.update(dict.fromkeys(invocation.roots, position))
    return last


def _with_others(invocations: Sequence[Invocation], after: dict[int, list[Invocation]]) -> list[Invocation]:
    """Return calls with others after these numbers of calls."""
    ordered = after.pop(0, [])
    for position, invocation in enumerate(invocations, 1):
        ordered += [invocation, *after.get(position, [])]
    return ordered


def updated_numbers(calls: Iterable[Invocation], arguments: Iterable[Argument]) -> set[str]:
    """Return the names of the parameters without axes that calls update, and that one argument alone gives."""
    used = [
        each.buffer if isinstance(each, FlatArgument) else each
        for each in arguments
        if isinstance(each, ArrayBuffer | FlatArgument)
    ]
    count, updated = Counter(buffer.root for buffer in used), {each.updated for each in calls}
    return {each.name for each in used if not each.dims and each.leaf in updated and count[each.root] == 1}


class UpdateCalls:
    """The calls that update a program's parameters; `rule_source` creates the functions of a rule over whole ones.

    `hyperparameters` are the numbers that each step reads, and `numbers` the arguments that hold them. `counts` are the
    numbers that end a checked step, before anything changes, unless they are 0. `written` are functions of the same
    program's other step.
    """

    def __init__(
        self,
        tree: LoopTree,
        optimizer: OptimizerInterface,
        rule_source: Callable[[UpdateRule], Source],
        written: Mapping[object, ArrayRoutine],
    ) -> None:
        self.tree = tree
        self.optimizer = optimizer
        self._rule_source = rule_source
        self.routines: dict[object, ArrayRoutine] = {**written}
        self.rules: dict[UpdateRule, Source] = {}
        self.hyperparameters: list[str] = []
        self.numbers: dict[str, OptimizerNumber] = {}
        self.counts: list[OptimizerNumber] = []
        for parameter in (*tree.gradients, *(rows.parameter for rows in tree.rows)):  # in whatever order calls come
            assert isinstance(parameter, Parameter)
            rules: list[UpdateRule | None] = [optimizer.rule(parameter), optimizer.average_rule(parameter)]
            for each in (name for rule in rules if rule is not None for name in rule.hyperparameters):
                self._number(each, parameter.dtype)

    def placed(self, invocations: Sequence[Invocation], safe: int) -> list[Invocation]:
        """Return the calls of a step with each update after its gradient is computed and its parameter read last.

        This frees the gradient's memory for others, and finds the gradient still in the processor's cache. No update
        comes before the call number `safe`.
        """
        last, after = _last_uses(invocations), dict[int, list[Invocation]]()
        for parameter, gradient in self.tree.gradients.items():
            buffers = self.tree.leaf(parameter), gradient.root
            position = max(safe, *(last.get(buffer, 0) for buffer in buffers))
            after.setdefault(position, []).extend(self.update(parameter, gradient))
        return _with_others(invocations, after)

    def checked(self, invocations: Sequence[Invocation], known: int) -> list[Invocation]:
        """Return the calls of a step before its updates, with a check of each gradient as soon as it is computed.

        No check comes before the call number `known`.
        """
        last, after = _last_uses(invocations), dict[int, list[Invocation]]()
        for gradient in dict.fromkeys(self.tree.gradients.values()):
            position = max(known, last.get(gradient.root, 0))
            after.setdefault(position, []).extend(self.check(gradient, GRADIENT_LIMIT))
        return _with_others(invocations, after)

    def last_checks(self) -> list[Invocation]:
        """Return the checks of what all calls of a step before its updates have computed."""
        calls = [call for rows in self.tree.rows for call in self.check(rows.sums, GRADIENT_LIMIT, rows)]
        new = dict.fromkeys(each for each in self.tree.buffer_updates.values() if each.dtype.kind == "f")
        return calls + [call for becomes in new for call in self.check(becomes, LARGEST)]

    def last(self, *, all_updates: bool) -> list[Invocation]:
        """Return the calls that end a step: updates that need the norm, updates of rows, and new values of buffers."""
        calls, max_norm = list[Invocation](), self.optimizer.max_norm
        if max_norm is not None:
            calls += self.scale(max_norm)
        if all_updates:
            for parameter, gradient in self.tree.gradients.items():
                calls += self.update(parameter, gradient)
        for rows in self.tree.rows:
            calls += self.update(rows.parameter, rows.sums, rows)
        return calls + [self.move(buffer, becomes) for buffer, becomes in self.tree.buffer_updates.items()]

    def update(self, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None = None) -> list[Invocation]:
        """Return the calls that update a parameter and its average."""
        assert isinstance(parameter, Parameter)
        rule: UpdateRule = self.optimizer.rule(parameter)
        move = self._update_elements if rule.elementwise else self._update_whole
        calls = [move(rule, parameter, gradient, rows)]
        averaging: UpdateRule | None = self.optimizer.average_rule(parameter)
        if averaging is not None:
            average, new = self._state(parameter, AVERAGE, 1), self._flat_argument(self.tree.leaf(parameter), 1)
            arguments: list[Argument] = [average, new, *self._numbers_of(averaging, parameter.dtype)]
            routine, comment = self._rule_routine(averaging, parameter.dims), f"the average of {label(parameter)}"
            calls.append(Invocation(routine, arguments, set(), comment, updated=parameter))
        return calls

    def check(self, array: ArrayBuffer, limit: str, rows: RowSums | None = None) -> list[Invocation]:
        """Return the calls that count the elements of an array, or of its touched rows, beyond a limit."""
        dtype, row_axes = array.dtype, 0 if rows is None else min(2, len(array.dims))
        largest, total, beyond = self._scalar(limit, dtype), self._scalar(BEYOND, dtype), beyond_limit(dtype)
        if total not in self.counts:
            self.counts.append(total)
        if row_axes == 0 and is_large(array.dims) and len(array.dims) > 1:
            flat = self._flat_argument(array, 2)
            counts = CountsArgument(self.tree.name("counts"), flat)
            routine = self._routine("count_in_rows", sum_of_rows, beyond, dtype)
            routine.divided = routine.is_independent
            add = self._routine("add_counts", added_sum, plain_sum(dtype), dtype)
            return [
                Invocation(routine, [flat, largest, counts], {array}, array.name),
                Invocation(add, [counts, total], set(), array.name),
            ]
        given: list[Argument] = [self._flat_argument(array, max(1, row_axes)), largest, total]
        given += [] if rows is None else [rows.count]
        routine = self._routine("count_beyond", added_sum, beyond, dtype, row_axes)
        return [Invocation(routine, given, {array}, array.name)]

    def _routine(self, name: str, write: Callable[..., ArrayFunction], *options: Any) -> ArrayRoutine:
        """Return a function that all calls with these options share."""
        key = name, *options
        if key not in self.routines:
            self.routines[key] = ArrayRoutine(write(self.tree.name(name), *options), distinct=True)
        return self.routines[key]

    def _update_elements(
        self, rule: UpdateRule, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None
    ) -> Invocation:
        row_axes = 0 if rows is None else min(2, len(parameter.dims))
        routine = self._rule_routine(rule, parameter.dims, row_axes)
        axes, buffer = max(1, row_axes), self.tree.leaf(parameter)
        states = [self._state(parameter, state, axes) for state in rule.state]
        arguments: list[Argument] = [self._flat_argument(buffer, axes), self._flat_argument(gradient, axes), *states]
        arguments += self._numbers_of(rule, parameter.dtype)
        if rows is not None:
            arguments += [rows.rows, rows.count]
        comment = f"{buffer.name} {format_dims(parameter.dims)}"
        return Invocation(routine, arguments, {gradient}, comment, updated=parameter)

    def _rule_routine(self, rule: UpdateRule, dims: Dims, row_axes: int = 0) -> ArrayRoutine:
        """Return the function of an elementwise rule, which parameters with the rule share."""
        kind = ["all", "elements", "rows"][row_axes]
        row_size = small_size(dims[1:]) if row_axes == 2 else None
        key = rule, kind, row_size
        if key not in self.routines:
            name = self.tree.name(f"update_{kind}_{rule.parameter.dtype}")
            self.routines[key] = ArrayRoutine(update(name, rule, row_axes, row_size), distinct=True)
        if is_large(dims) and not row_axes:
            self.routines[key].divided = self.routines[key].is_independent
        return self.routines[key]

    def _update_whole(
        self, rule: UpdateRule, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None
    ) -> Invocation:
        assert rows is None, "a rule over whole parameters has dense gradients"
        if rule not in self.rules:
            self.rules[rule] = self._rule_source(rule)
        source, buffer = self.rules[rule], self.tree.leaf(parameter)
        changed: dict[BaseNode, FlatArgument | StateArgument] = {rule.parameter: self._flat_argument(buffer, 1)}
        changed |= {leaf: self._state(parameter, state, 1) for state, leaf in rule.state.items()}
        given: dict[BaseNode, FlatArgument | StateArgument | OptimizerNumber] = {
            **changed, rule.gradient: self._flat_argument(gradient, 1)
        }  # fmt: skip
        given |= zip(rule.hyperparameters.values(), self._numbers_of(rule, parameter.dtype), strict=True)
        call = WholeCall(source, given)
        arguments = [CallArgument(self.tree.name(f"{buffer.name}_update_{i}"), call, i) for i in range(source.count)]
        comment = f"{buffer.name} {format_dims(parameter.dims)}"
        return Invocation(source.run, arguments, {gradient}, comment, updated=parameter)

    def move(self, buffer: BaseNode, becomes: ArrayBuffer) -> Invocation:
        """Return the call that gives a buffer its new value."""
        memory = self.tree.leaf(buffer)
        comment = f"{memory.name} {format_dims(buffer.dims)}"
        given = [self._flat_argument(becomes, 1), self._flat_argument(memory, 1)]
        return Invocation(copied, given, {becomes}, comment, updated=buffer)

    def scale(self, max_norm: float) -> list[Invocation]:
        """Return the calls that compute the factor by which the rules scale all gradients."""
        calls: list[Invocation] = []
        total = self._scalar("squares__sum", np.dtype(np.float64))
        given = [(buffer, parameter.dims, None) for parameter, buffer in self.tree.gradients.items()]
        for gradient, dims, rows in [*given, *((r.sums, r.parameter.dims, r) for r in self.tree.rows)]:
            row_axes = 0 if rows is None else min(2, len(dims))
            options = global_norm(_WIDE).squares, gradient.dtype, row_axes, bool(calls)
            routine = self._routine(f"squares_{gradient.dtype}", added_sum, *options)
            arguments: list[Argument] = [self._flat_argument(gradient, max(1, row_axes)), total]
            arguments += [] if rows is None else [rows.count]
            calls.append(Invocation(routine, arguments, {gradient}, gradient.name))
        for dtype in {gradient.dtype: None for invocation in calls for gradient in invocation.buffers}:
            routine = self._routine(f"{GRADIENT_SCALE}_{dtype}", gradient_scale, max_norm, dtype)
            calls.append(Invocation(routine, [total, self._number(GRADIENT_SCALE, dtype)], set()))
        return calls

    def _flat_argument(self, buffer: ArrayBuffer, axes: int) -> FlatArgument:
        return FlatArgument(self.tree.name(f"flat_{buffer.name}"), buffer, axes)

    def _state(self, parameter: BaseNode, state: str, axes: int) -> StateArgument:
        name = self.tree.name(f"{state}_of_{self.tree.leaf(parameter).name}")
        return StateArgument(name, parameter, state, axes)

    def _numbers_of(self, rule: UpdateRule, dtype: np.dtype) -> list[OptimizerNumber]:
        return [self._number(each, dtype) for each in rule.hyperparameters]

    def _number(self, number: str, dtype: np.dtype) -> OptimizerNumber:
        """Return a number of the rules; each step reads it from `hyperparameters`, or computes it."""
        if number != GRADIENT_SCALE and number not in self.hyperparameters:
            self.hyperparameters.append(number)
        return self._scalar(number, dtype)

    def _scalar(self, number: str, dtype: np.dtype) -> OptimizerNumber:
        name = f"{number}_{dtype}"
        return self.numbers.setdefault(name, OptimizerNumber(name, number, dtype))
