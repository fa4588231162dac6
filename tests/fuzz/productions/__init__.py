"""The tables of productions."""

from tests.fuzz.productions import arrays, elementwise, indexing, linear_algebra, loops, nested, networks, transforms

TABLES = [
    elementwise.TABLE,
    arrays.TABLE,
    indexing.TABLE,
    linear_algebra.TABLE,
    networks.TABLE,
    loops.TABLE,
    transforms.TABLE,
    nested.TABLE,
]
