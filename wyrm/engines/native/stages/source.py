"""The functions of a program: its loops, and `run`, which steps through the data and calls them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import Apply, ArrayFunction, Element, Literal, Name, Return, Store, When
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.functions import FunctionWriter, Kernel, comment_of
from wyrm.engines.native.stages.invocations import (
    Argument,
    Evaluation,
    FlatArgument,
    Invocation,
    KernelArgument,
    NumberArgument,
)
from wyrm.engines.native.stages.loops import ArrayBuffer, KernelCall, Loop, ScalarBlock
from wyrm.engines.native.stages.lower import Lowering
from wyrm.engines.native.stages.naming import UniqueNames, identifier
from wyrm.engines.native.stages.op_kernels import OpKernels
from wyrm.engines.native.stages.runtime import (
    check_all,
    check_counted,
    check_from_end,
    fill_with_invalid_indices,
    fill_with_nan,
    load,
    release,
)
from wyrm.engines.native.stages.update_calls import UpdateCalls
from wyrm.engines.native.stages.updates import OptimizerInterface, UpdateRule
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.ranges import Ranges
from wyrm.ops.kernels.scratch import DEBUG
from wyrm.ops.random.philox import STEP

# Programs with more calls per step than this compile their functions separately instead of as one function.
LARGEST_FUNCTION = 40


# Creates the functions of a loop inside the graph, and those of a rule over whole parameters.
LoopSource = Callable[[BaseNode, UniqueNames, OpKernels, Ranges], "Source"]
RuleSource = Callable[[UpdateRule, UniqueNames, OpKernels, LoopSource], "Source"]


class Source:
    """The functions of a program, and the arguments of its `run`, in order.

    `run` reads columns of data for `inputs`. `loop_of` creates the functions of loops inside the graph, and `rule_of`
    those of rules over whole parameters. A loss that is not finite ends a step.
    """

    def __init__(
        self,
        lowering: Lowering,
        inputs: Sequence[BaseNode],
        op_kernels: OpKernels,
        loop_of: LoopSource,
        rule_of: RuleSource,
    ) -> None:
        self.lowering, self.inputs = lowering, list(inputs)
        self.op_kernels, self._loop_of, self._rule_of = op_kernels, loop_of, rule_of
        # The sources of the loops inside the graph.
        self.scans: list[Source] = []
        self._writer = FunctionWriter(lowering, self.op_kernels)
        self.invocations: list[Invocation] = []
        self.arguments: dict[str, Argument] = {}
        self.evaluated: list[KernelCall] = []
        self.hyperparameters: list[str] = []
        self.fed = [(leaf, lowering.leaf(leaf)) for leaf in inputs if leaf in lowering.buffers]
        # The buffers that are read after all calls.
        self.live_at_end = [*lowering.buffer_updates.values(), *([] if lowering.loss is None else [lowering.loss])]
        self.kernels = self._loops()
        self.updates: dict[object, ArrayRoutine] = {}
        # The functions of rules over whole parameters.
        self.rules: list[Source] = []
        # The number of invocations after which the loss is known.
        self._known = 0 if lowering.loss is None else self._first_with(lowering.loss)
        # Python code may raise, so no parameter changes before the last such call.
        self._safe = max(
            [self._known, *(i for i, each in enumerate(self.invocations, 1) if isinstance(each.function, Evaluation))]
        )
        self._last: list[Invocation] = []
        if lowering.optimizer is not None:
            self._update(lowering.optimizer)
        self._last += [self._move(buffer, becomes) for buffer, becomes in lowering.buffer_updates.items()]
        inner = [*self.scans, *self.rules]
        self.size: int = len(self.invocations) + len(self._last) + sum(source.size for source in inner)
        self.run = self._routine()

    @property
    def count(self) -> int:
        """The number of arguments of `run`."""
        return len(self.run.code.parameters)

    @property
    def multiplies(self) -> bool:
        """Whether a step may call BLAS."""
        return bool(self.evaluated) or self.op_kernels.multiplies

    @property
    def calls(self) -> list[Invocation]:
        """All calls of a step."""
        return [*self.invocations, *self._last]

    # --- parts ----------------------------------------------------------------------------------------------------

    def _loops(self) -> list[Kernel]:
        items = [item for item in self.lowering.root.items if isinstance(item, Loop | ScalarBlock) and item.items]
        kernels = self._writer.kernels(items)
        by_item = dict(zip(items, kernels, strict=True))
        for item in [*self.lowering.early, *self.lowering.root.items]:
            if isinstance(item, KernelCall):
                self._call(item)
            elif item in by_item:
                kernel = by_item[item]
                buffers = {argument for argument in kernel.arguments if isinstance(argument, ArrayBuffer)}
                self.invocations.append(Invocation(kernel.function, kernel.arguments, buffers, item=item))
        return kernels

    def _call(self, call: KernelCall) -> None:
        node = call.node
        buffers = {call.out, *call.operands}
        comment = f"{node.op_name()} {format_dims(node.dims)}"
        rule = LOOPS.of(node)
        if rule.steps(node) is not None and self._scan(call, node, buffers, comment):
            return
        kernel, ending = (rule.adding_kernel, "added_kernel") if call.adds else (rule.kernel, "kernel")
        if kernel is None:
            name = self.lowering.name(f"evaluate_{identifier(node.op_name())}")
            self.evaluated.append(call)
            self.invocations.append(Invocation(Evaluation(name), [], buffers, comment, call))
            self.arguments[name] = KernelArgument(name, call, -1)
            return
        self._check(call, node, comment)
        function = self.op_kernels.add(kernel, f"{identifier(node.op_name())}_{ending}")
        count = kernel.__code__.co_argcount
        arguments = [KernelArgument(self.lowering.name(f"{call.out.name}_{i}"), call, i) for i in range(count)]
        self.invocations.append(Invocation(function, arguments, buffers, comment, call))

    def _check(self, call: KernelCall, node: BaseNode, comment: str) -> None:
        """Check the indices of a kernel that are not known to be in range."""
        for choice in node.index_operands():
            indices = self.lowering.schedule.representative[node.parents[choice.operand]]
            if self.lowering.ranges.is_known(indices, *choice[1:]):
                continue
            buffer = call.operands[choice.operand]
            arguments: list[Argument]
            function, arguments = check_all, [buffer, self._writer.extent(choice.axis)]
            if choice.from_end:
                function = check_from_end
            elif choice.ignore_index is not None:
                function = check_counted
                arguments.append(NumberArgument(self.lowering.name(f"ignored_of_{buffer.name}"), choice.ignore_index))
            self.invocations.append(Invocation(function, arguments, {buffer}, f"the indices of {comment}", call))

    def _scan(self, call: KernelCall, node: BaseNode, buffers: set[ArrayBuffer], comment: str) -> bool:
        """Call the function of a loop; return False if its body has an op without a native form."""
        source = self._loop_of(node, self.lowering.name, self.op_kernels, self.lowering.ranges)
        if source.evaluated:
            return False
        self.scans.append(source)
        call.loop = source
        arguments = [KernelArgument(self.lowering.name(f"{call.out.name}_{i}"), call, i) for i in range(source.count)]
        self.invocations.append(Invocation(source.run, arguments, buffers, comment, call))
        return True

    def _first_with(self, buffer: ArrayBuffer) -> int:
        """Return the number of invocations after which an array is computed."""
        using = (i for i, invocation in enumerate(self.invocations) if buffer.root in map(_root, invocation.buffers))
        return next(using, -1) + 1

    def _update(self, optimizer: OptimizerInterface) -> None:
        """Add the calls that update the parameters."""
        lowering = self.lowering
        calls = UpdateCalls(
            lowering, optimizer, lambda rule: self._rule_of(rule, lowering.name, self.op_kernels, self._loop_of)
        )
        if optimizer.max_norm is None:
            self._update_early(calls)
        else:  # no parameter changes before all gradients are known
            self.live_at_end += lowering.gradients.values()
            self._last += calls.scale(optimizer.max_norm)
            for parameter, gradient in lowering.gradients.items():
                self._last += calls.update(parameter, gradient)
        for rows in lowering.rows:
            self._last += calls.update(rows.parameter, rows.sums, rows)
        self.updates, self.rules = calls.routines, list(calls.rules.values())
        self.hyperparameters = calls.hyperparameters
        self.arguments.update(calls.numbers)

    def _update_early(self, calls: UpdateCalls) -> None:
        """Put each update after its gradient is computed and its parameter is read for the last time.

        This frees the gradient's memory for others, and finds the gradient still in the processor's cache.
        """
        last: dict[ArrayBuffer, int] = {}
        for position, invocation in enumerate(self.invocations, 1):
            last.update(dict.fromkeys(map(_root, invocation.buffers), position))
        after: dict[int, list[Invocation]] = {}
        for parameter, gradient in self.lowering.gradients.items():
            buffers = self.lowering.leaf(parameter), gradient.root
            position = max(self._safe, *(last.get(buffer, 0) for buffer in buffers))
            after.setdefault(position, []).extend(calls.update(parameter, gradient))
        ordered = after.pop(0, [])
        for position, invocation in enumerate(self.invocations, 1):
            ordered += [invocation, *after.get(position, [])]
        self.invocations = ordered

    def _move(self, buffer: BaseNode, becomes: ArrayBuffer) -> Invocation:
        if "move" not in self.updates:
            i = Name("i")
            loop = arrays.CountedLoop(
                "i", arrays.ArraySize("target", 0), (Store("target", (i,), Element("value", (i,))),)
            )
            code = ArrayFunction(self.lowering.name("move"), ("target", "value"), (loop,))
            self.updates["move"] = ArrayRoutine(code, distinct=True)
        memory = self.lowering.leaf(buffer)
        arguments = [FlatArgument(self.lowering.name(f"flat_{each.name}"), each, 1) for each in (memory, becomes)]
        comment = f"{memory.name} {format_dims(buffer.dims)}"
        return Invocation(self.updates["move"], arguments, {becomes}, comment, updated=buffer)

    # --- run ------------------------------------------------------------------------------------------------------

    def _routine(self) -> ArrayRoutine:
        """Return the function that steps through the data."""
        body = arrays.CountedLoop("k", Name("count"), tuple(self._step()))
        head = ["first", "count", "batch", "step", "order", "totals", "hyperparameters", *self.arguments]
        code = ArrayFunction("run", tuple(head), (body, Return(Name("count"))))
        return ArrayRoutine(code, calls_shared=True, calls_apart=self.size > LARGEST_FUNCTION)

    def _step(self) -> list[arrays.Statement]:
        statements, spoiling, k = list[arrays.Statement](), self._invalid_fills(), Name("k")
        row_step = Apply("add", (Name("first"), k))
        for leaf, buffer in self.fed:
            column = FlatArgument(self.lowering.name(f"column_of_{buffer.name}"), None, 2, column=leaf)
            batch = FlatArgument(self.lowering.name(f"batch_of_{buffer.name}"), buffer, 1)
            rows = self._use(column)
            if DEBUG:  # an input without a column keeps what it holds
                given = Apply("greater", (arrays.ArraySize(rows.name, 0), Literal(0)))
                statements.append(When(given, tuple(self._fill_invalid(buffer))))
            start = Apply("multiply", (row_step, Name("batch")))
            statements.append(arrays.CallStatement(load, (rows, Name("order"), start, self._use(batch))))
        if STEP in self.lowering.buffers:
            steps = Apply("add", (Apply("add", (Name("step"), Name("first"))), k))
            statements.append(Store(self._use(self.lowering.buffers[STEP]).name, (), steps))
        for position, number in enumerate(self.hyperparameters):
            for name, flat in list(self.arguments.items()):
                if isinstance(flat, FlatArgument) and flat.number == number:
                    statements.append(Store(name, (), Element("hyperparameters", (k, Literal(position)))))
        for position in range(len(self.invocations) + 1):
            if position == self._known and self.lowering.loss is not None:
                loss = Element(self._use(self.lowering.loss).name, ())
                infinite = Apply("logical_not", (Apply("isfinite", (loss,)),))
                statements.append(When(infinite, (Return(k),)))
                statements.append(Store("totals", (Literal(0),), loss, adds=True))
            for invocation in self.invocations[position : position + 1]:
                statements += [*spoiling.get(id(invocation), []), self._call_of(invocation)]
        statements += map(self._call_of, self._last)
        counts = {rows.count.name: rows.count for rows in self.lowering.rows}
        statements += [arrays.CallStatement(release, (self._use(count),)) for count in counts.values()]
        for position, mean in enumerate(self._metrics, 2):
            statements.append(Store("totals", (Literal(position),), Element(self._use(mean).name, ()), adds=True))
        if self.lowering.loss is not None:  # in every step, because a later one may raise
            statements.append(Store("totals", (Literal(1),), Apply("add", (k, Literal(1)))))
        return statements

    @property
    def _metrics(self) -> list[ArrayBuffer]:
        """The scalars beside the loss whose totals an epoch returns."""
        return [] if self.lowering.loss is None else self.lowering.outputs[1:]

    def _call_of(self, invocation: Invocation) -> arrays.CallStatement:
        arguments = tuple(map(self._use, invocation.arguments))
        return arrays.CallStatement(invocation.function, arguments, comment_of(invocation.comment))

    def _invalid_fills(self) -> dict[int, list[arrays.Statement]]:
        """Return the statements that, in debug mode, spoil each array before the first invocation that uses it."""
        found: dict[int, list[arrays.Statement]] = {}
        if DEBUG:
            held = {
                buffer for rows in self.lowering.rows for buffer in (rows.positions, rows.rows, rows.count, rows.sums)
            }
            held |= set(self.lowering.buffers.values())
            for invocation in self.invocations:
                for buffer in sorted(
                    set(map(_root, invocation.buffers)), key=lambda each: each.name
                ):  # in a fixed order
                    if buffer not in held and buffer.leaf is None and buffer.fixed is None:
                        held.add(buffer)
                        found.setdefault(id(invocation), []).extend(self._fill_invalid(buffer))
        return found

    def _fill_invalid(self, buffer: ArrayBuffer) -> list[arrays.Statement]:
        if buffer.dtype.kind != "f" and buffer.dtype != np.int64:
            return []
        function = fill_with_nan if buffer.dtype.kind == "f" else fill_with_invalid_indices
        return [
            arrays.CallStatement(
                function, (self._use(FlatArgument(self.lowering.name(f"spoiled_{buffer.name}"), buffer, 1)),)
            )
        ]

    def _use(self, argument: Argument) -> Name:
        self.arguments.setdefault(argument.name, argument)
        return Name(argument.name)

    # --- text -----------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The functions as text: op kernels in Python, the loops, the updates, and `run` last."""
        return "\n\n".join([*self.op_kernels.sources, *self._texts()])

    def _texts(self) -> list[str]:
        routines = [kernel.function for kernel in self.kernels]
        routines += self.updates.values()
        texts = [routine.code.text for routine in dict.fromkeys(routines)]
        texts += [text for rule in self.rules for text in rule._texts()]
        return [*texts, *(text for scan in self.scans for text in scan._texts()), self.run.code.text]


def _root(buffer: ArrayBuffer) -> ArrayBuffer:
    return buffer.root
