"""Products that contract axes, with the names of NumPy: einsum, tensordot, inner, outer, kron, cross and others."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.foreign_names import answering
from wyrm.functions.operands import Operand, as_nodes, shape_error
from wyrm.node.leaves import Constant
from wyrm.node.node import Node
from wyrm.ops.einsum import LETTERS, Einsum
from wyrm.ops.elementwise import L, R, S
from wyrm.ops.product import MatMul
from wyrm.ops.slicing import stack
from wyrm.types.dims import Axis, axis_size, broadcast, normalize_axis, product
from wyrm.types.typing import S2, A, Array, D, K, M, N, Shaped

__all__ = ["cross", "dot", "einsum", "inner", "kron", "matmul", "outer", "tensordot", "vdot", "vecdot"]

# The axes of an operand as integers, as an alternative to letters.
Sublist: TypeAlias = Sequence[int | EllipsisType]
Path: TypeAlias = bool | Literal["greedy", "optimal"] | Sequence[str | tuple[int, ...]]


# --- einsum -------------------------------------------------------------------------------------------------------


def _letters_of(sublist: Sublist) -> str:
    """Return a sublist of axes as letters."""
    count = len(LETTERS)
    if not all(each is Ellipsis or (isinstance(each, int) and 0 <= each < count) for each in sublist):
        raise TypeError(f"einsum: a sublist holds integers from 0 to {count - 1} and ..., not {sublist!r}")
    return "".join("..." if isinstance(each, EllipsisType) else LETTERS[each] for each in sublist)


def _split(arguments: Sequence[Any]) -> tuple[list[str], str | None, list[Any]]:
    """Return the terms of the operands, the term of the result (None: implicit), and the operands."""
    first, *rest = arguments
    if isinstance(first, str):
        terms, arrow, result = first.replace(" ", "").partition("->")
        return terms.split(","), (result if arrow else None), rest
    operands, sublists = list(arguments[0::2]), list(arguments[1::2])
    last = operands.pop() if len(operands) > len(sublists) else None
    if not all(isinstance(each, Sequence) and not isinstance(each, str) for each in (*sublists, last or ())):
        raise TypeError("einsum: the subscripts come first, as in wy.einsum('ij,jk->ik', x, y)")
    return [_letters_of(each) for each in sublists], None if last is None else _letters_of(last), operands


def _without_ellipsis(terms: list[str], result: str | None, nodes: list[Node]) -> tuple[list[str], str, list[Node]]:
    """Return the terms with letters for the axes of each '...', which broadcast, and the explicit result."""
    unused = [letter for letter in LETTERS if all(letter not in term for term in (*terms, result or ""))]
    counts = []
    for term, node in zip(terms, nodes, strict=True):
        named = len(term.replace("...", "", 1))
        if named > node.ndim or (named < node.ndim and "..." not in term):
            raise ShapeError(f"{term!r} names {named} axes, but the operand has {node.ndim}")
        counts.append(node.ndim - named)
    shared = "".join(unused[: max(counts, default=0)])
    known: dict[str, Axis] = {}
    for node, term, count in zip(nodes, terms, counts, strict=True):
        start = term.find(".")
        for letter, axis in zip(shared[len(shared) - count :], node.dims[start : start + count], strict=True):
            known[letter] = broadcast((known[letter],), (axis,))[0] if letter in known else axis
    for i, count in enumerate(counts):
        start, letters = terms[i].find("."), shared[len(shared) - count :]
        sizes = {letter: axis_size(nodes[i].dims[start + j]) for j, letter in enumerate(letters)}
        ones = [letter for letter, size in sizes.items() if size == 1 != axis_size(known[letter])]
        if ones:  # another operand has the size
            nodes[i] = nodes[i].erase().squeeze(tuple(start + letters.index(letter) for letter in ones))
            letters = "".join(letter for letter in letters if letter not in ones)
        terms[i] = terms[i].replace("...", letters)
    if result is None:  # NumPy's rule: the broadcast axes, then the letters that occur once, in alphabetical order
        together = "".join(terms)
        once = (letter for letter in set(together) - set(shared) if together.count(letter) == 1)
        return terms, shared + "".join(sorted(once)), nodes
    return terms, result.replace("...", shared), nodes


def _check(terms: Sequence[str], result: str) -> None:
    """Raise `ShapeError` for terms that hold other characters than letters, or for an invalid result."""
    if not all(letter in LETTERS for term in (*terms, result) for letter in term):
        text = f"{','.join(terms)}->{result}"
        raise ShapeError(f"subscripts {text!r} are not of the form 'ij,jk->ik': letters, and ... for other axes")
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        raise ShapeError(f"the result {result!r} must use letters of the operands, each at most once")


def _diagonal(term: str, node: Node) -> tuple[str, Node]:
    """Return the operand without repeated letters: the diagonal along their axes."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            sizes = [axis_size(node.dims[axis]) for axis in (first, second)]
            if sizes[0] is None or sizes[0] != sizes[1]:
                raise ShapeError(
                    f"{term!r} takes a diagonal of axes {node.dims[first]!r} and {node.dims[second]!r}, whose sizes "
                    f"must be known and equal"
                )
            others = [axis for axis in range(node.ndim) if axis not in (first, second)]
            kept: Any = (*(node.dims[axis] for axis in others), sizes[0] ** 2)
            flat = node.erase().transpose(*others, first, second).reshape(kept)
            node = flat[..., :: sizes[0] + 1]
            term = "".join(term[axis] for axis in others) + letter
    return term, node


def _alone(term: str, node: Node, result: str) -> Node:
    """Return the einsum of one operand: the sum over the letters that the result lacks, transposed."""
    summed = tuple(axis for axis, letter in enumerate(term) if letter not in result)
    if summed:
        node, term = node.erase().sum(summed), "".join(letter for letter in term if letter in result)
    return node if term == result else node.erase().transpose(*(term.index(letter) for letter in result))


def _path(terms: Sequence[str], result: str, nodes: Sequence[Node], optimize: Path) -> list[tuple[int, ...]]:
    """Return the order of contraction that `numpy.einsum_path` finds; an axis without a size counts as 32."""
    if optimize is False:
        return [(0, 1), *((0, last) for last in range(len(nodes) - 2, 0, -1))]  # a result comes last
    shapes = [[axis_size(axis) or 32 for axis in node.dims] for node in nodes]
    arrays = [np.broadcast_to(np.zeros((), np.float32), shape) for shape in shapes]
    chosen: Any = "optimal" if optimize is True and len(nodes) <= 6 else "greedy" if optimize is True else optimize
    subscripts: Any = f"{','.join(terms)}->{result}"
    path: list[tuple[int, ...]] = np.einsum_path(subscripts, *arrays, optimize=chosen)[0][1:]
    return path


def _contracted(terms: list[str], result: str, nodes: list[Node], optimize: Path) -> Node:
    """Return the einsum of operands without repeated letters, two at a time."""
    if len(nodes) == 1:
        return _alone(terms[0], nodes[0], result)
    if len(nodes) == 2:
        return Einsum(nodes[0], nodes[1], f"{terms[0]},{terms[1]}->{result}")
    for positions in _path(terms, result, nodes, optimize):
        group = [(terms.pop(i), nodes.pop(i)) for i in sorted(positions, reverse=True)][::-1]
        (term, node), *others = group
        for i, (other, right) in enumerate(others):
            needed = set(result).union(*terms, *(later for later, _ in others[i + 1 :]))
            kept = "".join(letter for letter in dict.fromkeys(term + other) if letter in needed)
            last = not terms and i == len(others) - 1
            node = Einsum(node, right, f"{term},{other}->{result if last else kept}")
            term = result if last else kept
        terms.append(term)
        nodes.append(node)
    return _alone(terms[0], nodes[0], result)


@overload
def einsum(
    subscripts: Literal["ij,jk->ik", "ik,kj->ij", "mk,kn->mn", "bi,io->bo", "bi,ij->bj"],
    x: Shaped[L, tuple[M, K]],
    y: Shaped[R, tuple[K, N]],
    /,
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(
    subscripts: Literal["ij,kj->ik", "ik,jk->ij", "bi,oi->bo"], x: Shaped[L, tuple[M, K]], y: Shaped[R, tuple[N, K]], /
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bij,bjk->bik", "bmk,bkn->bmn"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[A, K, N]], /
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bij,bkj->bik", "bqd,bkd->bqk"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[A, N, K]], /
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bti,io->bto", "bij,jk->bik"], x: Shaped[L, tuple[A, M, K]], y: Shaped[R, tuple[K, N]], /
) -> Einsum[L, R, tuple[A, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bhqd,bhkd->bhqk", "bhid,bhjd->bhij"],
    x: Shaped[L, tuple[A, D, M, K]],
    y: Shaped[R, tuple[A, D, N, K]],
    /,
) -> Einsum[L, R, tuple[A, D, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["bhqk,bhkd->bhqd", "bhij,bhjd->bhid"],
    x: Shaped[L, tuple[A, D, M, K]],
    y: Shaped[R, tuple[A, D, K, N]],
    /,
) -> Einsum[L, R, tuple[A, D, M, N]]: ...
@overload
def einsum(
    subscripts: Literal["i,j->ij"], x: Shaped[L, tuple[M]], y: Shaped[R, tuple[N]], /
) -> Einsum[L, R, tuple[M, N]]: ...
@overload
def einsum(
    subscripts: Literal["i,i->"], x: Shaped[L, tuple[N]], y: Shaped[R, tuple[N]], /
) -> Einsum[L, R, tuple[()]]: ...
@overload
def einsum(
    subscripts: Literal["ij,ij->i", "bd,bd->b"], x: Shaped[L, tuple[M, N]], y: Shaped[R, tuple[M, N]], /
) -> Einsum[L, R, tuple[M]]: ...
@overload
def einsum(subscripts: str, x: Shaped[L, S], y: Shaped[R, S2], /) -> Einsum[L, R]: ...
@overload
def einsum(subscripts: str, x: Array, y: Shaped[R, S2], /) -> Einsum[Constant, R]: ...
@overload
def einsum(subscripts: str, x: Shaped[L, S], y: Array, /) -> Einsum[L, Constant]: ...
@overload
def einsum(subscripts: str, /, *operands: Operand, optimize: Path = True) -> Node: ...
@overload
def einsum(operand: Operand, sublist: Sublist, /, *operands: Operand | Sublist, optimize: Path = True) -> Node: ...
@answering
def einsum(*operands: Any, optimize: Path = True) -> Any:
    """Return the Einstein summation of any number of operands, as `numpy.einsum`.

    The subscripts name the axes of each operand by letters; the result sums the products over the letters it lacks. A
    letter that an operand has twice takes the diagonal, and `...` stands for axes that broadcast. In place of
    subscripts, a list of integers may follow each operand, and one the last for the result. More than two operands are
    contracted in the order that `numpy.einsum_path` finds, or in the order `optimize`: "greedy", "optimal", a path, or
    False for the order of the operands.

    Raise `ShapeError` if the subscripts are invalid or do not match the operands' axes.

    >>> x, y = wy.Constant(np.ones((2, 3))), wy.Constant(np.ones((3, 4)))
    >>> wy.einsum("ij,jk->ik", x, y).shape
    (2, 4)
    >>> wy.einsum(x, [0, 1], y, [1, 2], y, [1, 2], [0]).shape
    (2,)
    """
    if not operands:
        raise TypeError("einsum: the subscripts come first, as in wy.einsum('ij,jk->ik', x, y)")
    terms, result, given = _split(operands)
    if not any(isinstance(each, Node) for each in given):
        raise TypeError("einsum: takes at least one node; for arrays use numpy.einsum")
    nodes = as_nodes(*given)
    try:
        if len(terms) != len(nodes):
            raise ShapeError(f"subscripts {','.join(terms)!r} name {len(terms)} operands, not {len(nodes)}")
        terms, result, parts = _without_ellipsis(terms, result, list(nodes))
        _check(terms, result)
        pairs = [_diagonal(term, node) for term, node in zip(terms, parts, strict=True)]
    except ShapeError as error:
        raise shape_error("einsum", str(error), nodes) from None
    return _contracted([term for term, _ in pairs], result, [node for _, node in pairs], optimize)


# --- products of two operands -------------------------------------------------------------------------------------


def matmul(x1: Operand, x2: Operand) -> Node:
    """Return the matrix product `x1 @ x2`, as `numpy.matmul`. Raise `ShapeError` if the inner axes differ.

    >>> wy.matmul(wy.Constant([[1.0, 2.0]]), [[3.0], [4.0]]).forward().tolist()
    [[11.0]]
    """
    left, right = as_nodes(x1, x2)
    return MatMul(left, right)


def dot(a: Operand, b: Operand) -> Node:
    """Return the dot product, as `numpy.dot`: the sum over the last axis of `a` and the second-to-last axis of `b`.

    A number multiplies. Raise `ShapeError` if the summed axes differ.

    >>> wy.dot(wy.Constant([1.0, 2.0]), [3.0, 4.0]).forward().item()
    11.0
    """
    left, right = as_nodes(a, b)
    if not left.ndim or not right.ndim:
        return left * right
    if left.ndim == 1 or right.ndim <= 2:
        return MatMul(left, right)
    return tensordot(left, right, ((left.ndim - 1,), (right.ndim - 2,)))


def inner(a: Operand, b: Operand) -> Node:
    """Return the sum over the last axes of both operands, as `numpy.inner`; a number multiplies.

    Raise `ShapeError` if the last axes differ.

    >>> wy.inner(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [1.0, 10.0]).forward().tolist()
    [21.0, 43.0]
    """
    left, right = as_nodes(a, b)
    return left * right if not left.ndim or not right.ndim else tensordot(left, right, ((-1,), (-1,)))


def vdot(a: Operand, b: Operand) -> Node:
    """Return the sum of products of all elements in order, as `numpy.vdot`. Raise `ShapeError` if the sizes differ.

    >>> wy.vdot(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [[1.0, 1.0], [1.0, 1.0]]).forward().item()
    10.0
    """
    left, right = as_nodes(a, b)
    return MatMul(left.ravel(), right.ravel())


def vecdot(x1: Operand, x2: Operand) -> Node:
    """Return the sum of products over the last axis, as `numpy.vecdot`; the other axes broadcast.

    Raise `ShapeError` if the last axes differ.

    >>> wy.vecdot(wy.Constant([[1.0, 2.0], [3.0, 4.0]]), [1.0, 10.0]).forward().tolist()
    [21.0, 43.0]
    """
    left, right = as_nodes(x1, x2)
    return left.vector_dot(right)


def outer(a: Operand, b: Operand) -> Node:
    """Return the products of all pairs of elements, as `numpy.outer`: a matrix, for operands of any shape.

    >>> wy.outer(wy.Constant([1.0, 2.0]), [3.0, 4.0]).forward().tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    left, right = as_nodes(a, b)
    return left.ravel().expand_dims(1) * right.ravel()


def kron(a: Operand, b: Operand) -> Node:
    """Return the Kronecker product, as `numpy.kron`: blocks of `b`, each scaled by an element of `a`.

    >>> wy.kron(wy.Constant([1.0, 10.0]), [1.0, 2.0]).forward().tolist()
    [1.0, 2.0, 10.0, 20.0]
    """
    left, right = as_nodes(a, b)
    ndim = max(left.ndim, right.ndim)
    left, right = (x.expand_dims(tuple(range(ndim - x.ndim))) if x.ndim < ndim else x for x in (left, right))
    products = left.expand_dims(tuple(range(1, 2 * ndim, 2))) * right.expand_dims(tuple(range(0, 2 * ndim, 2)))
    dims: Any = tuple(product((x, y)) for x, y in zip(left.dims, right.dims, strict=True))
    return products.reshape(dims)


def tensordot(a: Operand, b: Operand, axes: int | Sequence[int | Sequence[int]] = 2) -> Node:
    """Return the sum of products over several axes, as `numpy.tensordot`.

    `axes` is how many: the last axes of `a` and the first of `b`. Or it is a pair: the axes of `a` and those of `b`.
    Raise `ShapeError` if the summed axes differ.

    >>> x = wy.Constant(np.ones((2, 3, 4)))
    >>> wy.tensordot(x, np.ones((4, 3, 5)), axes=([1, 2], [1, 0])).shape
    (2, 5)
    """
    left, right = as_nodes(a, b)
    if isinstance(axes, int):
        pairs = [list(range(left.ndim - axes, left.ndim)), list(range(axes))]
    else:
        pairs = [[each] if isinstance(each, int) else list(each) for each in axes]
    if len(pairs) != 2 or len(pairs[0]) != len(pairs[1]) or len(pairs[0]) > min(left.ndim, right.ndim):
        raise shape_error(
            "tensordot", f"axes must be a number or two lists of axes to sum, not {axes!r}", (left, right)
        )
    of_left, of_right = (
        [normalize_axis(axis, node.ndim) for axis in listed] for listed, node in zip(pairs, (left, right), strict=True)
    )
    x, y = list(LETTERS[: left.ndim]), list(LETTERS[left.ndim : left.ndim + right.ndim])
    for i, j in zip(of_left, of_right, strict=True):
        y[j] = x[i]
    kept = [letter for letter in (*x, *y) if (letter in x) != (letter in y)]
    return Einsum(left, right, f"{''.join(x)},{''.join(y)}->{''.join(kept)}")


def cross(a: Operand, b: Operand, axis: int = -1) -> Node:
    """Return the cross product of vectors of 3 elements along `axis`, as `numpy.cross`; the other axes broadcast.

    Raise `ShapeError` for vectors that do not have 3 elements.

    >>> wy.cross(wy.Constant([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0]).forward().tolist()
    [0.0, 0.0, 1.0]
    """
    nodes = as_nodes(a, b)
    for node in nodes:
        if not node.ndim or axis_size(node.dims[normalize_axis(axis, node.ndim)]) != 3:
            raise shape_error("cross", f"takes vectors of 3 elements along axis {axis}", nodes)
    (x0, x1, x2), (y0, y1, y2) = ([node.take(i, axis=axis) for i in range(3)] for node in nodes)
    products = (x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0)
    return stack(products, axis=axis)
