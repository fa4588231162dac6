"""The stage `materialize`: an array stores a value that is read where its variable is out of scope."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    Block,
    Computed,
    ElementStatement,
    Loop,
    Reference,
    ScalarBlock,
    integers_in,
    references_in,
)


def materialize(tree: LoopTree) -> LoopTree:
    """Mark as stored every value that is read outside the loops in which it is computed; return the same loops."""
    for item in tree.root.items:
        if isinstance(item, Loop | ScalarBlock):
            _visit(item, [item])
    return tree


def _visit(block: Block, path: list[Block]) -> None:
    for item in block.items:
        if isinstance(item, Loop):
            _visit(item, [*path, item])
        elif isinstance(item, ElementStatement):
            read = [*item.operands, *(each for entry in item.target_index for each in integers_in(entry))]
            for reference in references_in(read, partial(_is_variable, path)):
                if isinstance(reference.target, Computed):
                    reference.target.stored = True


def _is_variable(path: Sequence[Block], reference: Reference) -> bool:
    """Return whether an element is read from a variable."""
    target = reference.target
    return isinstance(target, Computed) and target.register and in_scope(target, path)


def in_scope(value: Computed, path: Sequence[Block]) -> bool:
    """Return whether a value's variable is in scope inside the innermost block of `path`."""
    blocks = value.chain[:-1]
    return bool(blocks) and list(blocks) == list(path[: len(blocks)])
