"""The classes to which ops add methods; `python -m wyrm.declare` generates their types in `methods.pyi`."""


class Node:
    """The methods of `Node`."""

    __slots__ = ()


class Parameter:
    """The methods of `Parameter`."""

    __slots__ = ()


class NarrowWeight:
    """The methods of `NarrowWeight`."""

    __slots__ = ()


class IndexNode:
    """The methods and comparisons of `IndexNode`."""

    __slots__ = ()
