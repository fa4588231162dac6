"""Results with several parts, as named tuples; annotations are evaluated here, for the reference shows them."""

from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from wyrm.graph.node import IndexNode, Node

First = TypeVar("First", default=Any)
Second = TypeVar("Second", default=Any)
Third = TypeVar("Third", default=Any)


class EigResult(NamedTuple, Generic[First, Second]):
    """The result of `eig`."""

    eigenvalues: Node[Any, First]
    eigenvectors: Node[Any, Second]


class EighResult(NamedTuple, Generic[First, Second]):
    """The result of `eigh`."""

    eigenvalues: Node[Any, First]
    eigenvectors: Node[Any, Second]


class SVDResult(NamedTuple, Generic[First, Second, Third]):
    """The result of `svd`."""

    U: Node[Any, First]
    S: Node[Any, Second]
    Vh: Node[Any, Third]


class QRResult(NamedTuple, Generic[First, Second]):
    """The result of `qr`."""

    Q: Node[Any, First]
    R: Node[Any, Second]


class SlogdetResult(NamedTuple, Generic[First]):
    """The result of `slogdet`."""

    sign: Node[Any, First]
    logabsdet: Node[Any, First]


class LstsqResult(NamedTuple, Generic[First]):
    """The result of `lstsq`."""

    x: Node[Any, First]
    residuals: Node
    rank: IndexNode
    singular_values: Node
