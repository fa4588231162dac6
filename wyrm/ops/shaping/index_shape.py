"""Other axes of integer nodes: `expand_dims`, `squeeze` and `ravel`."""

from __future__ import annotations

from typing import Any, Literal, overload

from wyrm.graph.axes import AxisLike, One
from wyrm.graph.node import IndexNode
from wyrm.graph.typing import AnyShape, AtLeast1D, Bs, N
from wyrm.ops.elementwise.elementwise import S, method
from wyrm.ops.shaping.shape import IndexReshape, expanded, squeezed
from wyrm.support.foreign_names import answering


@overload
def expand_dims(x: IndexNode[AnyShape], axis: AxisLike) -> IndexReshape: ...
@overload
def expand_dims(x: IndexNode[tuple[*Bs]], axis: Literal[-1]) -> IndexReshape[tuple[*Bs, One]]: ...
@overload
def expand_dims(x: IndexNode[tuple[*Bs]], axis: Literal[0]) -> IndexReshape[tuple[One, *Bs]]: ...
@overload
def expand_dims(x: IndexNode, axis: AxisLike) -> IndexReshape: ...
@method("expand_dims", IndexNode)
@answering
def expand_dims(x: IndexNode, axis: AxisLike) -> IndexReshape:
    """Return `x` with axes of size 1 inserted, at the positions `axis` of the result; errors are as for floats.

    >>> wy.IndexConstant([1, 2]).expand_dims(-1).shape
    (2, 1)
    """
    return IndexReshape(x, expanded(x, axis))


@overload
def squeeze(x: IndexNode[AtLeast1D], axis: AxisLike = None) -> IndexReshape: ...
@overload
def squeeze(x: IndexNode[tuple[*Bs, N]], axis: Literal[-1]) -> IndexReshape[tuple[*Bs]]: ...
@overload
def squeeze(x: IndexNode[tuple[N, *Bs]], axis: Literal[0]) -> IndexReshape[tuple[*Bs]]: ...
@overload
def squeeze(x: IndexNode, axis: AxisLike = None) -> IndexReshape: ...
@method("squeeze", IndexNode)
@answering
def squeeze(x: IndexNode, axis: AxisLike = None) -> IndexReshape:
    """Return `x` without the axes `axis` of size 1, by default all of them; errors are as for floats.

    >>> wy.IndexConstant([[1, 2]]).squeeze().shape
    (2,)
    """
    return IndexReshape(x, squeezed(x, axis))


@method("ravel", IndexNode)
def ravel(x: IndexNode[S]) -> IndexReshape[tuple[Any]]:
    """Return all integers in row-major order, as one axis.

    >>> wy.IndexConstant([[1, 2], [3, 4]]).ravel().shape
    (4,)
    """
    return x.reshape(-1)
