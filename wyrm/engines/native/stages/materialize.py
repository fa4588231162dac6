"""Decides which values are stored in arrays: those read where their variable is out of scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wyrm.engines.native.stages.fuse import Lowering
from wyrm.engines.native.stages.loops import Block, Generated, Loop, Read, Reference, ScalarBlock, Statement, Value


def materialize(lowering: Lowering) -> Lowering:
    """Mark as stored every value that is read outside the loops in which it is computed; return the same loops."""
    for item in lowering.root.items:
        if isinstance(item, Loop | ScalarBlock):
            _visit(item, [item])
    return lowering


def _visit(block: Block, path: list[Block]) -> None:
    for item in block.items:
        if isinstance(item, Loop):
            _visit(item, [*path, item])
        elif isinstance(item, Statement):
            reads = list(item.operands)
            reads += [
                leaf.reference for entry in item.target_index for leaf in entry.leaves() if isinstance(leaf, Read)
            ]
            for value in _read_in_memory(reads, path):
                value.stored = True


def _read_in_memory(references: Sequence[Reference], path: Sequence[Block]) -> Iterable[Value]:
    """Yield the values that references and their indices read from arrays."""
    stack = list(references)
    while stack:
        reference = stack.pop()
        target = reference.target
        if isinstance(target, Value) and target.register and in_scope(target, path):
            continue
        if isinstance(target, Value):
            yield target
        elif isinstance(target, Generated):
            stack += target.operands
        for entry in reference.index:
            stack += [leaf.reference for leaf in entry.leaves() if isinstance(leaf, Read)]


def in_scope(value: Value, path: Sequence[Block]) -> bool:
    """Return whether a value's variable is in scope inside the innermost block of `path`."""
    blocks = value.chain[:-1]
    return bool(blocks) and list(blocks) == list(path[: len(blocks)])
