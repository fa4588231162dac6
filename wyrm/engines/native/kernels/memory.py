"""Alias analysis: which parameters a function writes to, and whether arguments of a call alias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wyrm.engines.native.ir.program import Assign, Gemm, Invoke, LibraryCall, LoopFunction, Store, Variable, every
from wyrm.engines.native.ir.types import PointerType
from wyrm.engines.native.kernels.indexing import root_of
from wyrm.engines.native.kernels.values import View

# The position of the output among the operands of `Gemm`.
_RESULT = 10


def written_by(function: LoopFunction, others: Mapping[str, frozenset[int]]) -> frozenset[int]:
    """Return the positions of the parameters that a function writes to; `others` has those of its callees."""
    statements = list(every(function.body))
    origins: dict[str, set[str]] = {each.name: {each.name} for each in function.parameters}

    def of(pointer: object) -> set[str]:
        return origins.get(root_of(pointer) or "", set())  # type: ignore[arg-type]  # a pointer is an expression

    changed = True
    while changed:
        changed = False
        for each in statements:
            moved: list[tuple[Variable, set[str]]] = []
            if isinstance(each, Assign):
                moved = [(each.variable, of(each.value))]
            elif isinstance(each, Invoke):
                given = set().union(*map(of, each.arguments))
                moved = [(result, given) for result in each.results]
            for variable, found in moved:
                known = origins.setdefault(variable.name, set())
                if isinstance(variable.type, PointerType) and not found <= known:
                    known |= found
                    changed = True
    written: set[str] = set()
    for each in statements:
        if isinstance(each, Store):
            written |= of(each.pointer)
        elif isinstance(each, Gemm):
            written |= of(each.operands[_RESULT])
        elif isinstance(each, LibraryCall):
            written = written.union(*map(of, each.arguments))
        elif isinstance(each, Invoke):
            for position in others[each.function]:
                written |= of(each.arguments[position])
    return frozenset(position for position, each in enumerate(function.parameters) if each.name in written)


def overlap(views: Sequence[tuple[int, View]], written: frozenset[int]) -> bool:
    """Return whether a written array is the same as another argument or contains it; views come with their positions.

    Two views of one array do not count: kernels must only pass on views that do not overlap.
    """
    for first, one in views:
        for second, other in views:
            same = first != second and root_of(one.pointer) == root_of(other.pointer)
            if same and first in written and isinstance(one.pointer, Variable) | isinstance(other.pointer, Variable):
                return True
    return False
