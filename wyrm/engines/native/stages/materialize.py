"""The stage `materialize`: an array stores a value that is read where its variable is out of scope."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    ArrayBuffer,
    Block,
    Computed,
    ElementStatement,
    Generated,
    Item,
    Loop,
    Reference,
    ScalarBlock,
    in_scope,
    loop_axes,
    loop_index,
    read_by,
)
from wyrm.graph.base import label
from wyrm.ops.elementwise.formula import parse
from wyrm.support.frozen import frozen

# Operations that cost little, and how many of them a value may take.
_CHEAP = frozenset(
    ["add", "subtract", "multiply", "negative", "abs", "maximum", "minimum", "where", "less", "less_equal", "greater",
     "greater_equal"]
)  # fmt: skip
_MOST = 8


class _Reading(NamedTuple):
    """A statement that reads a value out of its variable's scope, and the loops around it."""

    statement: ElementStatement
    path: Sequence[Block]


class _Cost(NamedTuple):
    """What a value takes where it is computed anew: operations, and arrays of its size that it reads."""

    operations: int
    arrays: frozenset[ArrayBuffer]


def recompute(tree: LoopTree) -> None:
    """Compute values anew in the loops that read them; no array stores them then."""
    copies, changes = _Copies(tree), True
    while changes:
        changed = set[Computed]()
        for value, readings in _read_elsewhere(tree).items():
            # Where others read this value now, its readings are no longer all.
            if value not in changed and all(_pays(value, each) for each in readings):
                for each in readings:
                    copies.read_anew(value, each)
                changed |= {value, *_sources(value)}
        changes = bool(changed)
        _remove_unread(tree, changed)
        copies.forget_removed()


def _sources(value: Computed) -> set[Computed]:
    """Return the values that copies of a value may read."""
    found, waiting = set[Computed](), [value]
    while waiting:
        statement = waiting.pop().chain[-1]
        for operand in statement.operands if isinstance(statement, ElementStatement) else ():
            if isinstance(operand.target, Computed) and operand.target not in found:
                found.add(operand.target)
                waiting.append(operand.target)
    return found


def _read_elsewhere(tree: LoopTree) -> dict[Computed, list[_Reading]]:
    """Return the values in variables that only statements of other loops read from arrays, element for element."""
    found: dict[Computed, list[_Reading]] = defaultdict(list)
    refused = set(tree.as_arrays)
    for statement, path in _statements(tree.root, []):
        direct = set(map(id, statement.operands))
        for reference in read_by(statement):
            value = reference.target
            if isinstance(value, Computed) and not in_scope(value, path):
                found[value].append(_Reading(statement, path))
                aligned = id(reference) in direct and reference.index == loop_index(value.node.dims)
                if not (aligned and len(value.domain) == len(path) and isinstance(path[-1], Loop)):
                    refused.add(value)
    return {value: readings for value, readings in found.items() if value not in refused}


def _statements(block: Block, path: list[Block]) -> Iterator[tuple[ElementStatement, list[Block]]]:
    """Yield the statements in loops and blocks of scalars, with these around them."""
    for item in block.items:
        if isinstance(item, Block):
            yield from _statements(item, [*path, item])
        elif isinstance(item, ElementStatement):
            yield item, path


def _pays(value: Computed, reading: _Reading) -> bool:
    """Return whether a loop that recomputes a value reads at most as many arrays as one that loads the stored value."""
    cost = _cost(value, reading.path, _MOST)
    if cost is None:
        return False
    block = reading.path[-1]
    read = {
        each for item in block.items if isinstance(item, ElementStatement) for each in map(_array_read, item.operands)
    }
    return len(cost.arrays - read) <= 1


def _cost(value: Computed, path: Sequence[Block], most: int) -> _Cost | None:
    """Return what a value costs in the innermost of these loops; None for more operations, or if it must be stored."""
    formula, statement = value.node.formula, value.chain[-1]
    calls = parse(formula) if formula else ()
    if not 0 < len(calls) <= most or not isinstance(statement, ElementStatement):
        return None
    if not {call.function for call in calls} <= _CHEAP:
        return None
    operations, found = len(calls), frozenset[ArrayBuffer]()
    for operand in statement.operands:
        array = _array_read(operand)
        if array is None:
            return None
        if not _is_anew(operand, value, path):
            found |= {array} if len(loop_axes(array.dims)) == len(path) else frozenset()
            continue
        assert isinstance(operand.target, Computed)
        inner = _cost(operand.target, path, most - operations)
        if inner is None or operand.index != loop_index(operand.target.node.dims):
            return None
        operations, found = operations + inner.operations, found | inner.arrays
    return _Cost(operations, found)


def _is_anew(operand: Reference, value: Computed, path: Sequence[Block]) -> bool:
    """Return whether what a value is computed from is computed anew too: it is in a variable of the value's loop."""
    target = operand.target
    return (
        isinstance(target, Computed)
        and target.register
        and not in_scope(target, path)
        and len(target.domain) == len(path)
        and in_scope(target, [each for each in value.chain[:-1] if isinstance(each, Block)])
    )


def _array_read(reference: Reference) -> ArrayBuffer | None:
    """Return the array that a reference reads, or may read."""
    target = reference.target
    if isinstance(target, Generated):
        return None
    return target.buffer if isinstance(target, Computed) else target


class _Copies:
    """The values that loops compute anew, at the beginning of their bodies."""

    def __init__(self, tree: LoopTree) -> None:
        self._tree = tree
        self._made: dict[Block, dict[Computed, Computed]] = defaultdict(dict)

    def forget_removed(self) -> None:
        """Forget the copies that no longer stand in their loops."""
        for block, made in self._made.items():
            there = set(block.items)
            self._made[block] = {value: copy for value, copy in made.items() if copy.chain[-1] in there}

    def read_anew(self, value: Computed, reading: _Reading) -> None:
        """Let a statement read a value that its loop computes anew."""
        statement, block = reading.statement, reading.path[-1]
        anew = self._anew(value, reading.path)
        statement.operands = [
            replace(each, target=anew) if each.target is value else each for each in statement.operands
        ]  # fmt: skip
        copies = len(self._made[block])
        block.items[:copies] = _in_order(block.items[:copies])

    def _anew(self, value: Computed, path: Sequence[Block]) -> Computed:
        made = self._made[path[-1]]
        if value not in made:
            original, node = value.chain[-1], value.node
            assert isinstance(original, ElementStatement)
            operands = [
                replace(each, target=self._anew(each.target, path))
                if _is_anew(each, value, path) and isinstance(each.target, Computed)
                else each
                for each in original.operands
            ]
            buffer = ArrayBuffer(self._tree.name(label(node)), node.dims, node.dtype)
            copy = Computed(node, buffer, [], value.domain, register=True)
            statement = ElementStatement(node=node, operands=operands, value=copy)
            copy.chain = [*path, statement]
            path[-1].items.insert(len(made), statement)
            made[value] = copy
        return made[value]


def _in_order(statements: Sequence[Item]) -> list[Item]:
    """Return statements after those whose values they read."""
    by_value = {each.value: each for each in statements if isinstance(each, ElementStatement)}
    order: dict[Item, None] = {}

    def add(statement: Item) -> None:
        assert isinstance(statement, ElementStatement)
        for operand in statement.operands:
            if isinstance(operand.target, Computed) and operand.target in by_value:
                add(by_value[operand.target])
        order[statement] = None

    for each in statements:
        add(each)
    return list(order)


def _remove_unread(tree: LoopTree, values: Collection[Computed]) -> None:
    """Remove the statements that compute these values unless they are read, and loops that are empty then."""
    reads = Counter(each for statement, _ in _statements(tree.root, []) for each in _values_read_by(statement))
    removable = {value for value in values if value.register and value not in tree.as_arrays}
    waiting = list(removable)
    while waiting:
        value = waiting.pop()
        statement = value.chain[-1]
        if reads[value] or not isinstance(statement, ElementStatement) or not _remove(tree, value.chain):
            continue
        for each in _values_read_by(statement):
            reads[each] -= 1
            if each in removable:
                waiting.append(each)


def _values_read_by(statement: ElementStatement) -> Iterator[Computed]:
    """Yield the values that a statement reads."""
    for reference in read_by(statement):
        if isinstance(reference.target, Computed):
            yield reference.target


def _remove(tree: LoopTree, chain: Sequence[Item]) -> bool:
    """Remove the last item of a chain from its loop, and loops that are empty then; return whether it was there."""
    *path, item = chain
    while path:
        block = path.pop()
        if not isinstance(block, Loop) or item not in block.items:
            return False
        block.items.remove(item)
        if block.items or block.starts or block.fills:
            return True
        item = block
    tree.root.items.remove(item)
    return True


@frozen
class Materialized:
    """The loops, and the values that arrays store; all others are in variables only."""

    tree: LoopTree
    stored: frozenset[Computed]


def materialize(tree: LoopTree) -> Materialized:
    """Return the loops, and which values are stored: those that are read as arrays or out of their variables' scope."""
    recompute(tree)
    stored = tree.as_arrays.union(value for value in tree.values.values() if not value.register)
    for item in tree.root.items:
        if isinstance(item, Loop | ScalarBlock):
            stored |= set(_read_as_elements(item, [item]))
    return Materialized(tree, frozenset(stored))


def _read_as_elements(block: Block, path: list[Block]) -> Iterator[Computed]:
    """Yield the values whose elements the statements of a block cannot read from variables."""
    for item in block.items:
        if isinstance(item, Loop):
            yield from _read_as_elements(item, [*path, item])
        elif isinstance(item, ElementStatement):
            for reference in read_by(item, partial(_is_variable, path)):
                if isinstance(reference.target, Computed):
                    yield reference.target


def _is_variable(path: Sequence[Block], reference: Reference) -> bool:
    """Return whether an element is read from a variable."""
    target = reference.target
    return isinstance(target, Computed) and target.register and in_scope(target, path)
