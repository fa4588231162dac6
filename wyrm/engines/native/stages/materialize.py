"""The stage `materialize`: an array stores a value that is read where its variable is out of scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from wyrm.engines.native.stages.fuse import LoopTree
from wyrm.engines.native.stages.loops import (
    Block,
    Computed,
    ElementStatement,
    Loop,
    Reference,
    ScalarBlock,
    in_scope,
    read_by,
)
from wyrm.engines.native.stages.recompute import recompute
from wyrm.support.frozen import frozen


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
