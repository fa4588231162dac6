"""The stage `write`: the functions of a program, and `run`, which steps through the data and calls them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.graph import Targets, expand
from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    CallResult,
    Element,
    Expression,
    Literal,
    Name,
    Store,
    When,
)
from wyrm.engines.native.ir.types import INT64
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.stages.expressions import UniqueNames, identifier
from wyrm.engines.native.stages.functions import FunctionWriter, LoopCall, comment_of
from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    Argument,
    ArrayBuffer,
    CallArgument,
    ColumnArgument,
    FlatArgument,
    Invocation,
    KernelCall,
    Loop,
    OptimizerNumber,
    PythonCall,
    ScalarBlock,
    SizeArgument,
)
from wyrm.engines.native.stages.materialize import Materialized, materialize
from wyrm.engines.native.stages.reductions import FEW_TURNS, most_turns
from wyrm.engines.native.stages.resized import (
    AlongEntries,
    Dependences,
    counts_entries,
    dependences_of,
    entries_in,
    has_entries_first,
    is_packed,
)
from wyrm.engines.native.stages.runtime import (
    LOADS,
    OpKernels,
    added,
    copied,
    count_entries,
    fill_with_invalid_indices,
    fill_with_nan,
    fill_with_ones,
    load,
    load_entries,
    load_entry_rows,
    load_number,
    load_row_lengths,
    load_row_starts,
    put,
    release,
    taken,
)
from wyrm.engines.native.stages.updates import UpdateCalls, updated_numbers
from wyrm.engines.optimizer import OptimizerInterface, UpdateRule
from wyrm.errors import RegistrationError, ShapeError
from wyrm.graph.axes import Axis, Derived, Dim, Dims, Entries, Plus, Times, open_axes
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.loop_form import LOOPS, python_function
from wyrm.graph.ragged_leaves import EntryRows, RowLengths, RowStarts, entries_axis, lengths_of
from wyrm.graph.schedule import Ranges, Schedule
from wyrm.ops.kernels.native import Spoiling
from wyrm.ops.random.philox import STEP, Counter

# Programs with more calls per step than this compile their functions separately instead of as one function.
LARGEST_FUNCTION = 40


class Head(NamedTuple):
    """The first arguments of `run`, which each call gives.

    `step` is the step number of random nodes, to which `first` and the number of the step in this call are added.
    `order` is the order of the rows of data, and `batch` their number in a step. `run` adds to `totals`. The
    `hyperparameters` are the optimizer's numbers, of shape (steps, numbers).
    """

    first: int
    steps: int
    batch: int
    step: int
    order: NDArray[np.int64]
    totals: NDArray[np.float64]
    hyperparameters: NDArray[np.float64]


def write(loops: Materialized) -> Source:
    """Return the functions of a program, with columns of data for all inputs."""
    leaves = loops.tree.schedule.leaves
    inputs = [leaf for leaf in leaves if isinstance(leaf, Input | IndexInput) and not isinstance(leaf, Counter)]
    return Source(loops, inputs, OpKernels())


class Source:
    """The functions of a program, and the arguments of its `run`, in order.

    `run` reads columns of data for `inputs`. A loss that is not finite ends a step.
    """

    def __init__(self, loops: Materialized, inputs: Sequence[BaseNode], op_kernels: OpKernels) -> None:
        self.tree: LoopTree = loops.tree
        self.inputs: list[BaseNode] = list(inputs)
        self.op_kernels = op_kernels
        tree = self.tree
        # The sources of the loops inside the graph.
        self.scans: list[Source] = []
        self._writer = FunctionWriter(loops, self.op_kernels)
        self.invocations: list[Invocation] = []
        self.arguments: dict[str, Argument] = {}
        # For each axis of the entries of rows, the column of offsets and the number of entries of a step.
        self._offsets: dict[type[Dim], tuple[Name, Name]] = {}
        self._resized: dict[KernelCall, Dependences | None] = {}
        self.evaluated: list[KernelCall] = []
        self.hyperparameters: list[str] = []
        self.fed: list[tuple[BaseNode, ArrayBuffer]] = [(x, tree.leaf(x)) for x in inputs if x in tree.buffers]
        # Buffers that are read after all invocations, so that their memory is not reused.
        loss = [] if tree.loss is None else [tree.loss]
        self.live_at_end: list[ArrayBuffer] = [*tree.buffer_updates.values(), *loss]
        # The arrays that debug mode does not spoil: leaves, sums of rows, and those that a call has used.
        self._kept = {*tree.buffers.values(), *(buffer for rows in tree.rows for buffer in rows.buffers)}
        self.loop_calls: list[LoopCall] = self._loops()
        self.updates: dict[object, ArrayRoutine] = {}
        self.rules: list[Source] = []  # the functions of rules over whole parameters
        # The number of invocations after which the loss is known.
        self._known = 0 if tree.loss is None else self._first_with(tree.loss)
        # Python code may raise, so no parameter changes before the last such call.
        python = [i for i, each in enumerate(self.invocations, 1) if isinstance(each.function, PythonCall)]
        self._safe = max([self._known, *python])
        # The calls between the others and the updates that end a step, and those updates.
        self._checks: list[Invocation] = []
        self._last: list[Invocation] = []
        # The numbers that end a checked step unless they are 0.
        self._counts: list[OptimizerNumber] = []
        self._before_updates = self.invocations, self.arguments, self._kept, self.live_at_end
        self._end(checked=False)

    def checked(self) -> Source:
        """Return the same functions with a step that checks all gradients and new values of buffers before it updates.

        It ends if one is beyond its limit. These limits are numbers of its arguments; see `checks`.
        """
        found = copy.copy(self)
        found._end(checked=True)
        return found

    def _end(self, *, checked: bool) -> None:
        """Add the calls that update the parameters and the buffers, and what follows from all calls."""
        invocations, arguments, kept, live = self._before_updates
        self.invocations, self.arguments, self._kept, self.live_at_end = [*invocations], {**arguments}, {*kept}, [*live]
        tree = self.tree
        if tree.optimizer is not None:
            self._update(tree.optimizer, checked)
        inner = [*self.scans, *self.rules]
        self.size: int = len(self.calls) + sum(source.size for source in inner)
        # Kernels, copies and updates loop over whole arrays.
        of_kernels = (each.buffers for each in self.calls if isinstance(each.item, KernelCall) and each.scan is None)
        whole = [*tree.buffers.values(), *tree.outputs, *(buffer for buffers in of_kernels for buffer in buffers)]
        self.most_turns: float = max([most_turns(tree.root, whole), *(source.most_turns for source in inner)])
        self.run: ArrayRoutine = self._routine()

    @property
    def count(self) -> int:
        """The number of arguments of `run`."""
        return len(self.run.code.parameters)

    @property
    def calls_libraries(self) -> bool:
        """Whether a step may call BLAS or LAPACK of NumPy or SciPy."""
        return bool(self.evaluated) or self.op_kernels.calls_lapack

    @property
    def calls(self) -> list[Invocation]:
        """All calls of a step."""
        return [*self.invocations, *self._checks, *self._last]

    # --- parts ----------------------------------------------------------------------------------------------------

    def _loops(self) -> list[LoopCall]:
        items = [item for item in self.tree.root.items if isinstance(item, Loop | ScalarBlock) and item.items]
        calls = self._writer.calls(items)
        by_item = dict(zip(items, calls, strict=True))
        for item in [*self.tree.early, *self.tree.root.items]:
            if isinstance(item, KernelCall):
                self._add_call(item)
            elif item in by_item:
                loop = by_item[item]
                buffers = {argument for argument in loop.arguments if isinstance(argument, ArrayBuffer)}
                self.invocations.append(Invocation(loop.function, loop.arguments, buffers, item=item))
        return calls

    def _add_call(self, call: KernelCall) -> None:
        node = call.node
        buffers = {call.out, *call.operands}
        comment = f"{node.op_name()} {format_dims(node.dims)}"
        form = LOOPS.of(node)
        if form.steps(node) is not None and self._add_scan(call, node, buffers, comment):
            return
        kernel, ending = (form.adding_kernel, "added_kernel") if call.adds else (form.kernel, "kernel")
        if kernel is None:
            name = self.tree.name(f"evaluate_{identifier(node.op_name())}")
            self.evaluated.append(call)
            self.invocations.append(Invocation(PythonCall(name), [], buffers, comment, call))
            self.arguments[name] = CallArgument(name, call, -1)
            return
        self.invocations += self._writer.index_checks(call, node, f"the indices of {comment}")
        function = self.op_kernels.add(kernel, f"{identifier(node.op_name())}_{ending}")
        count = python_function(kernel).__code__.co_argcount
        arguments = [CallArgument(self.tree.name(f"{call.out.name}_{i}"), call, i) for i in range(count)]
        self.invocations.append(Invocation(function, arguments, buffers, comment, call))

    def _add_scan(self, call: KernelCall, node: BaseNode, buffers: set[ArrayBuffer], comment: str) -> bool:
        """Call the function of a loop; return False if its body has an op without a native form."""
        source = ScanSource(node, self.tree.name, self.op_kernels, self.tree.ranges)
        if source.evaluated:
            return False
        self.scans.append(source)
        arguments = [CallArgument(self.tree.name(f"{call.out.name}_{i}"), call, i, source) for i in range(source.count)]
        self.invocations.append(Invocation(source.run, arguments, buffers, comment, call, scan=source))
        return True

    def _first_with(self, buffer: ArrayBuffer) -> int:
        """Return the number of invocations after which an array is computed."""
        using = (i for i, invocation in enumerate(self.invocations) if buffer.root in invocation.roots)
        return next(using, -1) + 1

    def _update(self, optimizer: OptimizerInterface, checked: bool) -> None:
        """Add the calls that update the parameters and the buffers."""
        tree = self.tree
        calls = UpdateCalls(tree, optimizer, lambda rule: WholeUpdate(rule, tree.name, self.op_kernels), self.updates)
        late = checked or optimizer.max_norm is not None
        if checked:
            self.invocations = calls.checked(self.invocations, self._known)
            self._checks = calls.last_checks()
        elif not late:
            self.invocations = calls.placed(self.invocations, self._safe)
        if late:  # no parameter changes before all gradients are known
            self.live_at_end += tree.gradients.values()
        self._last = calls.last(all_updates=late)
        self.updates, self.hyperparameters = calls.routines, calls.hyperparameters
        self.rules = list(calls.rules.values())
        self.op_kernels.takes_threads |= any(each.divided for each in self.updates.values())
        self.arguments.update(calls.numbers)
        self._counts = calls.counts

    # --- run ------------------------------------------------------------------------------------------------------

    def _routine(self) -> ArrayRoutine:
        """Return the function that steps through the data."""
        body = arrays.CountedLoop("k", Name("steps"), tuple(self._step()))
        code = ArrayFunction("run", (*Head._fields, *self.arguments), (body, arrays.ReturnValue(Name("steps"))))
        own = {*LOADS, count_entries, copied, *(call.function for call in self.loop_calls), *self.updates.values()}
        # Nothing else may run between the steps, such as a wait for other threads.
        is_alone = bool(self.updates) and set(arrays.callees(body)) <= own
        alone = {"totals", *updated_numbers(self.calls, self.arguments.values())} if is_alone else ()
        apart = self.size > LARGEST_FUNCTION
        small = self.most_turns <= FEW_TURNS
        return ArrayRoutine(code, calls_shared=True, calls_apart=apart, alone=frozenset(alone), small=small)

    def _step(self) -> list[arrays.Statement]:
        statements, k = list[arrays.Statement](), Name("k")
        row_step = Apply("add", (Name("first"), k))
        start = Apply("multiply", (row_step, Name("batch")))
        statements += self._let_entries(start)
        for buffer, counted in self._counted_dims().items():
            count = None if counted is None else self._size(Times(counted))
            if count is not None:
                statements.append(Store(self._use(buffer).name, (), count))
        for leaf, buffer in self.fed:
            axis = entries_axis(leaf)
            if axis is not None:
                statements.append(self._load_entries(leaf, buffer, self._offsets[type(axis)][0], start))
                continue
            column = ColumnArgument(self.tree.name(f"column_of_{buffer.name}"), leaf)
            rows, batch = self._use(column), self._flat(buffer, "batch_of")
            if Spoiling.on:  # an input without a column keeps what it holds
                given = Apply("greater", (arrays.ArraySize(rows.name, 0), Literal(0)))
                statements.append(When(given, tuple(self._fill_invalid(buffer))))
            loads = load if buffer.dims else load_number
            statements.append(_call_statement(loads, rows, Name("order"), start, batch))
        if STEP in self.tree.buffers:
            steps = Apply("add", (Apply("add", (Name("step"), Name("first"))), k))
            statements.append(Store(self._use(self.tree.buffers[STEP]).name, (), steps))
        for position, number in enumerate(self.hyperparameters):
            for name, argument in list(self.arguments.items()):
                if isinstance(argument, OptimizerNumber) and argument.number == number:
                    statements.append(Store(name, (), Element("hyperparameters", (k, Literal(position)))))
        statements += [Store(self._use(total).name, (), Literal(0)) for total in self._counts]
        for position in range(len(self.invocations) + 1):
            if position == self._known and self.tree.loss is not None:
                loss = Element(self._use(self.tree.loss).name, ())
                infinite = Apply("logical_not", (Apply("isfinite", (loss,)),))
                statements.append(When(infinite, (arrays.ReturnValue(k),)))
                statements.append(Store("totals", (Literal(0),), loss, adds=True))
            statements += self._calls_of(self.invocations[position : position + 1])
        statements += self._calls_of(self._checks)
        for total in self._counts:
            some = Apply("greater", (Element(self._use(total).name, ()), Literal(0)))
            statements.append(When(some, (arrays.ReturnValue(k),)))
        statements += self._calls_of(self._last)
        counts = {rows.count.name: rows.count for rows in self.tree.rows}
        statements += [_call_statement(release, self._use(count)) for count in counts.values()]
        metrics = [] if self.tree.loss is None else self.tree.outputs[1:]  # an epoch returns their totals too
        for position, mean in enumerate(metrics, 2):
            statements.append(Store("totals", (Literal(position),), Element(self._use(mean).name, ()), adds=True))
        if self.tree.loss is not None:  # in every step, because a later one may raise
            statements.append(Store("totals", (Literal(1),), Apply("add", (k, Literal(1)))))
        return statements

    def _let_entries(self, start: Expression) -> Iterator[arrays.Statement]:
        """Yield statements that count the entries of a step along each axis of rows of different lengths."""
        self._offsets = {}
        computed = (buffer for each in self.calls for buffer in each.buffers)
        read = entries_in([*(buffer for _, buffer in self.fed), *computed])
        for leaf, _ in self.fed:
            axis, lengths = entries_axis(leaf), lengths_of(leaf)
            if axis is None or lengths is None or type(axis) in self._offsets:
                continue
            offsets = self._use(ColumnArgument(self.tree.name("offsets"), lengths))
            self._offsets[type(axis)] = offsets, Name(self.tree.name("entries"))
            if type(axis) not in read:  # a step reads the lengths alone
                continue
            most = self._use(self._writer.extent(axis))
            given = (offsets, Name("order"), start, Name("batch"), most)
            yield arrays.Let(self._offsets[type(axis)][1].name, CallResult(count_entries, given))

    def _load_entries(self, leaf: BaseNode, buffer: ArrayBuffer, offsets: Name, start: Expression) -> arrays.Statement:
        """Return the call that writes what a leaf holds of the rows of a step, by the offsets of rows in a column."""
        rows = (offsets, Name("order"), start, Name("batch"), self._flat(buffer, "batch_of"))
        loads = {EntryRows: load_entry_rows, RowStarts: load_row_starts, RowLengths: load_row_lengths}.get(type(leaf))
        if loads is not None:
            return _call_statement(loads, *rows)
        column = self._use(ColumnArgument(self.tree.name(f"column_of_{buffer.name}"), leaf))
        return _call_statement(load_entries, column, *rows)

    def _size(self, axis: Axis) -> Expression | None:
        """Return the size in a step of an axis of the entries of rows of different lengths, or of one made of it."""
        if isinstance(axis, Entries):
            return self._offsets[type(axis)][1] if type(axis) in self._offsets else None
        if not isinstance(axis, Derived) or self._offsets.keys().isdisjoint(open_axes((axis,))):
            return None
        if isinstance(axis, Plus):  # of the residuals of a loop, in which places are those of the largest step
            return None
        if not isinstance(axis, Times):
            raise ShapeError(f"axis {axis!r} of entries of rows has no native form")
        sizes = [self._size(part) or self._use(self._writer.extent(part)) for part in axis.parts]
        return reduce(lambda x, y: Apply("multiply", (x, y)), sizes)

    def _counted_dims(self) -> dict[ArrayBuffer, Dims | None]:
        """Return the numbers that the number of entries decides, with the axes whose elements each counts."""
        buffers = self.tree.buffers.values() if self._offsets else ()
        return {each: each.fixed.counted_dims() for each in buffers if each.fixed is not None and counts_entries(each)}

    @cached_property  # each epoch asks for it
    def changes_sizes(self) -> bool:
        """Whether a step may have fewer entries than its arrays: loops and kernels then work on the first ones."""
        called = [each for each in self.calls if not isinstance(each.item, Loop | ScalarBlock)]
        of_loops = [each for call in self.loop_calls for each in call.arguments if isinstance(each, ArrayBuffer)]
        packed = {each.root for each in of_loops + [x for call in called for x in call.buffers] if is_packed(each.root)}
        return (
            bool(self._offsets)
            and None not in self._counted_dims().values()
            and all(map(self._is_resized, called))
            and all(map(has_entries_first, of_loops))
            and packed <= {each.item.out.root for each in called if isinstance(each.item, KernelCall) and each.scan}
        )

    def whole_nodes(self) -> list[BaseNode]:
        """Return the nodes whose calls take arrays of the size of a step's entries, and no part of larger ones."""
        items = [each.item for each in self.calls if not self._is_resized(each)]
        return [item.node for item in items if isinstance(item, KernelCall)]

    def _is_resized(self, invocation: Invocation) -> bool:
        """Return whether a call gets arguments for the entries of a step."""
        if not entries_in([*invocation.buffers]):
            return True
        if invocation.scan is not None:
            return invocation.scan.is_over_entries
        if isinstance(invocation.function, PythonCall):
            return False
        return isinstance(invocation.item, KernelCall) and self._dependences(invocation.item) is not None

    def _dependences(self, call: KernelCall) -> Dependences | None:
        if call not in self._resized:
            self._resized[call] = dependences_of(call)
        return self._resized[call]

    def _of_entries(self, argument: CallArgument) -> Expression | None:
        """Return the argument of a kernel for the entries of a step; None for one that has no part in them."""
        call = argument.call
        if not self._offsets or not isinstance(call, KernelCall) or argument.position < 0:
            return None
        if argument.scan is not None:
            steps = argument.scan.steps
            return self._size(steps.time) if argument.position == argument.scan.length_position else None
        axes, found = entries_in([*call.operands, call.out]), self._dependences(call)
        dependence = None if found is None else found[argument.position]
        if dependence is None:
            return None
        (axis,) = axes
        number: Expression = self._offsets[axis][1]
        if dependence.times != 1:
            number = Apply("multiply", (number, Literal(dependence.times)))
        if isinstance(dependence, AlongEntries):
            return arrays.Part(self._use(argument).name, dependence.axis, number)
        return Apply("add", (number, Literal(dependence.plus))) if dependence.plus else number

    def _checked_part(self, buffer: ArrayBuffer) -> Expression:
        """Return the part of an array of indices that a check reads."""
        size = self._size(buffer.dims[0]) if buffer.dims else None
        name = self._use(buffer)
        return name if size is None else arrays.Part(name.name, 0, size)

    def _calls_of(self, invocations: Sequence[Invocation]) -> Iterator[arrays.Statement]:
        """Yield calls; where memory is spoiled, each array is before the first call that uses it."""
        for invocation in invocations:
            roots = invocation.roots if Spoiling.on else set()
            for buffer in sorted(roots, key=lambda each: each.name):  # in a fixed order
                if buffer not in self._kept and buffer.leaf is None and buffer.fixed is None:
                    self._kept.add(buffer)
                    yield from self._fill_invalid(buffer)
            checks = isinstance(invocation.item, KernelCall)
            arguments = tuple(
                self._checked_part(each) if checks and isinstance(each, ArrayBuffer) else self._given(each)
                for each in invocation.arguments
            )
            yield arrays.CallStatement(invocation.function, arguments, comment_of(invocation.comment))

    def _fill_invalid(self, buffer: ArrayBuffer) -> list[arrays.Statement]:
        fill = {"f": fill_with_nan, "i": fill_with_invalid_indices}.get(buffer.dtype.kind, fill_with_ones)
        return [_call_statement(fill, self._flat(buffer, "spoiled"))]

    def _flat(self, buffer: ArrayBuffer, kind: str = "flat") -> Expression:
        """Return the flat array of a buffer, a new argument."""
        return self._given(FlatArgument(self.tree.name(f"{kind}_{buffer.name}"), buffer, 1))

    def _given(self, argument: Argument) -> Expression:
        """Return what a call takes for an argument."""
        if isinstance(argument, SizeArgument) and (size := self._size(argument.axis)) is not None:
            return size
        if isinstance(argument, CallArgument) and (part := self._of_entries(argument)) is not None:
            return part
        if isinstance(argument, FlatArgument) and argument.is_number:
            # By one pointer, so that LLVM keeps a number that is written and read again in a register.
            return arrays.Flat(self._use(argument.buffer).name)
        return self._use(argument)

    def _use(self, argument: Argument) -> Name:
        self.arguments.setdefault(argument.name, argument)
        return Name(argument.name)

    # --- text -----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The functions as text: op kernels in Python, the loops, the updates, and `run` last."""
        return "\n\n".join([*self.op_kernels.sources, *self._texts()])

    def _texts(self) -> list[str]:
        routines = [call.function for call in self.loop_calls]
        routines += self.updates.values()
        texts = [routine.code.text for routine in dict.fromkeys(routines)]
        texts += [text for rule in self.rules for text in rule._texts()]
        return [*texts, *(text for scan in self.scans for text in scan._texts()), self.run.code.text]


def _call_statement(function: Routine, *arguments: Expression) -> arrays.CallStatement:
    return arrays.CallStatement(function, arguments)


def _inner(outputs: Sequence[BaseNode], names: UniqueNames, ranges: Ranges | None = None) -> LoopTree:
    """Return the loops of a graph inside a step, whose outputs have arrays of their own; the names go on."""
    replacements = expand(outputs)
    schedule = Schedule([replacements[output] for output in outputs])
    tree = LoopTree(schedule, Targets([]), ranges or Ranges(schedule.nodes), names)
    tree.outputs = [tree.own_array(schedule.representative[replacements[output]]) for output in outputs]
    return tree


class WholeUpdate(Source):
    """The function of a rule over whole parameters: it computes the new values, and then copies them to the arrays."""

    def __init__(self, rule: UpdateRule, names: UniqueNames, op_kernels: OpKernels) -> None:
        tree = _inner(rule.outputs, names)  # a new state may be another old one, so the outputs are copied
        self._targets = [tree.leaf(leaf) for leaf in (rule.parameter, *rule.state.values())]
        self._name = names("update_whole")
        super().__init__(materialize(tree), (), op_kernels)
        if self.evaluated:
            raise RegistrationError(
                f"an optimizer's rule uses {self.evaluated[0].node.op_name()}, which has no native form; train with "
                f"backward() and step(), or use other ops"
            )

    def _routine(self) -> ArrayRoutine:
        statements = list(self._calls_of(self.invocations))
        for new, target in zip(self.tree.outputs, self._targets, strict=True):
            statements.append(_call_statement(copied, self._flat(new), self._flat(target)))
        return ArrayRoutine(ArrayFunction(self._name, tuple(self.arguments), tuple(statements)), calls_shared=True)


class ScanSource(Source):
    """The function of a loop inside a graph: it runs the body in each step, as a program does for each row of data."""

    def __init__(self, node: BaseNode, names: UniqueNames, op_kernels: OpKernels, ranges: Ranges) -> None:
        steps = LOOPS.of(node).steps(node)
        assert steps is not None
        self.steps = steps
        tree = _inner(steps.body.outputs, names, ranges.inside(node))
        self.outer: list[str] = []
        self._name = names("scan")
        super().__init__(materialize(tree), (), op_kernels)

    @property
    def length_position(self) -> int:
        """The position of the number of steps among the arguments of the function."""
        return self.steps.limited + self.steps.carried + self.steps.sequences

    @property
    def is_over_entries(self) -> bool:
        """Whether this is a loop over the entries of rows of different lengths, each step of which sees one entry."""
        inside = [*self.tree.buffers.values()]
        return isinstance(self.steps.time, Entries) and not entries_in(inside) and not any(map(counts_entries, inside))

    def _routine(self) -> ArrayRoutine:
        steps, tree = self.steps, self.tree
        inputs, count = steps.body.inputs, steps.carried
        carried = [self._flat(tree.leaf(leaf)) for leaf in inputs[:count]]
        next_carried, rows, sums = self.tree.outputs[:count], self.tree.outputs[count:], list[ArrayBuffer]()
        condition = rows.pop() if steps.stops else None
        if steps.summed:
            rows, sums = rows[: -steps.summed], rows[-steps.summed :]
        before, per_step, after = list[arrays.Statement](), list[arrays.Statement](), list[arrays.Statement]()
        done, t = Name("done"), Name("t")
        if steps.limited:
            before.append(arrays.Let("done", Literal(0)))
        limit = self._outer("limit") if steps.limited else None
        starts = [self._outer("start") for _ in carried]
        sequences = [self._outer("sequence") for _ in range(steps.sequences)]
        length: Expression = self._outer("length")
        if limit is None:
            before.append(arrays.Let("count", length))
        else:
            asked = Element(limit.name, (Literal(0),))
            beyond = Apply("greater", (asked, length))
            before.append(arrays.Let("count", Apply("where", (beyond, length, arrays.Convert(asked, INT64)))))
        histories: list[str] = []
        for start, carry in zip(starts, carried, strict=True):
            names = ("last", "history") if steps.reverse else ("history", "last")
            outer = {name: self._outer(name) for name in names}
            last, history = outer["last"], outer["history"]
            histories.append(history.name)
            before.append(_call_statement(copied, start, carry))
            after.append(_call_statement(copied, carry, last))
            if steps.keeps:
                per_step.append(_call_statement(put, carry, history, t))
                if not steps.reverse and (steps.limited or isinstance(steps.time, Entries)):
                    # There may be rows after those of the steps: the first has the carry after the last step.
                    ran, rows_of_history = (
                        (done, length) if steps.limited else (length, arrays.ArraySize(history.name, 0))
                    )
                    after.append(
                        When(Apply("less", (ran, rows_of_history)), (_call_statement(put, carry, history, ran),))
                    )
        for sequence, leaf in zip(sequences, inputs[count : count + steps.sequences], strict=True):
            if leaf in tree.buffers:
                per_step.append(_call_statement(taken, sequence, t, self._flat(tree.leaf(leaf))))
        per_step += self._calls_of(self.invocations)
        for buffer in rows:
            stacked = self._outer("made")
            histories.append(stacked.name)
            per_step.append(_call_statement(put, self._flat(buffer), stacked, t))
        for buffer in sums:
            total = self._outer("total")
            before.append(arrays.fill(total.name, 1))
            per_step.append(_call_statement(added, self._flat(buffer), total))
        for buffer, carry in zip(next_carried, carried, strict=True):
            per_step.append(_call_statement(copied, self._flat(buffer), carry))
        if steps.limited and steps.keeps:
            before += [arrays.fill(history, 2) for history in histories]
        if steps.limited:
            per_step.append(arrays.Let("done", Apply("add", (Name("k"), Literal(1)))))
        if condition is not None:
            after.append(Store(self._outer("steps_done").name, (Literal(0),), done))
            stops = Apply("logical_not", (Element(self._use(condition).name, ()),))
            per_step.append(When(stops, (arrays.Break(),)))
        last_step = Apply("subtract", (Name("count"), Literal(1)))
        first = arrays.Let("t", Apply("subtract", (last_step, Name("k"))) if steps.reverse else Name("k"))
        body = (*before, arrays.CountedLoop("k", Name("count"), (first, *per_step)), *after)
        return ArrayRoutine(ArrayFunction(self._name, (*self.outer, *self.arguments), body), calls_shared=True)

    def _outer(self, name: str) -> Name:
        """Return a new argument that the program around the loop passes."""
        self.outer.append(self.tree.name(name))
        return Name(self.outer[-1])
