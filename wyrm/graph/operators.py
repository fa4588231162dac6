"""The class to which ops add operators; `python -m wyrm.declare` generates their types in `operators.pyi`."""


class Node:
    """The operators of `Node`."""

    __slots__ = ()
