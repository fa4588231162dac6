"""The source of a program: its kernels, and the function `run` that steps through the data and calls them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wyrm.compiler.collect import Collection
from wyrm.compiler.expressions import FAST
from wyrm.compiler.functions import Extent, Kernel, Writer
from wyrm.compiler.loops import Call, Loop, RowSums, Slot, Straight
from wyrm.compiler.lower import Lowering
from wyrm.compiler.naming import identifier
from wyrm.compiler.updates import Optimizer, update_text
from wyrm.node.base import BaseNode, format_dims
from wyrm.node.loops import LOOPS
from wyrm.ops.philox import STEP
from wyrm.ops.scratch import DEBUG

_HEADER = '''"""{title}"""

from __future__ import annotations

import math

import numpy as np

from wyrm.backends.llvm.compilers import accumulated, entry, fused, fused_kernel, kernel, large_entry, loops, natural
from wyrm.backends.llvm.compilers import steps
from wyrm.backends.llvm.runtime import added, check_all, check_counted, checked, claim, copied, load, multiply_into, put
from wyrm.backends.llvm.runtime import release, taken
'''

# The functions of a program of more calls a step than this are compiled apart, and not as parts of one.
LARGEST_FUNCTION = 40
_DEBUG_HEADER = "from wyrm.backends.llvm.runtime import spoil_indices, spoil_numbers\n"


@dataclass(eq=False)
class KernelArgument:
    """What the kernel of an op is called with at one position: `kernel_arguments` says so when arrays are bound."""

    name: str
    call: Call
    position: int


@dataclass(eq=False)
class Flat:
    """A slot seen with one axis, or with its rows and one more; or a parameter's state or number of that name."""

    name: str
    slot: Slot | None
    axes: int
    state: tuple[BaseNode[Any, Any], str] | None = None
    column: BaseNode[Any, Any] | None = None
    # A number of the optimizer's rule, and the dtype that it has.
    number: str | None = None
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))


@dataclass(eq=False)
class Number:
    """A whole number."""

    name: str
    value: int


Argument = Slot | Extent | KernelArgument | Flat | Number


@dataclass
class Invocation:
    """One line of `run`: a function and its arguments; `reads` and `writes` say how long buffers are needed."""

    function: str
    arguments: Sequence[Argument]
    slots: set[Slot]
    comment: str = ""
    # Whether it is no compiled function but the `evaluate` of an op.
    evaluates: bool = False


class Source:
    """The text of a program and what its `run` is called with, in order.

    `fed` are the inputs whose columns `run` goes through; `loss` ends a step where it is not finite.
    """

    def __init__(
        self,
        lowering: Lowering,
        fed: Sequence[BaseNode[Any, Any]],
        loss: BaseNode[Any, Any] | None,
        optimizer: Optimizer | None,
        gradients: Mapping[BaseNode[Any, Any], BaseNode[Any, Any]],
        moving: Mapping[BaseNode[Any, Any], BaseNode[Any, Any]],
        collection: Collection | None = None,
    ) -> None:
        self.lowering, self.loss = lowering, loss
        self._collection = collection or Collection()
        # The sources of the loops in the graph.
        self.scans: list[Any] = []
        self._writer = Writer(lowering, self._collection)
        self.invocations: list[Invocation] = []
        self.arguments: dict[str, Argument] = {}
        self.evaluated: list[Call] = []
        self.hyper: list[str] = []
        self.fed = [(leaf, lowering.leaf(leaf)) for leaf in fed if leaf in lowering.slots]
        dense = {parameter: lowering.array(node) for parameter, node in gradients.items()}
        becoming = {buffer: lowering.array(node) for buffer, node in moving.items()}
        # What is read when all calls are done.
        self.kept = [*becoming.values(), *([] if loss is None else [lowering.array(loss)])]
        self.kernels = self._loops()
        self.updates: dict[str, str] = {}
        # After how many invocations the loss is there.
        self._known = 0 if loss is None else self._first_with(lowering.array(loss))
        # What is computed in Python may raise, and a step that does has moved nothing.
        self._safe = max([self._known, *(i for i, each in enumerate(self.invocations, 1) if each.evaluates)])
        self._last: list[Invocation] = []
        if optimizer is not None:
            self._update_early(optimizer, dense)
            for rows in lowering.rows:
                self._last.append(self._update(optimizer, rows.parameter, rows.sums, rows))
        self._last += [self._move(buffer, becomes) for buffer, becomes in becoming.items()]
        written = [*(kernel.text for kernel in self.kernels), *self.updates.values()]
        for function in FAST.values():
            if any(f"{function.__name__}(" in text for text in written):
                self._collection.add(function, function.__name__, np.dtype(np.float32))
        self.size = len(self.invocations) + len(self._last) + sum(scan.size for scan in self.scans)
        self._run = self._run_text()

    @property
    def origins(self) -> dict[str, tuple[str, int]]:
        """The file and line of each kernel's definition, by its name here."""
        return self._collection.origins

    @property
    def multiplies(self) -> bool:
        """Whether a step may call BLAS."""
        return bool(self.evaluated) or self._collection.multiplies

    @property
    def calls(self) -> list[Invocation]:
        """All that a step calls."""
        return [*self.invocations, *self._last]

    # --- parts ----------------------------------------------------------------------------------------------------

    def _loops(self) -> list[Kernel]:
        items = [item for item in self.lowering.root.items if isinstance(item, Loop | Straight) and item.items]
        kernels = self._writer.kernels(items)
        by_item = dict(zip(items, kernels, strict=True))
        for item in [*self.lowering.early, *self.lowering.root.items]:
            if isinstance(item, Call):
                self._call(item)
            elif item in by_item:
                kernel = by_item[item]
                slots = {argument for argument in kernel.arguments if isinstance(argument, Slot)}
                self.invocations.append(Invocation(kernel.name, kernel.arguments, slots))
        first: dict[str, Kernel] = {}
        for kernel in kernels:
            first.setdefault(kernel.name, kernel)
        return list(first.values())

    def _call(self, call: Call) -> None:
        node = call.node
        slots = {call.out, *call.operands}
        comment = f"{node.op_name()} {format_dims(node.dims)}"
        rule = LOOPS.of(node)
        if rule.steps(node) is not None and self._scan(call, node, slots, comment):
            return
        kernel, ending = (rule.adding_kernel, "added_kernel") if call.adds else (rule.kernel, "kernel")
        if kernel is None:
            name = self.lowering.name(f"evaluate_{identifier(node.op_name())}")
            self.evaluated.append(call)
            self.invocations.append(Invocation(name, [], slots, comment, evaluates=True))
            self.arguments[name] = KernelArgument(name, call, -1)
            return
        self._check(call, node, comment)
        name = self._collection.add(kernel, f"{identifier(node.op_name())}_{ending}", node.dtype)
        count = kernel.__code__.co_argcount
        arguments = [KernelArgument(self.lowering.name(f"{call.out.name}_{i}"), call, i) for i in range(count)]
        self.invocations.append(Invocation(name, arguments, slots, comment))

    def _check(self, call: Call, node: BaseNode[Any, Any], comment: str) -> None:
        """Check the integers that a kernel chooses by and that are not known to be in range."""
        for choice in node.choices():
            indices = self.lowering.schedule.representative[node.parents[choice.operand]]
            if self.lowering.ranges.is_known(indices, choice.axis, choice.ignored):
                continue
            slot = call.operands[choice.operand]
            arguments: list[Argument]
            function, arguments = "check_all", [slot, self._writer.extent(choice.axis)]
            if choice.ignored is not None:
                function = "check_counted"
                arguments.append(Number(self.lowering.name(f"ignored_of_{slot.name}"), choice.ignored))
            self.invocations.append(Invocation(function, arguments, {slot}, f"the indices of {comment}"))

    def _scan(self, call: Call, node: BaseNode[Any, Any], slots: set[Slot], comment: str) -> bool:
        """Make a function of a loop; False where its body has an op without a native form."""
        from wyrm.compiler.scans import ScanSource

        source = ScanSource(node, self.lowering.name, self._collection, self.lowering.ranges)
        if source.evaluated:
            return False
        self.scans.append(source)
        call.arguments = source.bound
        arguments = [KernelArgument(self.lowering.name(f"{call.out.name}_{i}"), call, i) for i in range(source.count)]
        self.invocations.append(Invocation(source.function, arguments, slots, comment))
        return True

    def _first_with(self, slot: Slot) -> int:
        """After how many invocations an array is computed."""
        using = (i for i, invocation in enumerate(self.invocations) if slot.root in map(_root, invocation.slots))
        return next(using, -1) + 1

    def _update_early(self, optimizer: Optimizer, dense: Mapping[BaseNode[Any, Any], Slot]) -> None:
        """Put each update where its gradient is there and nothing reads the parameter any more.

        The memory of the gradient is then free for others, and the gradient is still in the cache of the processor.
        """
        last: dict[Slot, int] = {}
        for position, invocation in enumerate(self.invocations, 1):
            last.update(dict.fromkeys(map(_root, invocation.slots), position))
        after: dict[int, list[Invocation]] = {}
        for parameter, gradient in dense.items():
            slots = self.lowering.leaf(parameter), gradient.root
            position = max(self._safe, *(last.get(slot, 0) for slot in slots))
            after.setdefault(position, []).append(self._update(optimizer, parameter, gradient, None))
        ordered = after.pop(0, [])
        for position, invocation in enumerate(self.invocations, 1):
            ordered += [invocation, *after.get(position, [])]
        self.invocations = ordered

    def _update(self, optimizer: Optimizer, parameter: Any, gradient: Slot, rows: RowSums | None) -> Invocation:
        rule = optimizer.rule(parameter.dtype)
        row_axes = 0 if rows is None else min(2, len(parameter.dims))
        kind = ["all", "elements", "rows"][row_axes]
        key = f"{parameter.dtype} {kind}"
        if key not in self.updates:
            name = self.lowering.name(f"update_{kind}_{parameter.dtype}")
            self.updates[key] = update_text(name, rule, row_axes, not rows and optimizer.flushes)
        name = self.updates[key].split("(", 1)[0].removeprefix("def ")
        axes, slot = max(1, row_axes), self.lowering.leaf(parameter)
        arguments: list[Argument] = [
            Flat(self.lowering.name(f"flat_{slot.name}"), slot, axes),
            Flat(self.lowering.name(f"flat_{gradient.name}"), gradient, axes),
        ]
        for state in rule.state:
            named = self.lowering.name(f"{state}_of_{slot.name}")
            arguments.append(Flat(named, None, axes, state=(parameter, state)))
        for number in rule.hyper:
            if number not in self.hyper:
                self.hyper.append(number)
            named = f"{number}_{parameter.dtype}"
            flat = self.arguments.get(named)
            arguments.append(flat or Flat(named, None, 0, number=number, dtype=parameter.dtype))
            self.arguments[named] = arguments[-1]
        if rows is not None:
            arguments += [rows.rows, rows.count]
        return Invocation(name, arguments, {gradient}, f"{slot.name} {format_dims(parameter.dims)}")

    def _move(self, buffer: BaseNode[Any, Any], becomes: Slot) -> Invocation:
        if "move" not in self.updates:
            name = self.lowering.name("move")
            loop = "    for i in range(target.shape[0]):\n        target[i] = value[i]\n"
            self.updates["move"] = f"def {name}(target, value):\n{loop}"
        name = self.updates["move"].split("(", 1)[0].removeprefix("def ")
        slot = self.lowering.leaf(buffer)
        arguments = [Flat(self.lowering.name(f"flat_{each.name}"), each, 1) for each in (slot, becomes)]
        return Invocation(name, arguments, {becomes}, f"{slot.name} {format_dims(buffer.dims)}")

    # --- text -----------------------------------------------------------------------------------------------------

    def _run_text(self) -> str:
        lines, spoiling = ["    for k in range(count):"], self._spoiling()
        for leaf, slot in self.fed:
            column = Flat(self.lowering.name(f"column_of_{slot.name}"), None, 2, column=leaf)
            batch = Flat(self.lowering.name(f"batch_of_{slot.name}"), slot, 1)
            if DEBUG:  # an input without a column keeps what it holds
                lines += [f"        if {self._use(column)}.shape[0] > 0:", f"            {self._spoil(slot)}"]
            lines.append(f"        load({self._use(column)}, order, (first + k) * batch, {self._use(batch)})")
        if STEP in self.lowering.slots:
            lines.append(f"        {self._use(self.lowering.slots[STEP])}[()] = step + first + k")
        for position, number in enumerate(self.hyper):
            for name, flat in list(self.arguments.items()):
                if isinstance(flat, Flat) and flat.number == number:
                    lines.append(f"        {name}[()] = hyper[k, {position}]")
        for position in range(len(self.invocations) + 1):
            if position == self._known and self.loss is not None:
                loss = self._use(self.lowering.array(self.loss))
                lines.append(f"        if not np.isfinite({loss}[()]):")
                lines.append("            return k")
                lines.append(f"        totals[0] += {loss}[()]")
            for invocation in self.invocations[position : position + 1]:
                lines += [f"        {line}" for line in [*spoiling.get(id(invocation), []), self._line(invocation)]]
        lines += [f"        {self._line(invocation)}" for invocation in self._last]
        counts = {rows.count.name: rows.count for rows in self.lowering.rows}
        lines += [f"        release({self._use(count)})" for count in counts.values()]
        if self.loss is not None:
            lines.append("        totals[1] = k + 1")  # also for who calls it when a later step raises
        if len(lines) == 1:  # all outputs are there already
            lines.append("        pass")
        lines.append("    return count")
        head = ["first", "count", "batch", "step", "order", "totals", "hyper", *self.arguments]
        return "\n".join([f"def run({', '.join(head)}):", *lines, ""])

    def _line(self, invocation: Invocation) -> str:
        comment = f"  # {re.sub(r'[^ -~]', ' ', invocation.comment)}" if invocation.comment else ""
        return f"{invocation.function}({', '.join(map(self._use, invocation.arguments))}){comment}"

    def _spoiling(self) -> dict[int, list[str]]:
        """In debug mode, the lines before each invocation that fill what it is the first to use."""
        found: dict[int, list[str]] = {}
        if DEBUG:
            held = {slot for rows in self.lowering.rows for slot in (rows.slots, rows.rows, rows.count, rows.sums)}
            held |= set(self.lowering.slots.values())
            for invocation in self.invocations:
                for slot in sorted(set(map(_root, invocation.slots)), key=lambda each: each.name):  # always the same
                    if slot not in held and slot.leaf is None and slot.fixed is None:
                        held.add(slot)
                        found.setdefault(id(invocation), []).append(self._spoil(slot))
        return found

    def _spoil(self, slot: Slot) -> str:
        if slot.dtype.kind != "f" and slot.dtype != np.int64:
            return "pass"
        function = "spoil_numbers" if slot.dtype.kind == "f" else "spoil_indices"
        return f"{function}({self._use(Flat(self.lowering.name(f'spoiled_{slot.name}'), slot, 1))})"

    def _use(self, argument: Argument) -> str:
        self.arguments.setdefault(argument.name, argument)
        return argument.name

    def text(self, compiled: bool) -> str:
        """The source of a module; where the loop over the data is not `compiled`, it is plain Python."""
        title = "A program that wyrm generated; `run` goes through the data."
        header = _HEADER.format(title=title).rstrip() + "\n" + (_DEBUG_HEADER if DEBUG else "")
        entry = "@large_entry\n" if self.size > LARGEST_FUNCTION else "@entry\n"
        return "\n\n".join([header, *self._collection.texts, *self._parts(), (entry if compiled else "") + self._run])

    def _parts(self) -> list[str]:
        """The functions of this source and of the loops in it."""
        parts = [f"@loops\n{text}" for text in (*(kernel.text for kernel in self.kernels), *self.updates.values())]
        for scan in self.scans:
            parts += [*scan._parts(), f"@steps\n{scan._run}"]
        return parts


def _root(slot: Slot) -> Slot:
    return slot.root
