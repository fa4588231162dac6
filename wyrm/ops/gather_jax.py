"""The lowering of gathers.

The other engines raise an error for an index out of range. Data is checked before it reaches a device, and programs
check the indices that the graph computes, except inside loops. For any other index out of range, a gather gives NaN,
and among integers the least one, which is out of range in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.node.jax_form import JaxForm, Lowering


def chosen(x: Any, indices: tuple[Any, ...]) -> Any:
    """Return `x[indices]`, with NaN for an index out of range; a negative index is."""
    return x.at[indices].get(mode="fill", wrap_negative_indices=False)


class IndexForm(JaxForm):
    """Rows of the table, converted to the dtype of the program after they are gathered."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        table, indices = operands
        return chosen(table, (indices,))


class GatherForm(JaxForm):
    """A gather along axes that are moved to the front; `order` and `moved` are the transpositions around it."""

    narrow = True

    def __init__(self, order: Callable[..., tuple[int, ...]], moved: Callable[..., tuple[int, ...]]) -> None:
        self.order, self.moved = order, moved

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *indices = operands
        elements = chosen(x.transpose(self.order(x.ndim, node.axes)), tuple(indices))
        return elements.transpose(self.moved(len(shape), len(shape) - x.ndim + len(indices), node.after))


class TakeAlongAxisForm(JaxForm):
    """A gather along one axis; `columns` returns the index along all axes."""

    narrow = True

    def __init__(self, columns: Callable[..., tuple[Any, ...]]) -> None:
        self.columns = columns

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices = operands
        return chosen(x, self.columns(lowering.xp, indices, node.axis))


__all__ = ["GatherForm", "IndexForm", "TakeAlongAxisForm"]
