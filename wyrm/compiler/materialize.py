"""Which values are kept in arrays: those that are read where their variable is not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wyrm.compiler.loops import Block, Loop, Placed, Read, Reference, Statement, Straight, Value
from wyrm.compiler.lower import Lowering


def materialize(lowering: Lowering) -> Lowering:
    """The same loops with an array for every value that is read outside of the loops in which it is computed."""
    for item in lowering.root.items:
        if isinstance(item, Loop | Straight):
            _visit(item, [item] if isinstance(item, Loop) else [], item)
    return lowering


def _visit(block: Block, path: list[Block], root: Block) -> None:
    for item in block.items:
        if isinstance(item, Loop):
            _visit(item, [*path, item], root)
        elif isinstance(item, Statement):
            reads = list(item.operands)
            reads += [leaf.reference for entry in item.place for leaf in entry.leaves() if isinstance(leaf, Read)]
            for value in _read_in_memory(reads, path, root):
                value.stored = True


def _read_in_memory(references: Sequence[Reference], path: Sequence[Block], root: Block) -> Iterable[Value]:
    """The values that references read from arrays; those too that their indices are made of."""
    stack = list(references)
    while stack:
        reference = stack.pop()
        target = reference.target
        if isinstance(target, Value) and target.register and in_scope(target, path, root):
            continue
        if isinstance(target, Value):
            yield target
        elif isinstance(target, Placed):
            stack += target.operands
        for entry in reference.index:
            stack += [leaf.reference for leaf in entry.leaves() if isinstance(leaf, Read)]


def in_scope(value: Value, path: Sequence[Block], root: Block) -> bool:
    """Whether the variable of a value is known in the blocks of `path`, or where there are none, in the root."""
    blocks, here = value.chain[:-1], [*path] or [root]
    return bool(blocks) and list(blocks) == list(here[: len(blocks)])
