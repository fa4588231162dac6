"""Einstein summation of any number of operands, with NumPy's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, as_nodes, shape_error
from wyrm.graph.axes import Axis, axis_size, broadcast
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.typing import S2, A, Array, D, K, M, N, Shaped
from wyrm.ops.elementwise.elementwise import L, R, S
from wyrm.ops.products.einsum import LETTERS, Einsum, axes_by_letter
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import is_integer

# The axes of an operand as integers, as an alternative to letters.
Sublist: TypeAlias = Sequence[int | EllipsisType]
Path: TypeAlias = bool | Literal["greedy", "optimal"] | Sequence[str | tuple[int, ...]]


def _letters_of(sublist: Sublist) -> str:
    """Return a sublist of axes as letters."""
    count = len(LETTERS)
    if not all(each is Ellipsis or (is_integer(each) and 0 <= each < count) for each in sublist):
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


def _check_terms(terms: Sequence[str], result: str) -> None:
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
            others = [axis for axis in range(node.ndim) if axis not in (first, second)]
            if None in sizes and node.dims[first] == node.dims[second]:
                node = node.erase().diagonal(0, first, second)
            elif sizes[0] is None or sizes[0] != sizes[1]:
                raise ShapeError(
                    f"{term!r} takes a diagonal of axes {node.dims[first]!r} and {node.dims[second]!r}, whose sizes "
                    f"must be equal"
                )
            else:
                kept: Any = (*(node.dims[axis] for axis in others), sizes[0] ** 2)
                flat = node.erase().transpose(*others, first, second).reshape(kept)
                node = flat[..., :: sizes[0] + 1]
            term = "".join(term[axis] for axis in others) + letter
    return term, node


def _einsum_of_one(term: str, node: Node, result: str) -> Node:
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
        return _einsum_of_one(terms[0], nodes[0], result)
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
    return _einsum_of_one(terms[0], nodes[0], result)


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
@explains_keywords
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
        _check_terms(terms, result)
        pairs = [_diagonal(term, node) for term, node in zip(terms, parts, strict=True)]
        if len(pairs) > 2:  # `numpy.einsum_path` would raise an error that names no axis
            axes_by_letter([term for term, _ in pairs], [node.dims for _, node in pairs])
    except ShapeError as error:
        raise shape_error("einsum", str(error), nodes) from None
    return _contracted([term for term, _ in pairs], result, [node for _, node in pairs], optimize)
