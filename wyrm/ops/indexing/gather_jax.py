"""The lowering of gathers and scatters.

The other engines raise an error for an index out of range. Data is checked before it reaches a device, and programs
check the indices that the graph computes; those inside of loops are reported after the step. For an index out of range,
a gather gives NaN, and among integers the least one, which is out of range in turn. A scatter that a user asks for
writes NaN. Scatters that are only gradients of gathers ignore such an index: the loss is NaN already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.graph.jax_form import JaxForm, Lowering


def chosen(x: Any, indices: tuple[Any, ...]) -> Any:
    """Return `x[indices]`, with NaN for an index out of range; a negative index is out of range too."""
    return x.at[indices].get(mode="fill", wrap_negative_indices=False)


def added(x: Any, indices: tuple[Any, ...], values: Any) -> Any:
    """Return `x` with `values` added at `indices` into its first axes; an index out of range adds NaN to element 0."""
    import jax.numpy as jnp

    wrong = jnp.zeros((), bool)
    for index, size in zip(indices, x.shape, strict=False):
        wrong = wrong | (index < 0) | (index >= size)
    indices = tuple(jnp.where(wrong, 0, index) for index in indices)
    spread = wrong.reshape(*wrong.shape, *[1] * (values.ndim - wrong.ndim))
    return x.at[indices].add(jnp.where(spread, jnp.nan, values))


class IndexForm(JaxForm):
    """Rows of the table, converted to the dtype of the program after they are gathered."""

    looks_up_rows: bool = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        table, indices = operands
        return chosen(table, (indices,))


class GatherForm(JaxForm):
    """A gather along axes that are moved to the front; `order` and `moved` are the transpositions around it."""

    narrow: bool | None = True

    def __init__(self, order: Callable[..., tuple[int, ...]], moved: Callable[..., tuple[int, ...]]) -> None:
        self.order = order
        self.moved = moved

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, *indices = operands
        elements = chosen(x.transpose(self.order(x.ndim, node.axes)), tuple(indices))
        return elements.transpose(self.moved(len(shape), len(shape) - x.ndim + len(indices), node.after))


class TakeAlongAxisForm(JaxForm):
    """A gather along one axis; `columns` returns the index along all axes."""

    narrow: bool | None = True

    def __init__(self, columns: Callable[..., tuple[Any, ...]]) -> None:
        self.columns = columns

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices = operands
        return chosen(x, self.columns(lowering.xp, indices, node.axis))


class PlaceAlongAxisForm(TakeAlongAxisForm):
    """A scatter-add along one axis."""

    narrow: bool | None = False

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax.numpy as jnp

        x, indices = operands
        return added(jnp.zeros(shape, x.dtype), self.columns(lowering.xp, indices, node.axis), x)


class ScatterAddForm(JaxForm):
    """A scatter-add of rows."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, indices, values = operands
        return added(x, (indices,), values)


__all__ = ["GatherForm", "IndexForm", "PlaceAlongAxisForm", "ScatterAddForm", "TakeAlongAxisForm"]
