"""The updates of a step: an optimizer's rules as loops over elements or touched rows, and the order of their calls.

A call of a program with an optimizer computes all gradients and new values of buffers before it updates. It counts
those beyond a limit, and ends there if there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

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
from wyrm.engines.native.ir.types import FLOAT64
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
from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE, OptimizerInterface, UpdateRule
from wyrm.graph.axes import Dims
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.parameters import Parameter
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array

if TYPE_CHECKING:
    from wyrm.engines.native.stages.write import Source


# The numbers of a step: the limits that Python sets, of gradients and of other numbers, and the count of those beyond.
GRADIENT_LIMIT, LARGEST, BEYOND = "gradient_limit", "largest", "beyond"
_J, _K, _ROW = Name("j"), Name("k"), Name("row")
_COUNT = Name("count_beyond")


def count_beyond(name: str, row_axes: int, dtype: np.dtype) -> ArrayFunction:
    """Return the function that adds the number of elements of `array` beyond `limit`, or NaN, to `total`.

    With `row_axes`, the array has one or two axes, and only the first `count[0]` rows belong to it.
    """
    loop = over_rows(row_axes, "array", [_counted(Element("array", (_K, _J) if row_axes == 2 else (_J,)), dtype)])
    body = (_LIMIT, Let(_COUNT.name, Element("total", ())), loop, Store("total", (), _COUNT))
    return ArrayFunction(name, ("array", "limit", "total", *(["count"] if row_axes else [])), body)


def count_in_rows(name: str, dtype: np.dtype) -> ArrayFunction:
    """Return the function that stores in `counts`, for each row of `array`, the number of elements beyond `limit`.

    Threads may share the rows.
    """
    loop = CountedLoop("j", ArraySize("array", 1), (_counted(Element("array", (_ROW, _J)), dtype),))
    body = (Let(_COUNT.name, number(0.0, dtype)), loop, Store("counts", (_ROW,), _COUNT))
    return ArrayFunction(name, ("array", "limit", "counts"), (_LIMIT, CountedLoop("row", ArraySize("array", 0), body)))


def add_counts(name: str) -> ArrayFunction:
    """Return the function that adds the sum of `counts` to `total`."""
    more = Let(_COUNT.name, Apply("accumulate", (_COUNT, Element("counts", (_J,)))))
    loop = CountedLoop("j", ArraySize("counts", 0), (more,))
    body = (Let(_COUNT.name, Element("total", ())), loop, Store("total", (), _COUNT))
    return ArrayFunction(name, ("counts", "total"), body)


def over_rows(row_axes: int, array: str, each: Sequence[Statement]) -> CountedLoop:
    """Return the loop over the elements `j` of a flat array, or over elements `j` of the first `count[0]` rows `k`."""
    size = Element("count", (Literal(0),)) if row_axes == 1 else ArraySize(array, max(0, row_axes - 1))
    loop = CountedLoop("j", size, tuple(each))
    return CountedLoop("k", Element("count", (Literal(0),)), (loop,)) if row_axes == 2 else loop


_LIMIT = Let("limit_", Element("limit", ()))


def _counted(value: Expression, dtype: np.dtype) -> Statement:
    """Return the statement that counts 1 unless a value is within the limit; comparisons with NaN are false."""
    within = Apply("less_equal", (Apply("abs", (value,)), Name("limit_")))
    one = Apply("where", (within, number(0.0, dtype), number(1.0, dtype)))
    return Let(_COUNT.name, Apply("accumulate", (_COUNT, one)))


# The least divisor whose reciprocal is far from the largest number.
_LEAST_DIVISOR = 1e-20


def update(name: str, rule: UpdateRule, row_axes: int, row_size: int | None) -> ArrayFunction:
    """Return the function that updates one parameter: all of it, or with `row_axes` the touched rows.

    Its arguments are the parameter, the gradient, the arrays of the state and the numbers of the step, all in the order
    of the rule; for rows also `rows` and `count`. Arrays are flat, or have `row_axes` axes, which is one or two. The
    gradient of rows is reset to zero for the next step. `row_size` specializes the code for rows of that many elements.
    A step in which the rule is idle reads nothing.
    """
    row, j, k = Name("row"), Name("j"), Name("k")
    element = [(j,), (row,), (row, j)][row_axes]
    gradient_index = [(j,), (k,), (k, j)][row_axes]  # of the gradient
    schedule = Schedule(rule.outputs)
    state, hyperparameters, dtype = list(rule.state), list(rule.hyperparameters), rule.parameter.dtype
    parameter, gradient = str(rule.parameter.name), str(rule.gradient.name)
    arguments = [parameter, gradient, *state, *hyperparameters, *(["rows", "count"] if row_axes else [])]
    targets = [parameter, *state]
    arrays = {rule.parameter: parameter, rule.gradient: gradient, **{rule.state[key]: key for key in state}}
    values: dict[BaseNode, Expression] = {}
    once: list[Statement] = []
    each: list[Statement] = []
    for key in hyperparameters:
        values[rule.hyperparameters[key]] = Name(f"{key}_")
        once.append(Let(f"{key}_", Element(key, ())))
    for leaf, array in arrays.items():
        values[leaf] = Name(f"{array}_")
        each.append(Let(f"{array}_", Element(array, gradient_index if leaf is rule.gradient else element)))
    used, roots = count(), _Roots()
    for node in schedule.nodes:
        if node in values:
            continue
        if node.is_leaf:
            values[node] = number(bound_array(node).item(), dtype)
            continue
        operands = [values[parent] for parent in schedule.parents(node)]
        lets, result = formula_code(
            node.formula, operands, _attributes(node, dtype), dtype, lambda: f"t{next(used)}"
        )  # fmt: skip
        variable = f"{node.op_name()}_{next(used)}"
        values[node] = Name(variable)
        if dtype == np.float32:
            result = roots.seen(variable, result)
        (each if node.dims else once).extend([*lets, Let(variable, result)])
    flushed = _flushing(dtype) if rule.flushes and not row_axes and state else None
    if flushed is not None:
        each.append(flushed[0])
    for target, output in zip(targets, schedule.outputs, strict=True):
        moved = values[output]
        if flushed is not None and target != parameter:
            moved = Apply("where", (Apply("less", (Apply("abs", (moved,)), flushed[1])), number(0.0, dtype), moved))
        each.append(Store(target, element, moved))
    if row_axes:
        each.append(Store(gradient, gradient_index, Literal(0)))
    body: tuple[Statement, ...] = (*once, _loop(each, parameter, gradient, row_axes, row_size))
    if rule.idle_at_zero is not None:
        body = (When(Apply("not_equal", (Element(rule.idle_at_zero, ()), number(0.0, dtype))), body),)
    return ArrayFunction(name, tuple(arguments), body)


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


def _flushing(dtype: np.dtype) -> tuple[Let, Name]:
    """Return the limit below which state becomes zero: the smallest normal number if the gradient is zero, else < 0.

    A branch instead would make the loop of Adam a quarter slower.
    """
    tiny = float(np.finfo(dtype).tiny)
    factor = Apply("multiply", (Apply("abs", (Name("gradient_"),)), number(1.0 / tiny, dtype)))
    return Let("limit__", Apply("subtract", (number(tiny, dtype), factor))), Name("limit__")


def _loop(body: Sequence[Statement], parameter: str, gradient: str, row_axes: int, row_size: int | None) -> CountedLoop:
    """Return the loop over the elements or the touched rows."""
    if row_axes == 0:
        return CountedLoop("j", ArraySize(parameter, 0), tuple(body))
    row = Let("row", Apply("natural", (Element("rows", (Name("k"),)),)))
    size = ArraySize(gradient, 1) if row_size is None else Literal(row_size)
    inner = tuple(body) if row_axes == 1 else (CountedLoop("j", size, tuple(body)),)
    return CountedLoop("k", Element("count", (Literal(0),)), (row, *inner))


_WIDE = np.dtype(np.float64)


def squares(name: str, row_axes: int, first: bool) -> ArrayFunction:
    """Return the function that adds the squares of a gradient to `total`, a float64; the `first` one replaces it.

    With `row_axes`, the gradient has one or two axes, and only the first `count[0]` rows belong to it.
    """
    j, k = Name("j"), Name("k")
    element = Convert(Element("gradient", (k, j) if row_axes == 2 else (j,)), FLOAT64)
    square = Apply("multiply", (Name("x"), Name("x")))
    each = (Let("x", element), Let("sum", Apply("accumulate", (Name("sum"), square))))
    loop = over_rows(row_axes, "gradient", each)
    body = (Let("sum", number(0.0, _WIDE)), loop, Store("total", (), Name("sum"), adds=not first))
    return ArrayFunction(name, ("gradient", "total", *(["count"] if row_axes else [])), body)


def gradient_scale(name: str, max_norm: float, dtype: np.dtype) -> ArrayFunction:
    """Return the function that computes the factor of the gradients from `total`, the sum of their squares.

    The factor is a NaN if the sum is not finite: the step has then diverged.
    """
    norm, limit = Name("norm"), number(max_norm, _WIDE)
    clipped = Apply("divide", (limit, norm))
    factor = Apply("where", (Apply("greater", (norm, limit)), clipped, number(1.0, _WIDE)))
    checked = Apply("where", (Apply("isfinite", (norm,)), factor, number(np.nan, _WIDE)))
    body = (
        Let("norm", Apply("sqrt", (Element("total", ()),))),
        Store("scale", (), Convert(checked, scalar_type(dtype))),
    )
    return ArrayFunction(name, ("total", "scale"), body)


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
    numbers that end a checked step, before anything changes, unless they are 0.
    """

    def __init__(
        self, tree: LoopTree, optimizer: OptimizerInterface, rule_source: Callable[[UpdateRule], Source]
    ) -> None:
        self.tree = tree
        self.optimizer = optimizer
        self._rule_source = rule_source
        self.routines: dict[object, ArrayRoutine] = {}
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
            average, new = self._state(parameter, AVERAGE, 1), self._flat(self.tree.leaf(parameter), 1)
            arguments: list[Argument] = [average, new, *self._numbers_of(averaging, parameter.dtype)]
            routine, comment = self._rule_routine(averaging, parameter.dims), f"the average of {label(parameter)}"
            calls.append(Invocation(routine, arguments, set(), comment, updated=parameter))
        return calls

    def check(self, array: ArrayBuffer, limit: str, rows: RowSums | None = None) -> list[Invocation]:
        """Return the calls that count the elements of an array, or of its touched rows, beyond a limit."""
        dtype, row_axes = array.dtype, 0 if rows is None else min(2, len(array.dims))
        largest, total = self._scalar(limit, dtype), self._scalar(BEYOND, dtype)
        if total not in self.counts:
            self.counts.append(total)
        if row_axes == 0 and is_large(array.dims) and len(array.dims) > 1:
            flat = self._flat(array, 2)
            counts = CountsArgument(self.tree.name("counts"), flat)
            routine = self._routine(count_in_rows, dtype)
            routine.divided = routine.is_independent
            return [
                Invocation(routine, [flat, largest, counts], {array}, array.name),
                Invocation(self._routine(add_counts), [counts, total], set(), array.name),
            ]
        given: list[Argument] = [self._flat(array, max(1, row_axes)), largest, total]
        given += [] if rows is None else [rows.count]
        return [Invocation(self._routine(count_beyond, row_axes, dtype), given, {array}, array.name)]

    def _routine(self, write: Callable[..., ArrayFunction], *options: Any) -> ArrayRoutine:
        """Return a function that all calls with these options share."""
        key = write, *options
        if key not in self.routines:
            self.routines[key] = ArrayRoutine(write(self.tree.name(write.__name__), *options), distinct=True)
        return self.routines[key]

    def _update_elements(
        self, rule: UpdateRule, parameter: BaseNode, gradient: ArrayBuffer, rows: RowSums | None
    ) -> Invocation:
        row_axes = 0 if rows is None else min(2, len(parameter.dims))
        routine = self._rule_routine(rule, parameter.dims, row_axes)
        axes, buffer = max(1, row_axes), self.tree.leaf(parameter)
        states = [self._state(parameter, state, axes) for state in rule.state]
        arguments: list[Argument] = [self._flat(buffer, axes), self._flat(gradient, axes), *states]
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
        changed: dict[BaseNode, FlatArgument | StateArgument] = {rule.parameter: self._flat(buffer, 1)}
        changed |= {leaf: self._state(parameter, state, 1) for state, leaf in rule.state.items()}
        given: dict[BaseNode, FlatArgument | StateArgument | OptimizerNumber] = {
            **changed, rule.gradient: self._flat(gradient, 1)
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
        given = [self._flat(becomes, 1), self._flat(memory, 1)]
        return Invocation(copied, given, {becomes}, comment, updated=buffer)

    def scale(self, max_norm: float) -> list[Invocation]:
        """Return the calls that compute the factor by which the rules scale all gradients."""
        calls: list[Invocation] = []
        total = self._scalar("squares__sum", np.dtype(np.float64))
        given = [(buffer, parameter.dims, None) for parameter, buffer in self.tree.gradients.items()]
        for gradient, dims, rows in [*given, *((r.sums, r.parameter.dims, r) for r in self.tree.rows)]:
            row_axes = 0 if rows is None else min(2, len(dims))
            key = "squares", gradient.dtype, row_axes, not calls
            if key not in self.routines:
                code = squares(self.tree.name(f"squares_{gradient.dtype}"), row_axes, not calls)
                self.routines[key] = ArrayRoutine(code, distinct=True)
            arguments: list[Argument] = [self._flat(gradient, max(1, row_axes)), total]
            arguments += [] if rows is None else [rows.count]
            calls.append(Invocation(self.routines[key], arguments, {gradient}, gradient.name))
        for dtype in {gradient.dtype: None for invocation in calls for gradient in invocation.buffers}:
            name = self.tree.name(f"{GRADIENT_SCALE}_{dtype}")
            routine = self.routines[name] = ArrayRoutine(gradient_scale(name, max_norm, dtype), distinct=True)
            calls.append(Invocation(routine, [total, self._number(GRADIENT_SCALE, dtype)], set()))
        return calls

    def _flat(self, buffer: ArrayBuffer, axes: int) -> FlatArgument:
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
