"""The stage `fuse` puts nodes into loops, which they share where possible.

A node joins the last loop over its axes that starts after its dependencies. A value read at the loop's current index
may be computed in that same loop; a value read at other indices, or as a whole, must be complete before the loop.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import permutations
from math import inf
from typing import Any

import numpy as np

from wyrm.engines.graph import Scheduled, Targets
from wyrm.engines.native.stages.expressions import UniqueNames, calls_fast
from wyrm.engines.native.stages.loops import (
    SHORT,
    Accumulator,
    ArrayBuffer,
    Block,
    Checked,
    Computed,
    ElementStatement,
    Generated,
    Item,
    KernelCall,
    Loop,
    Read,
    Reference,
    RowSums,
    ScalarBlock,
    dependencies,
    is_aligned,
    loop_axes,
    loop_index,
    spread,
)
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.graph.axes import Axis, Dims, axis_size, broadcast
from wyrm.graph.base import BaseNode, label
from wyrm.graph.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexLoad, IndexMap, LoopIndex
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.parameters import Buffer
from wyrm.graph.schedule import Ranges, Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.shaping.shape import aligned_index

# The most nodes that are looked at to find out what is known before a loop.
_FEW_NODES = 16


def by_need(schedule: Schedule) -> list[BaseNode]:
    """Return the nodes of a schedule, elementwise ones and views just before the first of the others that needs them.

    What has fewer axes comes first. So values find the loop of those that are computed with them, and what that loop
    reads in each row is known before it.
    """
    nodes = schedule.nodes
    order = [node for node in nodes if node.is_leaf]
    # The key of a node that waits until it is needed, and the nodes that it waits for.
    keys = {node: (len(loop_axes(node.dims)), i) for i, node in enumerate(nodes) if _waits(node)}
    done = set(order)

    def add(wanted: Iterable[BaseNode]) -> None:
        """Add nodes that wait, and those that they depend on."""
        missing = dict[BaseNode, int]()
        readers: dict[BaseNode, list[BaseNode]] = defaultdict(list)
        stack = [node for node in wanted if node not in done]
        while stack:
            node = stack.pop()
            if node in missing:
                continue
            parents = [parent for parent in dict.fromkeys(schedule.parents(node)) if parent not in done]
            missing[node] = len(parents)
            for parent in parents:
                readers[parent].append(node)
            stack += parents
        ready = [(keys[node], node) for node, count in missing.items() if not count]
        heapify(ready)
        while ready:
            node = heappop(ready)[1]
            order.append(node)
            done.add(node)
            for reader in readers[node]:
                missing[reader] -= 1
                if not missing[reader]:
                    heappush(ready, (keys[reader], reader))

    read_by: dict[BaseNode, list[BaseNode]] = defaultdict(list)
    for node in keys:
        for parent in schedule.parents(node):
            read_by[parent].append(node)

    def is_ready(node: BaseNode) -> bool:
        """Return whether a node depends only on nodes that are done and on a few that wait."""
        stack = [node]
        for _ in range(_FEW_NODES):
            if not stack:
                return True
            last = stack.pop()
            if last not in done:
                if last not in keys:
                    return False
                stack += schedule.parents(last)
        return False

    def beside(node: BaseNode) -> list[BaseNode]:
        """Return what the elementwise nodes of a node's own loop read beside it and is known before."""
        found, stack, seen, axes = list[BaseNode](), [node], {node}, len(loop_axes(node.dims))
        while stack and len(seen) < _FEW_NODES:
            for reader in read_by[stack.pop()]:
                if reader not in seen and keys[reader][0] == axes:
                    seen.add(reader)
                    stack.append(reader)
                    for parent in schedule.parents(reader):
                        if parent not in done and parent in keys and keys[parent][0] < axes:
                            found.append(parent)
        return [each for each in dict.fromkeys(found) if is_ready(each)]

    for node in nodes:
        if node not in keys and not node.is_leaf:
            add([*schedule.parents(node), *beside(node)])
            order.append(node)
            done.add(node)
    add(nodes)
    return order


def _waits(node: BaseNode) -> bool:
    """Return whether a node is computed where it is read."""
    return not node.is_leaf and (node.formula != "" or not _has_memory(node))


def sums_in_place(
    schedule: Schedule,
) -> dict[BaseNode, tuple[BaseNode, BaseNode]]:
    """Return the sums to accumulate in place as {sum: (term, other)}: `term`'s kernel adds to the memory of `other`."""
    users = Counter(parent for node in schedule.nodes for parent in schedule.parents(node))
    users.update(schedule.outputs)
    found: dict[BaseNode, tuple[BaseNode, BaseNode]] = {}
    for node in schedule.nodes:
        if node.formula == "x + y" and len(node.parents) == 2:
            for term, other in permutations(schedule.parents(node), 2):
                if (
                    LOOPS.of(term).adding_kernel is not None
                    and _has_memory(other)
                    and users[term] == users[other] == 1
                    and node.dims == term.dims == other.dims
                ):
                    found[node] = term, other
    return found


def _has_memory(node: BaseNode) -> bool:
    """Return whether a node's array has memory of its own."""
    form = LOOPS.of(node)
    view = node.is_view or (not node.formula and form.gather_index(node, loop_index(node.dims)) is not None)
    return not (node.is_leaf or node.shape_only or form.by_flat_index is not None or view)


def _is_zero(reference: Reference) -> bool:
    """Return whether a reference is to a constant 0."""
    leaf = reference.target.leaf if isinstance(reference.target, ArrayBuffer) else None
    return isinstance(leaf, Constant) and not leaf.dims and not any(bound_array(leaf).tobytes())


def _may_share(axes: tuple[Axis, ...], statement: ElementStatement, vector: bool, loop: Loop, depth: int) -> bool:
    """Return whether a statement may join a loop that is at this depth of nested loops over `axes`.

    `vector` says that the statement calls functions that are slow unless LLVM vectorizes the innermost loop.
    """
    is_last = depth == len(axes) - 1
    if vector and is_last and not loop.suits_vectors():
        return False
    if not loop.vector_axes:
        return True
    # A sum over some of the axes starts and ends between the loops; what it does there keeps them from running as one.
    ends_between = statement.kind == "reduce" and statement.value is not None and len(statement.value.domain) > 0
    return loop.vector_axes == axes and statement.rows is None and not statement.adds and not ends_between


Dependency = tuple[Computed, IndexMap | None]


def fuse(scheduled: Scheduled) -> LoopTree:
    """Return the loops that compute the program."""
    return LoopTree(scheduled.schedule, scheduled.targets, scheduled.ranges)


class LoopTree:
    """The loops that compute a schedule and the sums of row-sparse gradients, and the arrays of `targets`.

    All nodes of `targets` are in the schedule. `as_arrays` are the variables that kernels, views or outputs read as
    arrays.
    """

    def __init__(self, schedule: Schedule, targets: Targets, ranges: Ranges, names: UniqueNames | None = None) -> None:
        self.schedule = schedule
        self.ranges = ranges
        self.optimizer: OptimizerInterface | None = targets.optimizer
        self.root: Block = Block()
        # Calls that depend on leaves alone; they come before `root`, which begins with scalars.
        self.early: list[KernelCall] = []
        self.root.append(ScalarBlock())
        self.values: dict[BaseNode, Computed] = {}
        self.as_arrays: set[Computed] = set()
        self.buffers: dict[BaseNode, ArrayBuffer] = {}
        self.name: UniqueNames = names or UniqueNames()
        self._views: dict[BaseNode, ArrayBuffer] = {}
        # The touched rows, shared by all tables of one size that the same nodes index.
        self._touched: dict[tuple[object, ...], tuple[ArrayBuffer, ArrayBuffer, ArrayBuffer]] = {}
        self._copies: dict[BaseNode, Computed] = {}
        self._generated: dict[BaseNode, Generated] = {}
        self._sums = sums_in_place(schedule)
        self._sum_of: dict[ArrayBuffer, Computed] = {}
        self._late = {term for term, _ in self._sums.values()}
        for node in by_need(schedule):
            self._add(node)
        self.outputs: list[ArrayBuffer] = [self.array(output, views=True) for output in targets.outputs]
        self.rows: list[RowSums] = [self._sum_rows(parameter, pairs) for parameter, pairs in targets.rows.items()]
        self.gradients: dict[BaseNode, ArrayBuffer] = {
            parameter: self.array(node) for parameter, node in targets.gradients.items()
        }
        self.buffer_updates: dict[Buffer, ArrayBuffer] = {
            buffer: self.array(node) for buffer, node in targets.buffer_updates.items()
        }
        self.loss: ArrayBuffer | None = None if targets.loss is None else self.array(targets.loss)

    # --- names and arrays -----------------------------------------------------------------------------------------

    def _new_buffer(self, node: BaseNode, **options: Any) -> ArrayBuffer:
        return ArrayBuffer(self.name(label(node)), node.dims, node.dtype, **options)

    def leaf(self, node: BaseNode) -> ArrayBuffer:
        """Return the array of a leaf, or of a node that depends on sizes alone."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = self._new_buffer(node, **{"leaf" if node.is_leaf else "fixed": node})
        return buffer

    def array(self, node: BaseNode, views: bool = False) -> ArrayBuffer:
        """Return an array with a node's value, in row-major order unless `views` allows any strides."""
        if node.is_leaf or node.shape_only:
            return self.leaf(node)
        if node in self.values:
            value = self.values[node]
            self.as_arrays.add(value)
            return value.buffer
        parent = self._parent(node)
        same = node.dtype == parent.dtype
        if same and node.is_view and (views or LOOPS.of(node).preserves_layout):
            if node not in self._views:
                base = self.array(parent, views=views and not node.same_elements)
                self._views[node] = self._new_buffer(node, base=base, view=node)
            return self._views[node]
        return self._copy(node)

    def own_array(self, node: BaseNode) -> ArrayBuffer:
        """Return a computed array in row-major order that does not alias a leaf."""
        buffer = self.array(node)
        return buffer if buffer.root.leaf is None and buffer.root.fixed is None else self._copy(node)

    def _copy(self, node: BaseNode) -> ArrayBuffer:
        if node not in self._copies:
            self._copies[node] = self._element_statement(node, [self.read(node, loop_index(node.dims))], "copy")
        self.as_arrays.add(self._copies[node])
        return self._copies[node].buffer

    def producer(self, buffer: ArrayBuffer) -> Computed | None:
        """Return the value that is computed last into a buffer's memory."""
        root = buffer.root
        if root in self._sum_of:
            return self._sum_of[root]
        for values in (self.values, self._copies):
            for value in values.values():
                if value.buffer is root:
                    return value
        return None

    def _parent(self, node: BaseNode, position: int = 0) -> BaseNode:
        return self.schedule.representative[node.parents[position]]

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, node: BaseNode, index: IndexMap) -> Reference:
        """Return a reference to a node's element, followed through views to where it is computed or stored."""
        current, casts = index, list[np.dtype]()
        while True:
            if node.is_leaf or node.shape_only:
                return Reference(self.leaf(node), current, tuple(casts))
            if node in self.values:
                return Reference(self.values[node], current, tuple(casts))
            form = LOOPS.of(node)
            if form.by_flat_index is not None:
                return Reference(self._generate(node), current, tuple(casts))
            entries = form.gather_index(node, current)
            if entries is None:
                buffer = self.array(node, views=True)
                return Reference(buffer, current, tuple(casts), viewed=self.producer(buffer))
            parent = self._parent(node)
            current = self._entries(node, entries, parent.dims)
            if parent.dtype != node.dtype:
                casts.append(node.dtype)
            node = parent

    def _generate(self, node: BaseNode) -> Generated:
        if node not in self._generated:
            parent = self._parent(node)
            operands = [self.read(parent, (IndexLiteral(number),)) for number in range(parent.size)]
            self._generated[node] = Generated(node, self.name(label(node)), operands)
        return self._generated[node]

    def _entries(self, node: BaseNode, entries: IndexMap, dims: Dims) -> IndexMap:
        """Return an index into axes `dims` in which reads replace the loads from parents."""
        return tuple(entry.replaced(partial(self._leaf, node, axis)) for entry, axis in zip(entries, dims, strict=True))

    def _leaf(self, node: BaseNode, axis: Axis, leaf: IndexExpression) -> IndexExpression:
        if not isinstance(leaf, IndexLoad):
            return leaf
        indices = self._parent(node, leaf.parent)
        return self._integer(indices, self._entries(node, leaf.position, indices.dims), axis)

    def _integer(self, indices: BaseNode, index: IndexMap, axis: Axis) -> IndexExpression:
        """Return an integer that indexes an axis, with a check unless it is known to be in range."""
        reference = self.read(indices, index)
        if self.ranges.is_known(indices, axis):
            return Read(True, reference)
        return Checked(Read(False, reference), AxisLength(axis))

    # --- placing --------------------------------------------------------------------------------------------------

    def _earliest(self, path: Sequence[Item], block: Block, needed: Iterable[Dependency], scalar: bool) -> int:
        """Return the earliest insertion point in a block after all dependencies."""
        depth, first = len(path), 0
        for value, index in needed:
            chain = value.chain
            if depth >= len(chain) or list(chain[:depth]) != list(path):
                continue
            item = chain[depth]
            inside = depth < len(chain) - 1 and index is not None
            if inside and isinstance(item, Loop):
                inside = index is not None and is_aligned(index, value.domain, depth)
            elif inside:
                inside = scalar
            first = max(first, item.position + (0 if inside else 1))
        return first

    def _nested_loops(self, dims: Dims, needed: list[Dependency], statement: ElementStatement) -> list[Loop]:
        """Return nested loops over the axes of `dims`, after or around the dependencies; new ones are appended."""
        axes = tuple(dims[position] for position in loop_axes(dims))
        vector = statement.kind == "element" and calls_fast(statement.node)
        vector_axes: tuple[Axis, ...] = axes if vector and len(axes) == 1 else ()
        path = self._shared_loops(axes, needed, partial(_may_share, axes, statement, vector))
        # LLVM does not vectorize a short loop inside of another one. Nested loops with nothing else inside run as one.
        if vector and 0 < len(path) < len(axes) and (axis_size(axes[-1]) or inf) <= SHORT:
            vector_axes = axes
            path = self._shared_loops(axes, needed, lambda loop, _: loop.vector_axes == axes)
        block: Block = path[-1] if path else self.root
        for axis in axes[len(path) :]:
            loop = Loop(axis=axis)
            block.append(loop)
            path.append(loop)
            block = loop
        for loop in path if vector_axes else ():
            loop.vector_axes = vector_axes
        return path

    def _shared_loops(
        self, axes: Sequence[Axis], needed: list[Dependency], fits: Callable[[Loop, int], bool]
    ) -> list[Loop]:
        """Return the last loops over the first of these axes that come after or around the dependencies and fit."""
        path: list[Loop] = []
        block: Block = self.root
        for depth, axis in enumerate(axes):
            first = self._earliest(path, block, needed, scalar=False)
            fitting = [i for i in block.items[first:] if isinstance(i, Loop) and i.axis == axis and fits(i, depth)]
            if not fitting:
                break
            block = fitting[-1]
            path.append(fitting[-1])
        return path

    def _scalar_block(self, needed: list[Dependency]) -> ScalarBlock:
        first = self._earliest([], self.root, needed, scalar=True)
        for item in self.root.items[first:]:
            if isinstance(item, ScalarBlock):
                return item
        scalar_block = ScalarBlock()
        self.root.append(scalar_block)
        return scalar_block

    def _insert(self, dims: Dims, statement: ElementStatement, after: Sequence[Computed] = ()) -> list[Block]:
        """Insert a statement into loops over `dims`, or among the scalars, after values `after`; return its blocks."""
        needed = [*dependencies(statement.operands), *((value, None) for value in after)]
        if statement.target_index:
            needed += dependencies([Reference(self.leaf_of(statement), statement.target_index)])
        path: list[Block] = (
            [*self._nested_loops(dims, needed, statement)] if loop_axes(dims) else [self._scalar_block(needed)]
        )
        path[-1].append(statement)
        return path

    @staticmethod
    def leaf_of(statement: ElementStatement) -> ArrayBuffer:
        """Return the array that a statement writes to."""
        if statement.rows is not None:
            return statement.rows.sums
        assert statement.value is not None
        return statement.value.buffer

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _add(self, node: BaseNode) -> None:
        form = LOOPS.of(node)
        if node.is_leaf or node.shape_only or form.by_flat_index is not None or node in self._late:
            return
        if node in self._sums:
            self._add_sum(node, *self._sums[node])
        elif node.formula:
            operands = [
                self.read(self.schedule.representative[parent], aligned_index(parent.dims, loop_index(node.dims)))
                for parent in node.parents
            ]
            self.values[node] = self._element_statement(node, operands)
        elif form.reducer is not None:
            self._add_reduction(node)
        elif form.gather_index(node, loop_index(node.dims)) is not None or (
            node.is_view and form.scatter_index(node, 0, loop_index(node.parents[0].dims)) is None
        ):
            return  # a view: readers read through it
        elif any(
            form.scatter_index(node, i, loop_index(parent.dims)) is not None for i, parent in enumerate(node.parents)
        ):
            self._add_scatter(node)
        else:
            self._add_call(node)

    def _element_statement(self, node: BaseNode, operands: list[Reference], kind: str = "element") -> Computed:
        value = Computed(node, self._new_buffer(node), [], loop_axes(node.dims), register=True)
        statement = ElementStatement(node=node, kind=kind, operands=operands, value=value)
        value.chain = [*self._insert(node.dims, statement), statement]
        return value

    def _add_reduction(self, node: BaseNode) -> None:
        dims: Dims = node.parents[0].dims
        for parent in node.parents[1:]:
            dims = broadcast(dims, parent.dims)
        index, axes, folded = loop_index(dims), loop_axes(dims), set(LOOPS.of(node).reduce_axes(node))
        operands = [
            self.read(self.schedule.representative[parent], aligned_index(parent.dims, index))
            for parent in node.parents
        ]
        reduced = [depth for depth, axis in enumerate(axes) if axis in folded]
        if not reduced:  # each result reduces a single element
            self.values[node] = self._element_statement(node, operands, "reduce")
            return
        first = reduced[0]
        register = reduced == list(range(first, len(axes)))
        value = Computed(node, self._new_buffer(node), [], loop_axes(node.dims), register)
        kept = [LoopIndex(depth) for depth in range(len(axes)) if depth not in reduced]
        target_index = () if register else tuple(spread(kept, node.dims, IndexLiteral(0)))
        statement = ElementStatement(
            node=node, kind="reduce", operands=operands, value=value, target_index=target_index
        )
        path = self._insert(dims, statement)
        loop, inner = path[first], path[reduced[-1]]
        assert isinstance(loop, Loop) and isinstance(inner, Loop)
        before = None if register else tuple(spread(kept[:first], node.dims, None))
        nested = reduced == list(range(first, first + len(reduced)))
        accumulator = Accumulator(value, [dims[axes[depth]] for depth in reduced], before, inner if nested else None)
        loop.starts.append(accumulator)
        value.chain = [*path[:first], loop]
        self.values[node] = value

    def _add_scatter(self, node: BaseNode) -> None:
        value = Computed(node, self._new_buffer(node), [], loop_axes(node.dims), register=False)
        form = LOOPS.of(node)
        fill: ArrayBuffer | None = value.buffer if form.starts_from_zero else None
        last: Item | None = None
        for position, parent in enumerate(node.parents):
            index = loop_index(parent.dims)
            target = form.scatter_index(node, position, index)
            if target is None:
                continue
            entries = self._entries(node, target.position, node.dims)
            operand = self.read(self.schedule.representative[parent], index)
            if not target.adds and entries == loop_index(node.dims) and _is_zero(operand):
                fill = value.buffer  # so that what is added is computed in the loop that adds it
                continue
            statement = ElementStatement(
                node=node, kind="write", operands=[operand], value=value, target_index=entries, adds=target.adds
            )
            after: list[Computed] = []
            if target.adds and last is not None:
                value.chain, after = [last], [value]  # adds to what earlier operands wrote
            item = self._insert(parent.dims, statement, after)[0]
            if fill is not None and isinstance(item, Loop | ScalarBlock):
                item.fills.append(fill)
                fill = None
            if last is None or item.position > last.position:
                last = item
        assert last is not None
        value.chain = [last]
        self.values[node] = value

    def _add_call(self, node: BaseNode) -> None:
        call = KernelCall(node=node, operands=self._operands(node), out=self._new_buffer(node))
        if any(self.producer(buffer) is not None for buffer in call.operands):
            self.root.append(call)
        else:
            self.early.append(call)
        self.values[node] = Computed(node, call.out, [call], loop_axes(node.dims), register=False)

    def _add_sum(self, node: BaseNode, term: BaseNode, other: BaseNode) -> None:
        """Add a sum: the kernel of `term` adds to the memory of `other`."""
        call = KernelCall(node=term, operands=self._operands(term), out=self.array(other), adds=True)
        self.root.append(call)
        value = Computed(node, call.out, [call], loop_axes(node.dims), register=False)
        self.values[node] = self._sum_of[call.out.root] = value

    def _operands(self, node: BaseNode) -> list[ArrayBuffer]:
        views = LOOPS.of(node).takes_views
        return [self.array(self.schedule.representative[parent], views=views) for parent in node.parents]

    def _sum_rows(self, parameter: BaseNode, pairs: Sequence[tuple[BaseNode, BaseNode]]) -> RowSums:
        name, integers = label(parameter), np.dtype(np.int64)
        named = (*(indices for _, indices in pairs), parameter.dims[0])
        if named not in self._touched:
            self._touched[named] = (
                ArrayBuffer(self.name(f"positions_of_{name}"), parameter.dims[:1], integers),
                ArrayBuffer(self.name(f"rows_of_{name}"), (), integers),
                ArrayBuffer(self.name(f"count_of_{name}"), (2,), integers),
            )
        sums = ArrayBuffer(self.name(f"sums_of_{name}"), parameter.dims, parameter.dtype)
        rows = RowSums(parameter, *self._touched[named], sums, [indices for _, indices in pairs])
        for gradient, indices in pairs:
            dims: Dims = gradient.dims
            index, rank = loop_index(dims), len(indices.dims)
            row = self._integer(indices, index[:rank], parameter.dims[0])
            statement = ElementStatement(
                node=gradient,
                kind="rows",
                operands=[self.read(gradient, index)],
                target_index=(row, *index[rank:]),
                adds=True,
                rows=rows,
            )
            self._insert(dims, statement)
        return rows
