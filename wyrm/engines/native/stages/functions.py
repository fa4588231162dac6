"""Writes the functions that do the work: one for each top-level item of the tree of loops."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    CallResult,
    Convert,
    Element,
    Expression,
    Let,
    Literal,
    Name,
    Store,
)
from wyrm.engines.native.ir.types import INT64
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.expressions import expression_of, float_type, formula_code, number, scalar_type
from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    Argument,
    ArrayBuffer,
    Block,
    Computed,
    ElementStatement,
    Generated,
    Invocation,
    Item,
    KernelCall,
    Loop,
    NumberArgument,
    Read,
    Reference,
    ScalarBlock,
    SizeArgument,
    in_scope,
    integers_in,
    loop_index,
)
from wyrm.engines.native.stages.materialize import Materialized
from wyrm.engines.native.stages.reductions import ReductionWriter, merged
from wyrm.engines.native.stages.runtime import OpKernels, check_all, check_counted, check_from_end, claim
from wyrm.graph.axes import Axis, Dim, axis_size, known_size
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexMap, flat
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.storage import bound_array

# Loops over at most this many elements of a row are specialized for their size: a few vectors and a tail that is known.
# An epoch of skip-grams takes less time for most widths: by 8 % for 48 and 64, 20 % for 100, 10 % for 128.
_SMALL = 128
# Loops over fewer elements, or fewer for a turn of open axes, are not prepared for threads: that takes time to compile.
_LARGE, _LARGE_ROW = 1 << 17, 1 << 10


@dataclass
class LoopCall:
    """The function of a top-level loop or of scalars, and the buffers and sizes that it is called with."""

    function: ArrayRoutine
    arguments: list[ArrayBuffer | SizeArgument]


class FunctionWriter:
    """Writes the functions of one program, and collects the op kernels that they call."""

    def __init__(self, loops: Materialized, kernels: OpKernels) -> None:
        self.tree: LoopTree = loops.tree
        self.stored: frozenset[Computed] = loops.stored
        self.op_kernels = kernels
        self._extents: dict[object, SizeArgument] = {}

    def extent(self, axis: Axis) -> SizeArgument:
        """Return the argument for the size of an axis."""
        if axis not in self._extents:
            name = f"n_{type(axis).__name__.lower()}" if isinstance(axis, Dim) else f"n_{axis}"
            self._extents[axis] = SizeArgument(self.tree.name(name), axis)
        return self._extents[axis]

    def index_checks(self, call: KernelCall, node: BaseNode, comment: str) -> Iterator[Invocation]:
        """Yield the calls that check the indices of a kernel that are not known to be in range."""
        for choice in node.index_operands():
            indices = self.tree.schedule.representative[node.parents[choice.operand]]
            if self.tree.ranges.is_known(indices, *choice[1:]):
                continue
            buffer = call.operands[choice.operand]
            arguments: list[Argument]
            function, arguments = check_all, [buffer, self.extent(choice.axis)]
            if choice.from_end:
                function = check_from_end
            elif choice.ignore_index is not None:
                function = check_counted
                arguments.append(NumberArgument(self.tree.name(f"ignored_of_{buffer.name}"), choice.ignore_index))
            yield Invocation(function, arguments, {buffer}, comment, call)

    def calls(self, items: Sequence[Loop | ScalarBlock]) -> list[LoopCall]:
        """Return the call that does the work of each item."""
        # Repeated layers differ only in names: they share one function, called with different arguments.
        first: dict[str, ArrayRoutine] = {}
        calls = []
        for item in items:
            function = _Function(self, item)
            code = function.build()
            routine = first.setdefault(code.form, ArrayRoutine(code, distinct=True))
            buffers = [each for each in function.arguments if isinstance(each, ArrayBuffer)]
            routine.divided |= any(is_large(each.dims) for each in buffers) and routine.is_independent
            self.op_kernels.takes_threads |= routine.divided
            calls.append(LoopCall(routine, list(function.arguments)))
        return calls


class _Function:
    """One function; loads and expressions are hoisted out of the loops that they do not depend on."""

    def __init__(self, writer: FunctionWriter, item: Loop | ScalarBlock) -> None:
        self.writer, self.item = writer, item
        self.tree = writer.tree
        self.arguments: dict[ArrayBuffer | SizeArgument, None] = {}
        self.before: dict[Item, list[arrays.Statement]] = {}
        self.loaded: dict[tuple[Item | None, str], Name] = {}
        # What the statement being written needs before it.
        self.pending: list[arrays.Statement] = []
        self._count = 0
        self.totals = ReductionWriter(self, self.tree.name)
        self._indexes_rows = any(map(_indexes_rows, _statements(item)))

    def build(self) -> ArrayFunction:
        """Return the function."""
        item = self.item
        if isinstance(item, Loop):
            over = type(item.axis).__name__.lower() if isinstance(item.axis, Dim) else str(item.axis)
            name = self.tree.name(f"loop_over_{over}")
            body = self._loop(item, [item])
        else:
            name = self.tree.name("scalars")
            self.before[item] = [self._zeros(buffer) for buffer in item.fills]
            rest = [
                each for one in item.items if isinstance(one, ElementStatement) for each in self._statement(one, [item])
            ]
            body = [*self.before[item], *rest]
        dims = {each.name: each.dims for each in self.arguments if isinstance(each, ArrayBuffer)}
        sizes = {each.name: each.axis for each in self.arguments if isinstance(each, SizeArgument)}
        return ArrayFunction(name, tuple(each.name for each in self.arguments), tuple(merged(body, dims, sizes)))

    # --- names ----------------------------------------------------------------------------------------------------

    def use(self, buffer: ArrayBuffer | SizeArgument) -> str:
        """Return the name of an argument, and make it a parameter of the function."""
        self.arguments[buffer] = None
        return buffer.name

    # Variables of values end with one underscore, all others with two: a value may be named `multiply_3` or `t1`.

    def variable(self, value: Computed) -> str:
        return f"{value.buffer.name}_"

    def size(self, axis: Axis) -> Expression:
        """Return the size of an axis: a literal if it is small and the function reads or adds to rows by their index.

        Otherwise LLVM would build vectors from elements of several rows, which are not contiguous.
        """
        size = small_size([axis]) if self._indexes_rows else None
        if size is not None:
            return Literal(size)
        return Name(self.use(self.writer.extent(axis)))

    def _number_or_size(self, value: float | np.floating) -> Expression:
        """Return a number that a function takes; a count, such as that of the items to draw from, is an argument."""
        if isinstance(value, int) and value > 1:
            return Name(self.use(self.writer.extent(value)))
        return number(value.item(), value.dtype) if isinstance(value, np.floating) else Literal(value)

    def temporary(self) -> str:
        """Return a name that no value has."""
        self._count += 1
        return f"t{self._count}__"

    # --- loops ----------------------------------------------------------------------------------------------------

    def _zeros(self, buffer: ArrayBuffer) -> Store:
        return arrays.fill(self.use(buffer), len(buffer.dims))

    def _loop(self, loop: Loop, path: list[Block]) -> list[arrays.Statement]:
        """Return a loop with the statements before and after it."""
        before = self.before.setdefault(loop, [])
        before += map(self._zeros, loop.fills)
        before += self.totals.start(loop)
        body: list[arrays.Statement] = []
        for item in loop.items:
            if isinstance(item, Loop):
                body += self._loop(item, [*path, item])
            elif isinstance(item, ElementStatement):
                body += self._statement(item, path)
        around = self.totals.around(loop, len(path) - 1, body)
        after: list[arrays.Statement] = []
        for accumulator in loop.starts:
            value = accumulator.value
            comment = comment_of(f"{value.node.op_name()} {format_dims(value.node.dims)}")
            after += self.totals.end(accumulator, self.variable(value), comment)
            if accumulator.result_index is None and value in self.writer.stored:
                after.append(self._store_value(value))
        return [*before, *around, *after]

    def _store_value(self, value: Computed) -> Store:
        index = tuple(map(expression_of, loop_index(value.buffer.dims)))
        return Store(self.use(value.buffer), index, Name(self.variable(value)))

    # --- statements -----------------------------------------------------------------------------------------------

    def _statement(self, statement: ElementStatement, path: list[Block]) -> list[arrays.Statement]:
        node, value = statement.node, statement.value
        operands = [self.read(operand, path)[0] for operand in statement.operands]
        statements = self._compute(statement, operands, path, comment_of(f"{node.op_name()} {format_dims(node.dims)}"))
        if value is not None and value.register and value.chain[-1] is statement and value in self.writer.stored:
            statements.append(self._store_value(value))
        pending, self.pending = self.pending, []
        return [*pending, *statements]

    def _compute(
        self, statement: ElementStatement, operands: list[Expression], path: list[Block], comment: str
    ) -> list[arrays.Statement]:
        node, value = statement.node, statement.value
        if statement.kind == "rows":
            return self._add_to_rows(statement, operands, path)
        assert value is not None
        if statement.kind == "write":
            position = tuple(self._index_entry(entry, path)[0] for entry in statement.target_index)
            return [Store(self.use(value.buffer), position, operands[0], statement.adds, comment)]
        if statement.kind == "reduce":
            return self._reduce(statement, operands, path, comment)
        if statement.kind == "copy":
            return [Let(self.variable(value), operands[0], comment)]
        dtype = float_type(node)
        lets, result = formula_code(
            node.formula, operands, lambda name: number(getattr(node, name), dtype), dtype, self.temporary
        )
        return [*lets, Let(self.variable(value), result, comment)]

    def _reduce(
        self, statement: ElementStatement, operands: list[Expression], path: list[Block], comment: str
    ) -> list[arrays.Statement]:
        value = statement.value
        assert value is not None
        reducer, dtype = LOOPS.of(value.node).reducer, value.node.dtype
        assert reducer is not None
        if value.chain[-1] is not statement:
            step = self.totals.step(statement, operands, comment)
            ends = reducer.ends and isinstance(path[-1], Loop) and self._is_all_for(value, path[-1])
            return [*step, arrays.When(operands[0], (arrays.Break(),))] if ends else step
        # A reduction of one element.
        lets, total = self.totals.formula(reducer.step, operands, dtype, number(reducer.start, dtype))
        more, result = self.totals.finish(value, total, number(1.0, dtype))
        return [*lets, *more, Let(self.variable(value), result, comment)]

    def _is_all_for(self, value: Computed, loop: Loop) -> bool:
        """Return whether all that a loop leaves behind is the total of one value in a variable."""
        if [each.value for each in loop.starts] != [value] or not value.register:
            return False
        inner = {each.value for block in _loops_inside(loop) for each in block.starts}
        return all(
            each.value is not None
            and each.value.register
            and (each.value not in self.writer.stored or each.value is value)
            and (each.kind != "reduce" or each.value in inner or each.value.chain[-1] is each)
            and each.kind in ("element", "copy", "reduce")
            for each in _statements(loop)
        )

    def _add_to_rows(
        self, statement: ElementStatement, operands: list[Expression], path: list[Block]
    ) -> list[arrays.Statement]:
        rows = statement.rows
        assert rows is not None
        positions, table, count, sums = (self.use(s) for s in (rows.positions, rows.rows, rows.count, rows.sums))
        row, depth = self._index_entry(statement.target_index[0], path)
        claimed = CallResult(claim, (row, Name(positions), Name(table), Name(count)))
        position = self._hoisted(claimed, table, path, depth)
        index = [position, *(self._index_entry(entry, path)[0] for entry in statement.target_index[1:])]
        comment = comment_of(f"into the gradient of {rows.sums.name.removeprefix('sums_of_')}")
        return [Store(sums, tuple(index), operands[0], adds=True, comment=comment)]

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, reference: Reference, path: list[Block]) -> tuple[Expression, int]:
        """Return an element, loaded outside the loops that it does not depend on, and the depth where it is known."""
        target = reference.target
        expression: Expression
        if isinstance(target, Computed) and target.register and in_scope(target, path):
            expression, depth = Name(self.variable(target)), len(target.chain) - 1
        elif isinstance(target, Generated):
            expression, depth = self._generated(target, reference.index, path)
        else:
            buffer = target.buffer if isinstance(target, Computed) else target
            constant = _constant_number(buffer)
            if constant is not None:
                return _cast(constant, reference), 0
            index, depth = [], 0
            for entry in reference.index:
                entry_index, inner_depth = self._index_entry(entry, path)
                index.append(entry_index)
                depth = max(depth, inner_depth)
            expression = self._hoisted(Element(self.use(buffer), tuple(index)), buffer.name, path, depth)
        return _cast(expression, reference), depth

    def _generated(self, target: Generated, index: IndexMap, path: list[Block]) -> tuple[Expression, int]:
        """Return an element computed from its flat index, and the depth at which it is known."""
        node, leaves, depth = target.node, dict[IndexExpression, Expression](), 0
        form = LOOPS.of(node)
        assert form.by_flat_index is not None
        sizes = [AxisLength(axis) for axis in node.dims]
        for position, (entry, size) in enumerate(zip(index, sizes, strict=True)):
            more, inner_depth = self._leaves(entry, path)
            leaves |= more
            if position:
                leaves[size] = self.size(size.axis)
            depth = max(depth, inner_depth)
        arguments = [expression_of(flat(index, sizes), leaves)]
        for operand in target.operands:
            expression, inner_depth = self.read(operand, path)
            arguments.append(expression)
            depth = max(depth, inner_depth)
        if form.counts_rows and len(target.operands) == 3:
            row = flat((IndexLiteral(1), *(IndexLiteral(0) for _ in sizes[1:])), sizes)
            before = Apply("multiply", (Convert(arguments.pop(), INT64), expression_of(row, leaves)))
            arguments[0] = Apply("add", (arguments[0], before))
        arguments += map(self._number_or_size, form.flat_index_arguments(node))
        function = self.writer.op_kernels.add(form.by_flat_index, form.by_flat_index.__name__)
        return self._hoisted(CallResult(function, tuple(arguments)), target.name, path, depth), depth

    def _index_entry(self, entry: IndexExpression, path: list[Block]) -> tuple[Expression, int]:
        """Return an index entry as an expression, and the depth at which it is known."""
        leaves, depth = self._leaves(entry, path)
        return expression_of(entry, leaves), depth

    def _leaves(self, entry: IndexExpression, path: list[Block]) -> tuple[dict[IndexExpression, Expression], int]:
        """Return the sizes and integers in an index entry, and the depth at which they are known."""
        leaves, depth = dict[IndexExpression, Expression](), entry.loops()
        for leaf in entry.leaves():
            if isinstance(leaf, AxisLength):
                leaves[leaf] = self.size(leaf.axis)
            elif isinstance(leaf, Read):
                row, inner_depth = self.read(leaf.reference, path)
                leaves[leaf] = Apply("natural", (row,)) if leaf.inside else row
                depth = max(depth, inner_depth)
        return leaves, depth

    def _hoisted(self, expression: Expression, name: str, path: list[Block], depth: int) -> Name:
        """Return a variable for an expression, computed once in the outermost block where its operands are known.

        The variable serves the rest of that block, because what it loads no longer changes.
        """
        key = path[depth - 1] if depth else None, arrays.text_of(expression)
        if key not in self.loaded:
            self.loaded[key] = Name(f"{name}_{len(self.loaded)}__")
            statements = self.pending if depth == len(path) else self.before.setdefault(path[depth], [])
            statements.append(Let(self.loaded[key].name, expression))
        return self.loaded[key]


def _statements(block: Block) -> Iterator[ElementStatement]:
    """Yield the statements in a block and its inner blocks."""
    for item in block.items:
        if isinstance(item, Block):
            yield from _statements(item)
        elif isinstance(item, ElementStatement):
            yield item


def _indexes_rows(statement: ElementStatement) -> bool:
    """Return whether a statement reads elements of a row that an integer chooses, or adds to them."""
    rows = (each.index for each in statement.operands if len(each.index) > 1)
    return statement.rows is not None or any(integers_in(index[0]) for index in rows)


def _loops_inside(block: Loop) -> Iterator[Loop]:
    """Yield a loop and those inside of it."""
    yield block
    for item in block.items:
        if isinstance(item, Loop):
            yield from _loops_inside(item)


def is_large(axes: Sequence[Axis]) -> bool:
    """Return whether a loop over these axes may have so many elements that threads share it."""
    sizes = list(map(axis_size, axes))
    known = math.prod(size for size in sizes if size is not None)
    return known >= (_LARGE_ROW if None in sizes else _LARGE)


def small_size(axes: Sequence[Axis]) -> int | None:
    """Return the number of elements of these axes together if it is known and small, else None."""
    size = known_size(axes)
    return size if size is not None and size <= _SMALL else None


def comment_of(text: str) -> str:
    """Return the text of a comment: one line of printable characters, whatever names users chose."""
    return re.sub(r"[^\x20-\x7e]", " ", text)


def _cast(expression: Expression, reference: Reference) -> Expression:
    for dtype in reversed(reference.casts):
        expression = Convert(expression, scalar_type(dtype))
    return expression


def _constant_number(buffer: ArrayBuffer) -> Literal | None:
    """Return the value of a constant scalar, else None."""
    if not isinstance(buffer.leaf, Constant | IndexConstant) or buffer.dims:
        return None
    value = bound_array(buffer.leaf).item()
    return number(value, buffer.dtype) if buffer.dtype.kind == "f" else Literal(value)
