"""The flat forms of ops that treat each entry by itself, and of products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.axes import Ragged, open_axes, ragged_axis
from wyrm.graph.base import BaseNode
from wyrm.ops.control.pass_through import PassThrough
from wyrm.ops.cross_entropy.labels import CountedLabels
from wyrm.ops.cross_entropy.softmax import CrossEntropy, CrossEntropyCount, CrossEntropyGradient
from wyrm.ops.elementwise.elementwise import Elementwise
from wyrm.ops.elementwise.integers import IndexArithmetic
from wyrm.ops.indexing.index import Index, JoinRows, RowGradient, ScatterAdd
from wyrm.ops.normalization.normalization import LayerNorm, NormalizationGradient, NormalizationWeightGradient, RMSNorm
from wyrm.ops.products.einsum import Einsum
from wyrm.ops.products.linear_gelu import LinearGelu, LinearGeluGradient
from wyrm.ops.products.product import MatMul, VectorDot
from wyrm.ops.ragged.compositions import composition
from wyrm.ops.ragged.forms import PartsOf, aligned, axis_of, flat_attributes, flat_form, repeated
from wyrm.ops.ragged.reductions import row_total
from wyrm.ops.random.dropout import AddDropout, Dropout
from wyrm.ops.shaping.transpose import Transpose


def _of_entries(node: BaseNode, operands: Sequence[Any], **changes: Any) -> Any:
    """Return an op that treats each entry by itself, of flat operands; the others have no axis of rows."""
    axis = axis_of(node)
    rows = next(each.dims[0] for each in (node, *node.parents) if ragged_axis(each.dims) is not None)
    for parent in node.parents:
        if ragged_axis(parent.dims) is None and any(name is type(rows) for name in open_axes(parent.dims)):
            raise ShapeError(
                f"takes operands along {axis!r}, or without the axis {rows!r}; repeat a row's value along it with "
                f"wy.broadcast_to, or multiply and add up the axis"
            )
    return node.rebuild(operands, **(flat_attributes(node) | changes))


@flat_form(Elementwise, IndexArithmetic, PassThrough, Dropout, AddDropout)
def _elementwise(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return node.rebuild(
        aligned(given, flat, node.dims, parts) for given, flat in zip(node.parents, operands, strict=True)
    )


@flat_form(
    CountedLabels, CrossEntropy, CrossEntropyCount, CrossEntropyGradient, Index, JoinRows, LayerNorm, LinearGelu,
    LinearGeluGradient, NormalizationGradient, NormalizationWeightGradient, RMSNorm, RowGradient, ScatterAdd,
)  # fmt: skip
def _by_entry(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if isinstance(node, Index | ScatterAdd) and ragged_axis(node.parents[0].dims) is not None:
        raise ShapeError(
            f"looks up rows of a table, and the table has rows of different lengths along {axis_of(node)!r}"
        )
    if isinstance(node, CrossEntropy) and isinstance(node.parents[0].dims[-1], Ragged):
        raise ShapeError(
            f"takes classes of one number; among the entries along {axis_of(node)!r}, with the position of the right "
            f"one, it is -wy.entry_at(logits.log_softmax(axis=1), labels)"
        )
    if parts.padded and isinstance(node, CrossEntropy) and node.reduction != "none":
        return composition(node, operands, parts)
    if isinstance(node, CrossEntropy) and node.reduction == "mean":
        # A mean over no labels is 0, and its gradient too.
        return _of_entries(node, operands, reduction="sum") / CrossEntropyCount(operands[1], node.dtype).maximum(1.0)
    found = _of_entries(node, operands)
    return found.maximum(1.0) if isinstance(node, CrossEntropyCount) else found


@flat_form(MatMul)
def _matmul(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    x, y = node.parents
    if any(isinstance(axis, Ragged) for each in (x, y) for axis in each.dims[-2:] if each is y or each.ndim > 3):
        raise ShapeError(_no_product(node))
    if (x.ndim == 2 and ragged_axis(x.dims) is not None) or (ragged_axis(y.dims) is None and y.ndim > 2):
        raise ShapeError(_no_product(node))
    return _of_entries(node, operands)


def _no_product(node: BaseNode) -> str:
    return (
        f"sums or pairs along {axis_of(node)!r}, where rows have different lengths: a product takes entries and a "
        f"matrix, x @ w; a weighted sum of a row's entries is (weights.expand_dims(-1) * x).sum(axis=1)"
    )


@flat_form(VectorDot)
def _vector_dot(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if any(isinstance(parent.dims[-1], Ragged) for parent in node.parents):
        raise ShapeError(_no_product(node))
    dims = (*node.dims, node.parents[0].dims[-1])
    return node.rebuild(aligned(given, flat, dims, parts) for given, flat in zip(node.parents, operands, strict=True))


@flat_form(Einsum)
def _einsum(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    *terms, result = node.terms()
    axis, of_entries = axis_of(node), [ragged_axis(parent.dims) is not None for parent in node.parents]
    assert axis is not None
    # The letter of the rows becomes that of the entries, and the letter of the ragged axis is left out.
    rows, along = terms[of_entries.index(True)][:2]
    if any(each and term[:2] != rows + along for each, term in zip(of_entries, terms, strict=True)):
        raise ShapeError(_no_product(node))
    if along in result and result[:2] != rows + along:
        raise ShapeError(f"moves {axis!r}, which stands behind the axis of its rows")
    own, by_entry = parts(axis), along in result or all(of_entries)
    for place, (term, x) in enumerate(zip(terms, operands, strict=True)):
        if of_entries[place]:
            operands[place] = x if by_entry else row_total(x, own, parts)
            terms[place] = term.replace(along, "")
        elif by_entry and rows in term:
            terms[place] = rows + term.replace(rows, "")
            operands[place] = repeated(own, Transpose(x, tuple(term.index(letter) for letter in terms[place])))
    if by_entry and rows not in result:
        operands = [parts.counted(own, x, 0.0) for x in operands]
    added = by_entry and along not in result and rows in result  # one row after the other
    made = rows + result.replace(rows, "") if added else result.replace(along, "")
    found = node.rebuild(operands, subscripts=f"{','.join(terms)}->{made}")
    if not added:
        return found
    return Transpose(row_total(found, own, parts), tuple(made.index(letter) for letter in result))
