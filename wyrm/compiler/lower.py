"""From nodes to loops: which nodes are computed in which loop, and which values have to be kept in arrays.

A node goes into the last loop over its axes that does not come before what it reads. What it reads at the position
where a loop stands may be computed in that loop; what it reads elsewhere, or needs whole, must be complete before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from wyrm.compiler.analysis import sums_in_place
from wyrm.compiler.deduplicate import Scheduled
from wyrm.compiler.differentiate import Wanted
from wyrm.compiler.formulas import calls_fast
from wyrm.compiler.loops import (
    Accumulator,
    ArrayBuffer,
    Block,
    Checked,
    Item,
    KernelCall,
    Loop,
    Placed,
    Read,
    Reference,
    RowSums,
    Statement,
    Straight,
    Value,
    is_aligned,
    loop_axes,
    loop_index,
)
from wyrm.compiler.naming import UniqueNames
from wyrm.node.base import BaseNode, label
from wyrm.node.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexLoad, IndexMap, LoopIndex
from wyrm.node.loop_form import LOOPS
from wyrm.ops.shape import aligned_index
from wyrm.schedule.ranges import Ranges
from wyrm.schedule.schedule import Schedule
from wyrm.types.dims import Axis, Dims, axis_size, broadcast

Rest = TypeVar("Rest", IndexExpression, None)
Dependency = tuple[Value, IndexMap | None]


def lower(scheduled: Scheduled) -> Lowering:
    """The loops that compute what is wanted."""
    return Lowering(scheduled.schedule, scheduled.wanted, scheduled.ranges)


class Lowering:
    """The loops that compute a schedule, the sums of row-sparse gradients beside it, and arrays for what is wanted.

    All nodes of `wanted` are of the schedule.
    """

    def __init__(self, schedule: Schedule, wanted: Wanted, ranges: Ranges, names: UniqueNames | None = None) -> None:
        self.schedule, self.ranges, self.optimizer = schedule, ranges, wanted.optimizer
        self.root = Block()
        # What depends on leaves alone: calls before anything else, and scalars.
        self.early: list[KernelCall] = []
        self.root.append(Straight())
        self.values: dict[BaseNode, Value] = {}
        self.buffers: dict[BaseNode, ArrayBuffer] = {}
        self.name = names or UniqueNames()
        # The integer that was read last.
        self._read_last: Reference
        self._views: dict[BaseNode, ArrayBuffer] = {}
        # Where the rows that index nodes name are found, for all tables of one size that the same nodes index.
        self._touched: dict[tuple[Any, ...], tuple[ArrayBuffer, ArrayBuffer, ArrayBuffer]] = {}
        self._copies: dict[BaseNode, Value] = {}
        self._placements: dict[BaseNode, Placed] = {}
        self._sums = sums_in_place(schedule)
        self._sum_of: dict[ArrayBuffer, Value] = {}
        self._late = {term for term, _ in self._sums.values()}
        for node in schedule.nodes:
            self._lower(node)
        self.outputs = [self.array(output, views=True) for output in wanted.outputs]
        self.rows = [self._sum_rows(parameter, pairs) for parameter, pairs in wanted.rows.items()]
        self.gradients = {parameter: self.array(node) for parameter, node in wanted.gradients.items()}
        self.moving = {buffer: self.array(node) for buffer, node in wanted.moving.items()}
        self.loss = None if wanted.loss is None else self.array(wanted.loss)

    # --- names and arrays -----------------------------------------------------------------------------------------

    def _new_buffer(self, node: BaseNode, **more: Any) -> ArrayBuffer:
        return ArrayBuffer(self.name(label(node)), node.dims, node.dtype, **more)

    def leaf(self, node: BaseNode) -> ArrayBuffer:
        """The array of a leaf, or of a node that only sizes determine."""
        buffer = self.buffers.get(node)
        if buffer is None:
            buffer = self.buffers[node] = self._new_buffer(node, **{"leaf" if node.is_leaf else "fixed": node})
        return buffer

    def array(self, node: BaseNode, views: bool = False) -> ArrayBuffer:
        """An array that holds the value of a node, in row-major order unless `views` of any strides will do."""
        if node.is_leaf or node.shape_only:
            return self.leaf(node)
        if node in self.values:
            value = self.values[node]
            value.stored = True
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
        """An array in row-major order that is computed, and shows no leaf's memory."""
        buffer = self.array(node)
        return buffer if buffer.root.leaf is None and buffer.root.fixed is None else self._copy(node)

    def _copy(self, node: BaseNode) -> ArrayBuffer:
        if node not in self._copies:
            self._copies[node] = self._element(node, [self.read(node, loop_index(node.dims))], "copy")
        self._copies[node].stored = True
        return self._copies[node].buffer

    def producer(self, buffer: ArrayBuffer) -> Value | None:
        """The value that is computed, last of all, into the memory of a slot."""
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
        """The element of a node at an index, followed through views to where it is computed or kept."""
        at, casts = index, list[np.dtype]()
        while True:
            if node.is_leaf or node.shape_only:
                return Reference(self.leaf(node), at, tuple(casts))
            if node in self.values:
                return Reference(self.values[node], at, tuple(casts))
            rule = LOOPS.of(node)
            if rule.by_flat_index is not None:
                return Reference(self._placed(node), at, tuple(casts))
            entries = rule.gather_index(node, at)
            if entries is None:
                buffer = self.array(node, views=True)
                return Reference(buffer, at, tuple(casts), whole=self.producer(buffer))
            parent = self._parent(node)
            at = self._entries(node, entries, parent.dims)
            if parent.dtype != node.dtype:
                casts.append(node.dtype)
            node = parent

    def _placed(self, node: BaseNode) -> Placed:
        if node not in self._placements:
            parent = self._parent(node)
            operands = [self.read(parent, (IndexLiteral(number),)) for number in range(parent.size)]
            self._placements[node] = Placed(node, self.name(label(node)), operands)
        return self._placements[node]

    def _entries(self, node: BaseNode, entries: IndexMap, dims: Dims) -> IndexMap:
        """An index of axes `dims` with the integers of parents in it read."""
        return tuple(entry.replaced(partial(self._leaf, node, axis)) for entry, axis in zip(entries, dims, strict=True))

    def _leaf(self, node: BaseNode, axis: Axis, leaf: IndexExpression) -> IndexExpression:
        if not isinstance(leaf, IndexLoad):
            return leaf
        indices = self._parent(node, leaf.parent)
        return self._integer(indices, self._entries(node, leaf.position, indices.dims), axis)

    def _integer(self, indices: BaseNode, index: IndexMap, axis: Axis) -> IndexExpression:
        """An integer that chooses along an axis, with a check where it is not known to be in range."""
        self._read_last = self.read(indices, index)
        if self.ranges.is_known(indices, axis):
            return Read(True, self._read_last)
        size = axis_size(axis)
        return Checked(Read(False, self._read_last), AxisLength(axis) if size is None else IndexLiteral(size))

    def dependencies(self, references: Iterable[Reference]) -> list[Dependency]:
        """The computed values that references read, those in their indices too, and where; None for all of one."""
        found: list[Dependency] = []
        stack = list(references)
        while stack:
            reference = stack.pop()
            if isinstance(reference.target, Value):
                found.append((reference.target, reference.index))
            elif isinstance(reference.target, Placed):
                stack += reference.target.operands
            elif reference.whole is not None:
                found.append((reference.whole, None))
            for entry in reference.index:
                stack += [leaf.reference for leaf in entry.leaves() if isinstance(leaf, Read)]
        return found

    # --- placing --------------------------------------------------------------------------------------------------

    def _earliest(self, path: Sequence[Item], block: Block, needed: Iterable[Dependency], scalar: bool) -> int:
        """The first position in a block where what is needed is there."""
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

    def _loops(self, dims: Dims, needed: list[Dependency], statement: Statement) -> list[Loop]:
        """The loops, one in another, over the axes of `dims` in which what is needed can be read."""
        path: list[Loop] = []
        block: Block = self.root
        axes = [dims[position] for position in loop_axes(dims)]
        node = statement.node if statement.kind == "element" else None
        vector = len(axes) == 1 and node is not None and calls_fast(node)
        for axis in axes:
            first = self._earliest(path, block, needed, scalar=False)
            fitting = [i for i in block.items[first:] if isinstance(i, Loop) and i.axis == axis]
            if vector:
                fitting = [loop for loop in fitting if not loop.has_short_loops()]
            elif len(axes) > 1 or statement.rows is not None:
                fitting = [loop for loop in fitting if not loop.vector]
            if fitting:
                loop = fitting[-1]
            else:
                loop = Loop(axis=axis)
                block.append(loop)
            loop.vector |= vector
            path.append(loop)
            block = loop
        return path

    def _straight(self, needed: list[Dependency]) -> Straight:
        first = self._earliest([], self.root, needed, scalar=True)
        for item in self.root.items[first:]:
            if isinstance(item, Straight):
                return item
        straight = Straight()
        self.root.append(straight)
        return straight

    def _put(self, dims: Dims, statement: Statement, after: Sequence[Value] = ()) -> list[Block]:
        """Put a statement into loops over `dims`, or among the scalars, `after` values; the blocks around it."""
        needed = [*self.dependencies(statement.operands), *((value, None) for value in after)]
        if statement.place:
            needed += self.dependencies([Reference(self.leaf_of(statement), statement.place)])
        path: list[Block] = [*self._loops(dims, needed, statement)] if loop_axes(dims) else [self._straight(needed)]
        path[-1].append(statement)
        return path

    @staticmethod
    def leaf_of(statement: Statement) -> ArrayBuffer:
        """The array that a statement writes to."""
        if statement.rows is not None:
            return statement.rows.sums
        assert statement.value is not None
        return statement.value.buffer

    # --- nodes ----------------------------------------------------------------------------------------------------

    def _lower(self, node: BaseNode) -> None:
        rule = LOOPS.of(node)
        if node.is_leaf or node.shape_only or rule.by_flat_index is not None or node in self._late:
            return
        if node in self._sums:
            self._lower_sum(node, *self._sums[node])
        elif node.formula is not None:
            operands = [
                self.read(self.schedule.representative[parent], aligned_index(parent.dims, loop_index(node.dims)))
                for parent in node.parents
            ]
            self.values[node] = self._element(node, operands)
        elif rule.reducer is not None:
            self._lower_reduction(node)
        elif rule.gather_index(node, loop_index(node.dims)) is not None or (
            node.is_view and rule.scatter_index(node, 0, loop_index(node.parents[0].dims)) is None
        ):
            return  # a view: those who read it read through it
        elif any(
            rule.scatter_index(node, i, loop_index(parent.dims)) is not None for i, parent in enumerate(node.parents)
        ):
            self._lower_scatter(node)
        else:
            self._lower_call(node)

    def _element(self, node: BaseNode, operands: list[Reference], kind: str = "element") -> Value:
        value = Value(node, self._new_buffer(node), [], loop_axes(node.dims), register=True)
        statement = Statement(node=node, kind=kind, operands=operands, value=value)
        value.chain = [*self._put(node.dims, statement), statement]
        return value

    def _lower_reduction(self, node: BaseNode) -> None:
        dims: Dims = node.parents[0].dims
        for parent in node.parents[1:]:
            dims = broadcast(dims, parent.dims)
        index, axes, folded = loop_index(dims), loop_axes(dims), set(LOOPS.of(node).reduce_axes(node))
        operands = [
            self.read(self.schedule.representative[parent], aligned_index(parent.dims, index))
            for parent in node.parents
        ]
        reduced = [depth for depth, axis in enumerate(axes) if axis in folded]
        if not reduced:  # one element each
            self.values[node] = self._element(node, operands, "reduce")
            return
        first = reduced[0]
        register = reduced == list(range(first, len(axes)))
        value = Value(node, self._new_buffer(node), [], loop_axes(node.dims), register)
        value.stored = not register
        kept = [LoopIndex(depth) for depth in range(len(axes)) if depth not in reduced]
        place = () if register else tuple(_spread(kept, node.dims, IndexLiteral(0)))
        statement = Statement(node=node, kind="reduce", operands=operands, value=value, place=place)
        path = self._put(dims, statement)
        loop, inner = path[first], path[reduced[-1]]
        assert isinstance(loop, Loop) and isinstance(inner, Loop)
        before = None if register else tuple(_spread(kept[:first], node.dims, None))
        together = reduced == list(range(first, first + len(reduced)))
        accumulator = Accumulator(value, [dims[axes[depth]] for depth in reduced], before, inner if together else None)
        loop.starts.append(accumulator)
        value.chain = [*path[:first], loop]
        self.values[node] = value

    def _lower_scatter(self, node: BaseNode) -> None:
        value = Value(node, self._new_buffer(node), [], loop_axes(node.dims), register=False, stored=True)
        rule = LOOPS.of(node)
        fill: ArrayBuffer | None = value.buffer if rule.starts_from_zero else None
        last: Item | None = None
        for position, parent in enumerate(node.parents):
            index = loop_index(parent.dims)
            place = rule.scatter_index(node, position, index)
            if place is None:
                continue
            entries = self._entries(node, place.position, node.dims)
            operand = self.read(self.schedule.representative[parent], index)
            statement = Statement(
                node=node, kind="write", operands=[operand], value=value, place=entries, adds=place.adds
            )
            after: list[Value] = []
            if place.adds and last is not None:
                value.chain, after = [last], [value]  # adds to what the parts before it wrote
            item = self._put(parent.dims, statement, after)[0]
            if fill is not None and isinstance(item, Loop | Straight):
                item.fills.append(fill)
                fill = None
            if last is None or item.position > last.position:
                last = item
        assert last is not None
        value.chain = [last]
        self.values[node] = value

    def _lower_call(self, node: BaseNode) -> None:
        call = KernelCall(node=node, operands=self._operands(node), out=self._new_buffer(node))
        if any(self.producer(buffer) is not None for buffer in call.operands):
            self.root.append(call)
        else:
            self.early.append(call)
        self.values[node] = Value(node, call.out, [call], loop_axes(node.dims), register=False, stored=True)

    def _lower_sum(self, node: BaseNode, term: BaseNode, other: BaseNode) -> None:
        """The kernel of one term of a sum adds to where the other is."""
        call = KernelCall(node=term, operands=self._operands(term), out=self.array(other), adds=True)
        self.root.append(call)
        value = Value(node, call.out, [call], loop_axes(node.dims), register=False, stored=True)
        self.values[node] = self._sum_of[call.out.root] = value

    def _operands(self, node: BaseNode) -> list[ArrayBuffer]:
        views = LOOPS.of(node).takes_views
        return [self.array(self.schedule.representative[parent], views=views) for parent in node.parents]

    def _sum_rows(self, parameter: BaseNode, pairs: Sequence[tuple[BaseNode, BaseNode]]) -> RowSums:
        name, integers = label(parameter), np.dtype(np.int64)
        named = (*(indices for _, indices in pairs), parameter.dims[0])
        if named not in self._touched:
            self._touched[named] = (
                ArrayBuffer(self.name(f"slots_of_{name}"), parameter.dims[:1], integers),
                ArrayBuffer(self.name(f"rows_of_{name}"), (), integers),
                ArrayBuffer(self.name(f"count_of_{name}"), (2,), integers),
            )
        sums = ArrayBuffer(self.name(f"sums_of_{name}"), parameter.dims, parameter.dtype)
        rows = RowSums(parameter, *self._touched[named], sums, [indices for _, indices in pairs])
        for gradient, indices in pairs:
            dims: Dims = gradient.dims
            index, rank = loop_index(dims), len(indices.dims)
            place = self._integer(indices, index[:rank], parameter.dims[0])
            statement = Statement(
                node=gradient,
                kind="rows",
                operands=[self.read(gradient, index), self._read_last],
                place=(place, *index[rank:]),
                adds=True,
                rows=rows,
            )
            self._put(dims, statement)
        return rows


def _spread(kept: Sequence[IndexExpression], dims: Dims, rest: Rest) -> Iterator[IndexExpression | Rest]:
    """The positions that are kept, in the axes of a result; `rest` in those of size 1, or not reached yet."""
    entries = iter(kept)
    wide = set(loop_axes(dims))
    for position in range(len(dims)):
        yield next(entries, rest) if position in wide else rest
